"""Looks are apart and stable; panels lose no observation and say what they cannot draw."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib import plotting
from lib.paths import ROOT
from lib.results import names


@pytest.fixture
def ax():
    plotting.use_style()
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_each_architecture_has_its_own_look():
    cells = sorted(names.LOOKS)
    assert {"rnn", "lem", "dt_lstm"} <= set(cells)
    assert len({(plotting.colour(cell), plotting.marker(cell)) for cell in cells}) == len(cells)


def test_architectures_are_called_as_their_cells_are():
    from lib.cells import cell_class, cell_names

    for name in {*cell_names()} & {*names.LABELS}:  # others go by their file's name
        same = plotting.label(name).lower() == cell_class(name).title.lower()
        assert same or name == "irnn", name
    assert [plotting.label(name) for name in ("cornn", "irnn")] == ["coRNN", "iRNN"]
    assert plotting.label("fashion_mnist") == "Fashion MNIST"


def test_an_unlisted_name_looks_the_same_in_every_process():
    program = "from lib.plotting import colour, marker; print(colour('eighth'), marker('eighth'))"
    seen = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "7", "PATH": "", "MPLCONFIGDIR": "/tmp"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.split() == [plotting.colour("eighth"), plotting.marker("eighth")]
    assert plotting.label("eighth") == "eighth"


def test_importing_statistics_and_plotting_never_loads_torch():
    program = (
        "import sys, lib.plotting, lib.results.artefacts, lib.results.published, lib.analysis.selection, lib.analysis.equality, "
        "lib.analysis.errors; sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_task_labels_follow_the_text():
    assert plotting.task_label("mnist", "permuted", "uniform") == "MNIST, permuted × uniform"
    assert plotting.task_label("imdb", "sequential", "none") == "IMDB, sequential"


def test_a_histogram_accounts_for_every_value(ax):
    values = np.array([-50.0, -3.0, 2.0, 2.5, -np.inf, -np.inf, np.inf, np.nan])
    lines = [(-40.35, "red", "border"), (40.35, "red", "border")]
    drawn = plotting.histogram(ax, values, lines=lines, bins=10)
    assert drawn["count"].sum() == len(values)
    off = drawn[drawn["what"] != "bin"].set_index(["what", "left"])["count"]
    assert off["infinite", -np.inf] == 2
    assert off["infinite", np.inf] == 1
    assert drawn.loc[drawn["what"] == "undefined", "count"].item() == 1
    assert "4 in the bars" in ax.get_title(loc="left")
    assert "2 at −∞, 1 at +∞, 1 undefined" in ax.get_title(loc="left")
    assert ax.get_legend_handles_labels()[1] == ["border"]
    assert ax.get_xlim()[0] < -50 and ax.get_xlim()[1] > 40.35


def test_a_window_counts_what_lies_beyond_it(ax):
    values = np.array([-900.0, -800.0, -3.0, 3.0, 70.0, -np.inf])
    drawn = plotting.histogram(ax, values, window=60.0)
    assert drawn["count"].sum() == len(values)
    assert drawn.loc[drawn["what"] == "beyond", "count"].tolist() == [2, 1]
    assert "off the axis: 2 left, 1 right, 1 at −∞" in ax.get_title(loc="left")
    assert ax.get_xlim() == (-60.0, 60.0)


@pytest.mark.parametrize("values", [[], [np.nan], [-np.inf, -np.inf], [1.0, 1.0]])
def test_a_histogram_of_nothing_much_still_draws(ax, values):
    drawn = plotting.histogram(ax, np.array(values))
    ax.figure.canvas.draw()
    assert drawn["count"].sum() == len(values)


def test_a_scatter_places_infinite_metrics_at_the_edges(ax):
    frame = pd.DataFrame(
        {
            "architecture": ["rnn", "lstm", "eighth", "gru"],
            "metric": [-3.0, -np.inf, np.inf, np.nan],
            "accuracy": [0.1, 0.2, 0.3, 0.4],
        }
    )
    plotting.scatter_architectures(ax, frame)
    ax.figure.canvas.draw()
    found = ax.get_legend_handles_labels()[1]
    assert found == ["Basic RNN", "LSTM, −∞", "eighth, +∞", "GRU, undefined"]
    places = {c.get_label(): c.get_offsets()[:, 0] for c in ax.collections if len(c.get_offsets())}
    assert places["LSTM, −∞"].item() < -3.0 < 0.0 < places["eighth, +∞"].item()
    low, high = ax.get_xlim()
    assert low < places["LSTM, −∞"].item() and places["eighth, +∞"].item() < high


def test_a_scatter_of_no_attempts_still_draws(ax):
    frame = pd.DataFrame({"architecture": [], "metric": [], "accuracy": []})
    plotting.scatter_architectures(ax, frame)
    plotting.legend_below(ax.figure)
    ax.figure.canvas.draw()
    assert ax.figure.legends == []


def test_one_legend_serves_all_panels():
    plotting.use_style()
    figure, axes = plt.subplots(1, 2)
    for ax, architectures in zip(axes, (["rnn", "lstm"], ["lstm", "gru"]), strict=True):
        frame = pd.DataFrame(
            {"architecture": architectures, "metric": [-1.0, -2.0], "accuracy": [0.1, 0.2]}
        )
        plotting.scatter_architectures(ax, frame)
    plotting.legend_below(figure)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Basic RNN", "LSTM", "GRU"]
    plt.close(figure)
