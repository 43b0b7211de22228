"""Drawings that several notebooks share: each shows the numbers that it gets."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from random_groups import group_sampler
from study.figures.networks import plot_accuracies, plot_curves, plot_histograms
from study.figures.style import legend_below
from study.results.names import color_of


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    _, ax = plt.subplots()
    return ax


def curve(label, *runs, steps=(10, 20)):
    """Return the rows of a network, with the values of each run at these steps."""
    parts = []
    for replicate, values in enumerate(runs):
        parts.append(pd.DataFrame({"step": steps, "value": values, "replicate": replicate}))
    about = {"run": f"{label}, a task", "label": label, "architecture": label.lower()}
    return pd.concat(parts).assign(**about)


def test_a_curve_is_the_mean_with_a_band_of_all_runs(ax):
    plot_curves(ax, curve("LEM", [1.0, 3.0], [3.0, 7.0]))
    (line,) = ax.lines
    assert line.get_xdata().tolist() == [10, 20]
    assert line.get_ydata().tolist() == [2, 5]
    assert (line.get_label(), line.get_color()) == ("LEM", color_of("lem"))
    (band,) = ax.collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert corners == {(10, 1), (10, 3), (20, 3), (20, 7)}


def test_the_curve_of_a_single_run_has_no_band(ax):
    plot_curves(ax, curve("LEM", [1.0, 3.0]))
    assert len(ax.lines) == 1 and not ax.collections


def test_line_styles_are_given_by_label(ax):
    frame = pd.concat([curve("LEM", [1.0, 3.0]), curve("LSTM", [2.0, 4.0])])
    plot_curves(ax, frame, styles={"LSTM": "--"})
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--"]


def test_markers_of_equal_curves_do_not_hide_each_other(ax):
    steps = range(16)
    networks = [curve(label, [0.5] * 16, steps=steps) for label in ("LEM", "LSTM")]
    plot_curves(ax, pd.concat(networks))
    assert [line.get_markevery() for line in ax.lines] == [(0, 2), (1, 2)]


def test_accuracies_have_one_panel_per_task_with_a_line_at_chance():
    scores = {("LEM", "short"): 80.0, ("LSTM", "short"): 60.0, ("LEM", "long"): 40.0}
    ds = group_sampler(scores, spread=1e-6, guess=10.0)(np.random.default_rng(0), 2)
    figure, drawn = plot_accuracies(ds)
    heights = {}
    for ax in figure.axes:
        for line in ax.lines:
            heights[ax.get_title(), line.get_label()] = float(line.get_ydata()[0])
    expected = {
        ("short", "LEM"): 80,
        ("short", "LSTM"): 60,
        ("short", "chance"): 10,
        ("long", "LEM"): 40,
        ("long", "chance"): 10,
    }
    assert heights == pytest.approx(expected, abs=1e-3)
    assert drawn["value"].max() == pytest.approx(0.8, abs=1e-5), "the data are shares"


def test_histograms_are_means_over_runs():
    """One run has all of its time steps in a bin, the other has half of them in another one."""
    bins = 10 ** np.array([-0.95, -0.75])  # with an empty bin between them
    trained = [(0, bins[0], 1.0), (1, bins[0], 0.5), (1, bins[1], 0.5)]
    untrained = [(0, bins[1], 1.0), (1, bins[1], 1.0)]
    parts = []
    for stage, rows in (("trained", trained), ("untrained", untrained)):
        part = pd.DataFrame(rows, columns=["replicate", "dt", "share"])
        parts.append(part.assign(stage=stage, scale=0))
    figure = plot_histograms(pd.concat(parts), ["one kind"], "lem")
    (ax,) = figure.axes
    steps = {patch.get_label(): patch.get_data() for patch in ax.patches}
    assert steps["trained"].values.tolist() == [0.75, 0, 0.25]
    assert np.log10(steps["trained"].edges) == pytest.approx([-1.0, -0.9, -0.8, -0.7])
    assert steps["untrained"].values.tolist() == [1]
    assert np.log10(steps["untrained"].edges) == pytest.approx([-0.8, -0.7])


def test_panels_share_one_legend():
    figure, (first, second) = plt.subplots(1, 2, layout="constrained")
    first.plot([0, 1], label="LEM")
    second.plot([0, 1], label="LEM")
    second.plot([0, 1], label="LSTM")
    legend_below(figure)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["LEM", "LSTM"]


def test_panels_without_labels_have_no_legend():
    figure, ax = plt.subplots(layout="constrained")
    ax.plot([0, 1])
    legend_below(figure)
    assert not figure.legends
