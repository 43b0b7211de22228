"""Looks are apart and stable."""

from processes import python

from lib import plotting
from lib.cells import cell_class, cell_names
from lib.results import names


def test_each_architecture_has_its_own_look_and_the_name_of_its_cell():
    cells = sorted(names.LOOKS)
    assert {"rnn", "lem", "dt_lstm"} <= set(cells)
    assert len({(plotting.colour(cell), plotting.marker(cell)) for cell in cells}) == len(cells)
    for name in {*cell_names()} & {*names.LABELS} - {"irnn"}:  # others go by their file's name
        assert plotting.label(name).lower() == cell_class(name).title.lower(), name
    assert plotting.task_label("mnist", "permuted", "uniform") == "MNIST, permuted × uniform"
    assert plotting.task_label("fashion_mnist", "sequential", "none") == "Fashion MNIST, sequential"


def test_an_unlisted_name_looks_the_same_in_every_process():
    program = "from lib.plotting import colour, marker; print(colour('eighth'), marker('eighth'))"
    env = {"PYTHONHASHSEED": "7", "PATH": "", "MPLCONFIGDIR": "/tmp"}
    seen = python("-c", program, env=env)
    assert seen.stdout.split() == [plotting.colour("eighth"), plotting.marker("eighth")]
    assert plotting.label("eighth") == "eighth"
