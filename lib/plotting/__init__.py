"""One look for every figure: the style, and the panels that notebooks share.

Architectures keep their colour and marker (`lib.results.names`) in all figures; markers repeat the information for print
in grey.
"""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.results.names import LOOKS, colour, label, marker

__all__ = [
    "ADJOINT_METRIC",
    "colour",
    "histogram",
    "label",
    "legend_below",
    "marker",
    "scatter_architectures",
    "task_label",
    "use_style",
]

ADJOINT_METRIC = r"adjoint metric  $\log_{10}\,\|\lambda_1\|_2\,/\,\|\lambda_T\|_2$"
"""Axis label of (3.6)."""


def use_style() -> None:
    """Set Matplotlib's defaults for every figure of the project."""
    mpl.rcParams.update(
        {
            "figure.figsize": (7.0, 4.2),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "savefig.dpi": 160,
            "svg.hashsalt": "lib.plotting",
            "font.size": 11,
            "axes.titlesize": 11,
            "axes.labelsize": 11,
            "legend.fontsize": 10,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#DDDDDD",
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.8,
            "lines.markersize": 7,
            "axes.prop_cycle": mpl.cycler(color=[colour for colour, _ in LOOKS.values()]),
            "image.cmap": "viridis",
        }
    )


def task_label(dataset: str, order: str, noise: str) -> str:
    """Return a task as the texts write it, such as ``MNIST, permuted × uniform``."""
    return f"{label(dataset)}, {order}" + ("" if noise == "none" else f" × {noise}")


def histogram(
    ax: Axes,
    values: np.ndarray,
    *,
    lines: Sequence[tuple[float, str, str]] = (),
    window: float | None = None,
    bins: int = 120,
) -> pd.DataFrame:
    """Draw a histogram with a logarithmic count axis and say what it cannot show.

    `values` have any shape; infinite and undefined ones have no place on the axis, so their numbers are written into the
    figure. `lines` are vertical ones as (position, colour, label); those of one label share an entry in the legend. `window`
    is half the width of the axis around zero; None shows all finite values and all lines.

    Returns where each value went: ``what`` (bin, beyond the axis, infinite, undefined), ``left``, ``right`` and
    ``count``, which add up to the number of values.
    """
    values = np.asarray(values, float).ravel()
    finite = values[np.isfinite(values)]
    low, high = (-window, window) if window else _reach(finite, [line[0] for line in lines])
    counts, edges = np.histogram(finite, bins=bins, range=(low, high))
    ax.stairs(counts, edges, fill=True, color="#4C78A8")
    ax.set_xlim(low, high)
    if counts.any():
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.7)
    seen = set()
    for position, tint, text in lines:
        ax.axvline(position, color=tint, linestyle="--", label=None if text in seen else text)
        seen.add(text)
    rows = [("bin", *row) for row in zip(edges[:-1], edges[1:], counts, strict=True)]
    rows += [
        ("beyond", -np.inf, low, (finite < low).sum()),
        ("beyond", high, np.inf, (finite > high).sum()),
        ("infinite", -np.inf, -np.inf, np.isneginf(values).sum()),
        ("infinite", np.inf, np.inf, np.isposinf(values).sum()),
        ("undefined", np.nan, np.nan, np.isnan(values).sum()),
    ]
    left, right, *special = (f"{row[-1]:,}" for row in rows[-5:])
    beyond = f"{left} left, {right} right, " if window else ""
    ax.set_title(
        f"{counts.sum():,} in the bars; off the axis: {beyond}"
        "{} at −∞, {} at +∞, {} undefined".format(*special),
        loc="left",
    )
    return pd.DataFrame(rows, columns=["what", "left", "right", "count"])


def _reach(finite: np.ndarray, positions: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis that shows all values and lines, with a margin."""
    places = np.concatenate([finite, positions])
    low, high = (places.min(), places.max()) if places.size else (-1.0, 1.0)
    margin = 0.02 * max(high - low, 1.0)
    return low - margin, high + margin


def scatter_architectures(
    ax: Axes, frame: pd.DataFrame, *, x: str = "metric", y: str = "accuracy"
) -> None:
    """Draw one point per row of `frame`, coloured and marked by its ``architecture``.

    Rows of infinite `x` have no place on the axis: they are drawn hollow at its left or right edge. Rows of
    undefined `x` have none at all. The names for the legend (`legend_below`) tell both.
    """
    finite = frame.loc[np.isfinite(frame[x].astype(float)), x]
    low, high = (finite.min(), finite.max()) if len(finite) else (-1.0, 1.0)
    # The line at zero belongs to the picture: a ratio of one is a gradient neither vanished nor exploded.
    low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.08 * max(high - low, 1.0)
    ax.axvline(0.0, color="black", linestyle="--", linewidth=1.2)
    for architecture, rows in frame.groupby("architecture", sort=False):
        place = rows[x].astype(float)
        inside = np.isfinite(place)
        tint, shape, name = colour(architecture), marker(architecture), label(architecture)
        if inside.any():
            ax.scatter(
                place[inside],
                rows.loc[inside, y],
                color=tint,
                edgecolors="white",
                linewidths=0.5,
                alpha=0.8,  # points of different architectures often coincide
                marker=shape,
                label=name,
                s=100,
            )
        for sign, text in ((-1, "−∞"), (1, "+∞")):
            edge = np.isinf(place) & (np.sign(place) == sign)
            if edge.any():
                ax.scatter(
                    np.full(edge.sum(), low - margin if sign < 0 else high + margin),
                    rows.loc[edge, y],
                    facecolors="none",
                    edgecolors=tint,
                    marker=shape,
                    label=f"{name}, {text}",
                    s=100,
                )
        if place.isna().any():
            ax.scatter([], [], color=tint, marker=shape, label=f"{name}, undefined", s=100)
    ax.set_xlim(low - 2 * margin, high + 2 * margin)
    ax.set_xlabel(ADJOINT_METRIC)


def legend_below(figure: Figure, *, ncols: int = 4) -> None:
    """Give all panels of `figure` one legend below them; a name shared by panels appears once."""
    entries = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    if entries:
        figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside lower center",
            ncols=min(ncols, len(entries)),
        )
