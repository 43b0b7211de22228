"""Figures of the networks of a group: curves over training, and histograms of time steps."""

import math
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from study.results.names import color_of, marker_of
from study.results.networks import BIN_WIDTH, curves


def plot_curves(ax: Axes, frame: pd.DataFrame, *, styles: Mapping[str, str] | None = None) -> None:
    """Draw one line per network: the mean over runs, with a band from the smallest to the largest.

    Parameters
    ----------
    ax
        Axes to draw on.
    frame
        `study.results.networks.curves`.
    styles
        Line styles by label, for networks of one architecture; solid by default.
    """
    networks = frame["run"].nunique()
    for number, (_, rows) in enumerate(frame.groupby("run", sort=False)):
        first = rows.iloc[0]
        by_step = rows.groupby("step")["value"]
        mean = by_step.mean()
        tint = color_of(first["architecture"])
        style = (styles or {}).get(first["label"], "-")
        distance = math.ceil(len(mean) / 8)  # at most eight markers
        # The markers of curves that coincide must not hide each other.
        shift = number * distance // networks
        ax.plot(
            mean.index,
            mean,
            style,
            color=tint,
            label=first["label"],
            markersize=4,
            marker=marker_of(first["architecture"]),
            markevery=(shift, distance),
        )
        if by_step.size().max() > 1:
            ax.fill_between(mean.index, by_step.min(), by_step.max(), color=tint, alpha=0.15, lw=0)


def plot_accuracies(
    ds: xr.Dataset, *, styles: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw test accuracies in percent over training, one panel per task.

    Parameters
    ----------
    ds
        Results of a group.
    styles
        Line styles by label.

    Returns
    -------
    figure
        With a dotted line at the accuracy of guessing.
    drawn
        The `study.results.networks.curves` behind it.
    """
    drawn = curves(ds)
    tasks = list(dict.fromkeys(drawn["task"]))
    size = (4 + 3 * len(tasks), 4.2)
    figure, axes = plt.subplots(1, len(tasks), figsize=size, sharey=True, squeeze=False)
    for ax, task in zip(axes[0], tasks, strict=True):
        rows = drawn[drawn["task"] == task]
        plot_curves(ax, rows.assign(value=100 * rows["value"]), styles=styles)
        guess = 100 * float(ds["guess_metric"].where(ds["task"] == task).max())
        ax.axhline(guess, color="black", linestyle=":", label="chance")
        ax.set(title=task, xlabel="training steps (batches)")
    axes[0, 0].set(ylabel="test accuracy (%)")
    axes[0, -1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure, drawn


def plot_histograms(
    rows: pd.DataFrame, names: list[str], architecture: str, *, log: bool = False
) -> Figure:
    """Draw histograms of a network's time steps, one panel per kind of step.

    Parameters
    ----------
    rows
        `study.stats.scales.histograms`.
    names
        Titles of the panels.
    architecture
        Gives the color.
    log
        Whether shares are on a logarithmic scale.

    Returns
    -------
    matplotlib.figure.Figure
        Bars after training, a dotted line before; means over runs.
    """
    size = (2.4 + 2.4 * len(names), 3.4)
    figure, axes = plt.subplots(
        1, len(names), figsize=size, squeeze=False, sharex=True, sharey=True
    )
    looks = {
        "trained": {"fill": True, "color": color_of(architecture), "alpha": 0.8},
        "untrained": {"color": "black", "linestyle": ":"},
    }
    for scale, (ax, name) in enumerate(zip(axes[0], names, strict=True)):
        for stage, look in looks.items():
            of_kind = rows[(rows["scale"] == scale) & (rows["stage"] == stage)]
            mean = of_kind.groupby("dt")["share"].sum() / max(1, of_kind["replicate"].nunique())
            left_edges = np.round(np.log10(mean.index.to_numpy()) - BIN_WIDTH / 2, 1)
            last = left_edges.max() + 1.5 * BIN_WIDTH
            edges = np.round(np.arange(left_edges.min(), last, BIN_WIDTH), 1)
            heights = dict(zip(left_edges, mean, strict=True))
            values = [heights.get(edge, 0.0) for edge in edges[:-1]]
            ax.stairs(values, 10**edges, label=stage, **look)
        ax.set(xscale="log", xlabel="time step", title=name)
        ax.xaxis.set_minor_formatter(NullFormatter())
        if log:
            ax.set(yscale="log")
    axes[0, 0].set(ylabel="share of the steps")
    axes[0, 0].legend()
    return figure
