"""Figures of linear models fitted task by task: effects with intervals, residuals, tests, times."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from lib.plotting import colour, label, legend_below, marker

_ORDERS = {"sequential": "seq.", "permuted": "perm."}
_BOX = {"patch_artist": True, "showfliers": False, "widths": 0.6}


def plot_effects(
    coefficients: pd.DataFrame, architectures: Sequence[str], *, reference: str
) -> Figure:
    """Draw estimates with their intervals across tasks, as Figure 1.2.

    Parameters
    ----------
    coefficients
        Rows of `lib.analysis.task_models.TaskFits.coefficients` of one term, with ``estimate``, ``low`` and ``high``.
    architectures
        Which of them to draw, from the top down.
    reference
        What the effects refer to, for the axis.

    Returns
    -------
    matplotlib.figure.Figure
        One row of panels per architecture and one column per data set; each panel has one point per variation. An
        estimate without an error has no bar.
    """
    datasets, variations = _levels(coefficients)
    figure, axes = plt.subplots(
        len(architectures),
        len(datasets),
        figsize=(max(4.5, 1.4 + 1.75 * len(datasets)), 0.9 + 1.7 * len(architectures)),
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    for row, architecture in zip(axes, architectures, strict=True):
        for ax, dataset in zip(row, datasets, strict=True):
            here = (coefficients["architecture"] == architecture) & (
                coefficients["dataset"] == dataset
            )
            rows = coefficients[here]
            rows = rows.dropna(subset=["estimate"])
            place = [variations.index(key) for key in _variation(rows)]
            bars = (rows[["low", "high"]].sub(rows["estimate"], axis=0)).abs().fillna(0).T
            ax.axhline(0, color="black", linewidth=0.8, linestyle="--")
            ax.errorbar(
                place,
                rows["estimate"],
                yerr=bars.to_numpy(),
                fmt=marker(architecture),
                color=colour(architecture),
                markersize=5,
                elinewidth=1.2,
                capsize=2.5,
            )
            ax.set_xlim(-0.6, len(variations) - 0.4)
        row[0].set_ylabel(_two_lines(architecture))
    _name_panels(axes, datasets, variations)
    figure.supylabel(f"effect on task accuracy against {label(reference)}", fontsize=10)
    return _settle(figure)


def plot_times(times: pd.DataFrame, frame: pd.DataFrame, *, window: int) -> Figure:
    """Draw boxes of convergence time, as Figure 1.3.

    Parameters
    ----------
    times
        Result of `lib.analysis.comparisons.convergence_times`.
    frame
        All attempts of the design, for the order of tasks and architectures.
    window
        Epochs that are looked at: the end of the axis.

    Returns
    -------
    matplotlib.figure.Figure
        One column of panels per architecture and one row per data set. Boxes hold the quartiles, whiskers reach 1.5
        times further; every attempt is a point.
    """
    datasets, variations = _levels(frame)
    architectures = frame["architecture"].unique().tolist()
    figure, axes = plt.subplots(
        len(datasets),
        len(architectures),
        figsize=(1 + 1.55 * len(architectures), 1.2 + 1.35 * len(datasets)),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for row, dataset in zip(axes, datasets, strict=True):
        for ax, architecture in zip(row, architectures, strict=True):
            rows = times[(times["architecture"] == architecture) & (times["dataset"] == dataset)]
            place = np.array([variations.index(key) for key in _variation(rows)], int)
            groups = [rows["epochs"].to_numpy()[place == spot] for spot in range(len(variations))]
            boxes = ax.boxplot(groups, positions=range(len(variations)), **_BOX)
            for box in boxes["boxes"]:
                box.set(facecolor=colour(architecture), alpha=0.45)
            plt.setp(boxes["medians"], color="black")
            shift = 0.16 * _spread(place)
            ax.plot(place + shift, rows["epochs"], ".", color="#444444", markersize=2.5)
            ax.set_ylim(0, window + max(1, 0.05 * window))
        row[0].set_ylabel(label(dataset))
    for ax, architecture in zip(axes[0], architectures, strict=True):
        ax.set_title(_two_lines(architecture), fontsize=10)
    _name_ticks(axes[-1], variations)
    figure.supylabel("epoch of largest test accuracy", fontsize=11)
    return _settle(figure)


def plot_spreads(spreads: pd.DataFrame) -> Figure:
    """Draw the standard deviation of each group, with its interval.

    Parameters
    ----------
    spreads
        Result of `lib.analysis.variance.spreads`; a group whose attempts are all equal has no place on the axis.
    """
    figure, ax = plt.subplots(figsize=(8, 4.2))
    spreads = spreads[spreads["deviation"] > 0]
    names = spreads["architecture"].unique().tolist()
    for place, name in enumerate(names):
        rows = spreads[spreads["architecture"] == name]
        bars = rows[["low", "high"]].sub(rows["deviation"], axis=0).abs().T
        ax.errorbar(
            place + 0.3 * _spread(np.zeros(len(rows))),
            rows["deviation"],
            yerr=bars.to_numpy(),
            fmt=marker(name),
            color=colour(name),
            markersize=5,
            elinewidth=1,
        )
    if names:
        ax.set_yscale("log")
    ax.set_xticks(range(len(names)), [_two_lines(name) for name in names], fontsize=9)
    ax.set_ylabel("standard deviation of task accuracy")
    return figure


def plot_rejections(shares: pd.DataFrame) -> Figure:
    """Draw the share of rejected tests of each coefficient, as Figure 1.4.

    Parameters
    ----------
    shares
        Result of `lib.analysis.comparisons.count_rejections`.

    Returns
    -------
    matplotlib.figure.Figure
        One line per term; the architectures are its points. A term without tests says so.
    """
    terms = shares["term"].unique().tolist()
    figure, ax = plt.subplots(figsize=(7.5, 1.6 + 0.48 * len(terms)))
    for place, term in enumerate(terms):
        rows = shares[(shares["term"] == term) & shares["share"].notna()]
        if rows.empty:
            ax.text(0.01, place, "no test could be made", va="center", color="#555555", fontsize=9)
        for shift, row in zip(0.24 * _spread(np.zeros(len(rows))), rows.itertuples(), strict=True):
            name = row.architecture
            ax.plot(
                row.share,
                place + shift,
                marker(name) if name else "|",
                color=colour(name) if name else "black",
                label=label(name) if name else None,
                markersize=7 if name else 14,
                markeredgewidth=0.5 if name else 3,
                clip_on=False,
            )
    ax.set_yticks(range(len(terms)), terms)
    ax.set_ylim(len(terms) - 0.5, -0.5)
    ax.set_xlim(-0.01, 1.01)
    ax.set_xlabel("share of rejected tests (bar: no architecture in the term)")
    legend_below(figure)
    return figure


def plot_residuals(residuals: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw what a linear model assumes of its residuals, over all tasks.

    Parameters
    ----------
    residuals
        `lib.analysis.task_models.TaskFits.residuals`.

    Returns
    -------
    matplotlib.figure.Figure
        Residuals against fitted values, standardised residuals against normal quantiles, and the spread
        of each architecture.
    pandas.DataFrame
        ``architecture``, ``attempts``, ``spread`` (standard deviation of the residuals) and ``outliers`` (share of
        standardised residuals beyond 3; 0.3% of normal ones are).
    """
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.9))
    left.axhline(0, color="black", linewidth=0.8, linestyle="--")
    for architecture, rows in residuals.groupby("architecture", sort=False):
        left.plot(
            rows["fitted"],
            rows["residual"],
            marker(architecture),
            color=colour(architecture),
            label=label(architecture),
            markersize=3,
            alpha=0.5,
            rasterized=True,
        )
    left.set(xlabel="fitted task accuracy", ylabel="residual")
    values = np.sort(residuals["standardised"].dropna())
    if len(values):
        quantiles = stats.norm.ppf((np.arange(len(values)) + 0.5) / len(values))
        middle.plot(quantiles, values, ".", color="#4C78A8", markersize=3, rasterized=True)
        middle.axline((0, 0), slope=1, color="black", linewidth=0.8, linestyle="--")
    else:
        middle.text(0.5, 0.5, "no degree of freedom left", ha="center", transform=middle.transAxes)
    middle.set(xlabel="normal quantile", ylabel="standardised residual")
    groups = residuals.groupby("architecture", sort=False)
    table = groups.agg(
        attempts=("residual", "size"),
        spread=("residual", "std"),
        outliers=("standardised", lambda part: (part.dropna().abs() > 3).mean()),
    ).reset_index()
    names = table["architecture"].map(label)
    right.barh(names, table["spread"], color=[colour(name) for name in table["architecture"]])
    right.invert_yaxis()
    right.set_xlabel("standard deviation of residuals")
    legend_below(figure, ncols=7)
    return figure, table


