"""Looks are apart and stable."""

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
    assert (plotting.colour("eighth"), plotting.marker("eighth")) == names.OTHERS
    assert names.OTHERS not in names.LOOKS.values() and plotting.label("eighth") == "eighth"
