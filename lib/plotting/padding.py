"""The figures of experiment 2.3: accuracy by method, balance of the adjoints, weight of the penalty."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.plotting import legend_below

LABELS = {
    "adjoint": "RNN adjoint",
    "coadjoint": "RNN coadjoint",
    "constrained": "RNN constrained",
    "lstm": "LSTM",
    "reservoir": "RNN RC",
    "linear": "Linear RNN adjoint",
}
"""How Table 2.2 calls the methods; the last is not in it."""

_COLOURS = {
    "adjoint": "#000000",
    "coadjoint": "#0072B2",
    "constrained": "#009E73",
    "lstm": "#E69F00",
    "reservoir": "#CC79A7",
    "linear": "#56B4E9",
}
_MARKERS = {
    "adjoint": "o",
    "coadjoint": "s",
    "constrained": "^",
    "lstm": "D",
    "reservoir": "v",
    "linear": "P",
}
_NEAR, _FAR = 2, 20
_TICKS = (-1000, -100, -2, 0, 2, 100, 1000)


def plot_accuracy(
    curves: xr.DataArray, published: pd.DataFrame | None, guess: float
) -> tuple[Figure, pd.DataFrame]:
    """Draw the median test accuracy after every epoch, one panel a padding (Figures 2.4 and 2.5).

    Parameters
    ----------
    curves : (padding, method, replicate, epoch)
        Test accuracy; undefined where there was no attempt, or where it had ended.
    published
        Final medians in percent with ``padding``, ``method``, ``median``: short lines at the right edge; None, or no rows,
        where there are none.
    guess
        Accuracy of a network that always names the largest class.

    Returns
    -------
    figure : Figure
    data : pandas.DataFrame
        ``padding``, ``method``, ``epoch``, ``median``, ``lowest``, ``highest`` in percent, what is drawn.
    """
    groups = (100 * curves).to_series().dropna()
    data = (
        groups.groupby(["padding", "method", "epoch"], sort=False)
        .agg(["median", "min", "max"])
        .set_axis(["median", "lowest", "highest"], axis=1)
        .reset_index()
    )
    paddings = curves["padding"].values.tolist()
    figure, axes = plt.subplots(
        1, len(paddings), figsize=(2.6 * len(paddings) + 1.2, 4.2), sharey=True, squeeze=False
    )
    for ax, padding in zip(axes[0], paddings, strict=True):
        for method, rows in data[data["padding"] == padding].groupby("method", sort=False):
            tint = _COLOURS[method]
            ax.fill_between(
                rows["epoch"], rows["lowest"], rows["highest"], color=tint, alpha=0.15, linewidth=0
            )
            ax.plot(
                rows["epoch"],
                rows["median"],
                color=tint,
                marker=_MARKERS[method],
                markersize=5,
                label=LABELS[method],
            )
        _mark_published(ax, published, padding, curves["epoch"].values)
        ax.axhline(100 * guess, color="0.4", linestyle=":", linewidth=1.2, label="largest class")
        ax.set_title(f"padding {padding}x")
        ax.set_xlabel("epoch")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_ylim(0, 100)
    axes[0, 0].set_ylabel("test accuracy (%)")
    legend_below(figure)
    return figure, data


def _mark_published(
    ax: Axes, published: pd.DataFrame | None, padding: int, epochs: np.ndarray
) -> None:
    if published is None or published.empty:
        return
    right = epochs.max() + 0.08 * max(np.ptp(epochs), 1)
    for row in published[published["padding"] == padding].itertuples():
        ax.plot(
            [right, right + 0.12 * max(np.ptp(epochs), 1)],
            [row.median] * 2,
            color=_COLOURS[row.method],
            linewidth=3,
            solid_capstyle="butt",
        )
    ax.plot([], [], color="0.4", linewidth=3, label="published, at the right")


def plot_balance(rows: pd.DataFrame) -> Figure:
    """Draw test accuracy against the adjoint metric, one panel a padding (Figure 2.6).

    Parameters
    ----------
    rows
        Completed attempts: ``padding``, ``method``, ``metric``, ``accuracy``; a metric that is infinite is drawn hollow at
        the edge.

    Notes
    -----
    Where a metric lies farther from 0 than `_FAR`, the axis is logarithmic beyond `_NEAR` on both sides: a gradient that
    vanished by hundreds of decimal places would otherwise press all others onto one line.
    """
    paddings = sorted(rows["padding"].unique())
    # More than four panels in one line cannot be read on a page.
    columns = len(paddings) if len(paddings) <= 4 else -(-len(paddings) // 2)
    lines = -(-len(paddings) // columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(2.6 * columns + 1.2, 1.4 + 2.8 * lines),
        sharey=True,
        squeeze=False,
    )
    for ax in axes.ravel()[len(paddings) :]:
        ax.remove()
    finite = np.append(rows.loc[np.isfinite(rows["metric"]), "metric"], 0.0)
    low, high = finite.min(), finite.max()
    far = max(-low, high) > _FAR
    margin = 0.08 * max(high - low, 1.0)
    ends = (low - 1.5 * margin, high + 1.5 * margin)
    if far:  # in steps of the logarithmic part
        ends = (min(2 * low, -_NEAR), max(2 * high, _NEAR))
    for ax, padding in zip(axes.ravel(), paddings, strict=False):
        if far:
            ax.set_xscale("symlog", linthresh=_NEAR, linscale=2)
            ax.set_xticks([place for place in _TICKS if ends[0] <= place <= ends[1]])
            ax.xaxis.set_major_formatter("{x:g}")
        ax.axvline(0, color="black", linestyle="--", linewidth=1.2)
        for method, group in rows[rows["padding"] == padding].groupby("method", sort=False):
            inside = np.isfinite(group["metric"])
            place = group["metric"].clip(low - margin, high + margin)
            style = {"marker": _MARKERS[method], "s": 60, "edgecolors": _COLOURS[method]}
            ax.scatter(
                place[inside],
                100 * group.loc[inside, "accuracy"],
                color=_COLOURS[method],
                alpha=0.8,
                label=LABELS[method],
                **style,
            )
            ax.scatter(
                place[~inside], 100 * group.loc[~inside, "accuracy"], facecolors="none", **style
            )
        ax.set_title(f"padding {padding}x")
        ax.set_xlim(ends)
        ax.set_ylim(0, 100)
    for ax in axes.ravel()[: len(paddings)][-columns:]:  # the lowest of each column
        ax.set_xlabel(
            r"$\log_{10}\,\|\lambda_1\|_2\,/\,\|\lambda_T\|_2$"
            + (f"\n(logarithmic beyond ±{_NEAR})" if far else "")
        )
    for ax in axes[:, 0]:
        ax.set_ylabel("test accuracy (%)")
    legend_below(figure)
    return figure


def plot_kappa(rows: pd.DataFrame, guess: float, names: dict[str, str]) -> Figure:
    """Draw test accuracy against kappa, a row an initialisation and a column a padding (Figure A2).

    Parameters
    ----------
    rows
        The sweep's attempts: ``padding``, ``initialisation``, ``kappa``, ``status``, ``accuracy``.
    guess
        Accuracy of a network that always names the largest class.
    names
        A title for each initialisation.
    """
    paddings = rows["padding"].unique().tolist()
    kappas = np.sort(rows["kappa"].unique())
    positive = kappas[kappas > 0].min(initial=np.inf)
    figure, axes = plt.subplots(
        len(names), len(paddings), figsize=(7.6, 5.6), sharex=True, sharey=True, squeeze=False
    )
    for line, (initialisation, name) in zip(axes, names.items(), strict=True):
        for ax, padding in zip(line, paddings, strict=True):
            group = rows[(rows["initialisation"] == initialisation) & (rows["padding"] == padding)]
            done = group[group["status"] == "completed"]
            ax.scatter(
                done["kappa"],
                100 * done["accuracy"],
                color=_COLOURS["coadjoint"],
                s=30,
                alpha=0.7,
                label="one network",
            )
            median = 100 * done.groupby("kappa")["accuracy"].median()
            ax.plot(median.index, median, color=_COLOURS["coadjoint"], label="median")
            failed = group.loc[group["status"] == "diverged", "kappa"]
            ax.scatter(failed, np.zeros(len(failed)), color="#D55E00", marker="x", clip_on=False)
            ax.axhline(
                100 * guess, color="0.4", linestyle=":", linewidth=1.2, label="largest class"
            )
            ax.set_xscale("symlog", linthresh=positive if np.isfinite(positive) else 1.0)
            ax.set_xticks(kappas, [f"{kappa:g}" for kappa in kappas])
            ax.minorticks_off()
            ax.set_ylim(0, 100)
            ax.set_title(f"{name}, padding {padding}x")
    for ax in axes[-1]:
        ax.set_xlabel(r"penalty weight $\kappa$")
    for ax in axes[:, 0]:
        ax.set_ylabel("test accuracy (%)")
    if (rows["status"] == "diverged").any():
        axes[0, 0].scatter([], [], color="#D55E00", marker="x", label="diverged")
    legend_below(figure)
    return figure