def _two_lines(architecture: str) -> str:
    return label(architecture).replace(" RNN", "\nRNN")


def _settle(figure: Figure) -> Figure:
    """Lay out many panels once, not again each time the figure is drawn."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def _levels(table: pd.DataFrame) -> tuple[list, list]:
    variations = _variation(table[["order", "noise"]].drop_duplicates())
    return table["dataset"].unique().tolist(), variations


def _variation(table: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(table["order"], table["noise"], strict=True))


def _name_panels(axes: np.ndarray, datasets: Sequence[str], variations: Sequence[tuple]) -> None:
    for ax, dataset in zip(axes[0], datasets, strict=True):
        ax.set_title(label(dataset))
    _name_ticks(axes[-1], variations)


def _name_ticks(row: np.ndarray, variations: Sequence[tuple]) -> None:
    names = [f"{_ORDERS.get(order, order)} {noise}" for order, noise in variations]
    for ax in row:
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=8)


def _spread(place: np.ndarray) -> np.ndarray:
    """Return shifts between -1 and 1 that keep points of one place apart, always the same."""
    shift = np.zeros(len(place))
    for spot in np.unique(place):
        inside = np.flatnonzero(place == spot)
        shift[inside] = np.linspace(-1, 1, len(inside)) if len(inside) > 1 else 0
    return shift
