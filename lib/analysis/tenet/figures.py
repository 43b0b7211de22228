"""Figures of the linear models: coefficients with intervals, and residuals."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from lib.analysis.linear import Fit
from lib.analysis.tenet import diagnostics
from lib.analysis.tenet.models import MODELS
from lib.analysis.tenet.rows import Rows
from lib.plotting import colour, label, legend_below

OURS, THEIRS = "#0072B2", "#D55E00"
_NORMAL = 1.96
_PANELS = (
    ("effects of one level", lambda term: "[" in term and ":" not in term),
    ("architecture × noise", lambda term: ":noise" in term),
    ("LR and architecture × LR", lambda term: term.endswith("log_rate")),
    ("LR² and architecture × LR²", lambda term: term.endswith("log_rate_squared")),
)


def coefficient_figure(table: pd.DataFrame, unit: str) -> Figure:
    """Draw a coefficient table of `lib.analysis.tenet.compare.coefficients` with intervals: ours, ours robust, and published.

    Parameters
    ----------
    table
        The table of a model with factors. Lines of covariates on scales of their own (intercept, metric, accuracy,
        dim, epochs) are not drawn; the table has them. A dagger marks lines that are measured against another baseline
        than in the text.
    unit
        Unit of the response.
    """
    panels = [(name, table[table["term"].map(chosen)]) for name, chosen in _PANELS]
    heights = [max(len(rows) for _, rows in panels[start : start + 2]) for start in (0, 2)]
    figure, axes = plt.subplots(
        2,
        2,
        figsize=(11, 1.6 + 0.3 * sum(heights)),
        height_ratios=[height + 2 for height in heights],
    )
    for ax, (name, rows) in zip(axes.flat, panels, strict=True):
        _coefficients(ax, rows)
        ax.set_title(name, loc="left")
        ax.set_xlabel(f"estimate ({unit})")
    legend_below(figure, ncols=3)
    return figure


def _coefficients(ax: Axes, table: pd.DataFrame) -> None:
    place = np.arange(len(table))
    reach = _NORMAL * table["published_error"]
    ax.errorbar(
        table["published"],
        place + 0.17,
        xerr=reach,
        fmt="D",
        color=THEIRS,
        markerfacecolor="white",
        markersize=4.5,
        linewidth=1.2,
        label="published, 95%",
    )
    ax.errorbar(
        table["ours"],
        place - 0.17,
        xerr=_NORMAL * table["robust_error"],
        fmt="none",
        color=OURS,
        alpha=0.35,
        linewidth=4,
        label="ours, robust 95%",
    )
    ax.errorbar(
        table["ours"],
        place - 0.17,
        xerr=np.stack([table["ours"] - table["low"], table["high"] - table["ours"]]),
        fmt="o",
        color=OURS,
        markersize=4.5,
        linewidth=1.2,
        label="ours, 95%",
    )
    ax.axvline(0.0, color="black", linewidth=0.8)
    other = table["note"].str.startswith("measured against")
    names = [
        f"{_short(name)} †" if marked else _short(name)
        for name, marked in zip(table["name"], other, strict=True)
    ]
    ax.set_yticks(place, names, fontsize=9)
    ax.set_ylim(len(table) - 0.4, -0.6)


def _short(name: str) -> str:
    return (
        name.replace("dataset = ", "").replace("order = ", "").replace("^2", "²").replace("*", "×")
    )


def residual_figure(number: int, fit: Fit, rows: Rows, unit: str) -> tuple[Figure, pd.DataFrame]:
    """Draw the residuals of a model: against the fitted value, against a normal distribution, by architecture.

    Returns
    -------
    tuple
        The figure, and what is drawn as one table with ``panel``, ``x`` and ``y`` and further columns.
    """
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.2))
    bands = diagnostics.against_fitted(fit)
    ax = axes[0, 0]
    for low, high, tint in ((0.05, 0.95, 0.18), (0.25, 0.75, 0.35)):
        ax.fill_between(
            bands["fitted"],
            bands[f"q{low}"],
            bands[f"q{high}"],
            color=OURS,
            alpha=tint,
            linewidth=0,
            label=f"middle {high - low:.0%}",
        )
    ax.plot(bands["fitted"], bands["q0.5"], color=OURS, label="median")
    ax.axhline(0.0, color="black", linewidth=0.8)
    ax.set(xlabel=f"fitted value ({unit})", ylabel=f"residual ({unit})")
    ax.set_title(f"{len(fit.residuals):,} residuals in {len(bands)} equal bins", loc="left")
    ax.legend(fontsize=9)
    quantiles = {"residuals": diagnostics.normal_quantiles(fit.residuals)}
    if fit.intercepts is not None:
        quantiles["random intercepts"] = diagnostics.normal_quantiles(fit.intercepts)
    for (what, table), panel in zip(quantiles.items(), (axes[0, 1], axes[1, 0]), strict=False):
        _normal_panel(panel, table, what)
    spread = diagnostics.spread_by_architecture(fit, rows)
    ax = axes[1, 1]
    ax.barh(
        [label(name) for name in spread["architecture"]],
        spread["deviation"],
        color=[colour(name) for name in spread["architecture"]],
    )
    ax.axvline(fit.residuals.std(), color="black", linestyle="--", linewidth=1.2)
    ax.set(xlabel=f"standard deviation ({unit})")
    ax.set_title("residuals by architecture; dashed: all", loc="left")
    if fit.intercepts is None:
        _histogram(axes[1, 0], fit.residuals, unit)
    figure.suptitle(f"{MODELS[number].name}, {fit.summary['attempts']:,} attempts")
    data = [bands.assign(panel="residual by fitted value")]
    data += [table.assign(panel=f"quantiles of {what}") for what, table in quantiles.items()]
    data.append(spread.assign(panel="spread by architecture"))
    return figure, pd.concat(data, ignore_index=True).set_index("panel").reset_index()


def _normal_panel(ax: Axes, table: pd.DataFrame, what: str) -> None:
    ends = [table.min().min(), table.max().max()]
    ax.plot(ends, ends, color="black", linewidth=0.8, label="normal")
    ax.plot(table["normal"], table["found"], ".", color=OURS, markersize=6)
    ax.set(xlabel="normal quantile (standard deviations)", ylabel="quantile found (same)")
    ax.set_title(f"{what} against a normal distribution", loc="left")
    ax.legend(fontsize=9)


def _histogram(ax: Axes, values: np.ndarray, unit: str) -> None:
    ax.hist(values, bins=60, color=OURS)
    ax.set(xlabel=f"residual ({unit})", ylabel="attempts")
    ax.set_title("distribution", loc="left")


def recovery_figure(drawn: pd.DataFrame, table: pd.DataFrame) -> Figure:
    """Draw how far estimates lie from the published coefficients, and their standard errors.

    Parameters
    ----------
    drawn
        Distances over several datasets, made by `lib.analysis.simulated.recovery.recover`.
    table
        Standard errors at full size, made by `lib.analysis.tenet.compare.recovery`.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=[3, 2])
    models = sorted(drawn["model"].unique())
    for place, number in enumerate(models):
        z = np.sort(drawn.loc[drawn["model"] == number, "z"].dropna())
        offset = np.linspace(-0.35, 0.35, len(z)) if len(z) > 2 else np.zeros(len(z))
        expected = stats.norm.ppf((np.arange(len(z)) + 0.5) / max(len(z), 1))
        left.plot(
            place + offset, expected, color="black", linewidth=0.8, label="" if place else "normal"
        )
        left.plot(place + offset, z, ".", color=OURS, markersize=4)
    left.set_xticks(range(len(models)), [str(number) for number in models])
    left.set(xlabel="model", ylabel="estimated less published (standard errors)")
    left.set_title("every coefficient, sorted within its model", loc="left")
    left.legend(fontsize=9)
    known = table.dropna(subset=["standard_error", "published_error"])
    right.loglog(known["published_error"], known["standard_error"], ".", color=OURS, markersize=4)
    ends = [known["published_error"].min(), known["published_error"].max()]
    right.plot(ends, ends, color="black", linewidth=0.8, label="equal")
    right.set(xlabel="published standard error", ylabel="standard error here")
    right.set_title("standard errors", loc="left")
    right.legend(fontsize=9)
    return figure
