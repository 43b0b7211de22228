"""The latching experiment (section 3.6): who learned, states and adjoint states over time, and how fast these decay."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binomtest

from lib.results.schema import COMPLETED, DIVERGED, settings_of

STATE = {"color": "#B2182B", "ylabel": r"$\|x_t\|_2$"}
ADJOINT = {"color": "#2166AC", "ylabel": r"$\|\lambda_t\|_2 \, / \, \|\Lambda\|_2$"}
"""Red states and blue adjoint states, as in Figures 3.6 to 3.8."""

OUTCOMES = {
    "latched": ("o", "#0072B2"),
    "learned": ("s", "#E69F00"),
    "failed": ("x", "#999999"),
    "diverged": ("+", "#000000"),
}
"""Marker and colour of what may become of a training."""


def counts(ds: xr.Dataset) -> pd.DataFrame:
    """Return how many trainings reached the tolerance, by length.

    Returns
    -------
    pandas.DataFrame
        Columns ``horizon``, ``trainings``, ``diverged``, ``reached``, ``median_error``.
    """
    error = ds["error"].to_dataframe().reset_index()
    tolerance = settings_of(ds)["tolerance"]
    groups = error.groupby("horizon")["error"]
    return pd.DataFrame(
        {
            "trainings": ds.sizes["training"],
            "diverged": int((ds["status"] == DIVERGED).sum()),
            "reached": groups.agg(lambda values: int((values < tolerance).sum())),
            "median_error": groups.median(),
        }
    ).reset_index()


def adjoint_ratios(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return how the adjoint state changes between the end and the deciding input.

    Returns
    -------
    pandas.DataFrame
        Columns ``training``, ``horizon``, ``error``, ``log10_ratio`` (median over sequences of
        :math:`\log_{10} \|\lambda_{t^*}\|_2` less that of :math:`\log_{10} \|\lambda_T\|_2`) and ``rate``, the mean change of
        the natural logarithm for a step back.
    """
    place = settings_of(ds)["place"]
    median = ds["adjoint_median"].astype("float64")
    last = median.sel(time=ds["horizon"])
    ratio = median.sel(time=place, drop=True) - last.drop_vars("time", errors="ignore")
    rate = ratio * math.log(10) / (ds["horizon"] - place)
    whole = xr.Dataset({"error": ds["error"], "log10_ratio": ratio, "rate": rate})
    return (
        whole.to_dataframe().reset_index().sort_values(["training", "horizon"], ignore_index=True)
    )


def trajectories(ds: xr.Dataset, horizon: int) -> pd.DataFrame:
    r"""Return the example's trajectories at one length.

    Returns
    -------
    pandas.DataFrame
        Columns ``sequence``, ``time``, ``state`` (:math:`\|x_t\|_2`), ``adjoint`` (:math:`\log_{10} \|\lambda_t\|_2`) and
        ``normalised``, :math:`\|\lambda_t\|_2 / \|\Lambda\|_2` with the norm over all times of the sequence (the text's
        footnote 7).
    """
    part = ds[["state_norm", "adjoint"]].sel(horizon=horizon, time=slice(1, horizon))
    adjoint = part["adjoint"].astype("float64")
    # The logarithm is left after the largest is taken out: most norms are no floats.
    relative = 10 ** (adjoint - adjoint.max("time"))
    normalised = relative / np.sqrt((relative**2).sum("time"))
    whole = xr.Dataset({"state": part["state_norm"], "adjoint": adjoint, "normalised": normalised})
    return whole.drop_vars("horizon").to_dataframe().reset_index()


def draw_trajectories(
    ax: Axes, frame: pd.DataFrame, column: str, *, place: int, style: dict[str, str]
) -> None:
    """Draw one column of `trajectories`, a line a sequence, and a dashed line at the deciding input."""
    for _, line in frame.groupby("sequence"):
        ax.plot(line["time"], line[column], color=style["color"], linewidth=0.8, alpha=0.5)
    ax.axvline(place, color="black", linestyle="--", linewidth=1)
    ax.set(ylabel=style["ylabel"], ylim=(0, None))


def plot_trajectories(
    frames: Mapping[int, pd.DataFrame], column: str, *, place: int, style: dict[str, str]
) -> Figure:
    """Draw `trajectories` of several lengths, a panel each on one axis (Figures 3.7 and 3.8)."""
    lines = -(-len(frames) // 2)
    figure, axes = plt.subplots(lines, 2, figsize=(9, 2.7 * lines), sharey=True, squeeze=False)
    for ax in axes.ravel()[len(frames) :]:
        ax.set_visible(False)
    for ax, (T, frame) in zip(axes.ravel(), frames.items(), strict=False):
        draw_trajectories(ax, frame, column, place=place, style=style)
        ax.set(title=f"T = {T}", xlabel="time (step)")
    # The panels share an axis, which must hold the highest line of all.
    axes[0, 0].set_ylim(0, 1.05 * max(frame[column].max() for frame in frames.values()))
    return figure


def emphasis(frame: pd.DataFrame, place: int) -> dict[str, float]:
    """Return how far the adjoint state at the deciding input stands out, from the `trajectories` of one length.

    Returns
    -------
    dict
        ``near``, the share of sequences whose largest adjoint state lies within a step of it; ``peak``, the median time of the largest;
        ``here`` and ``elsewhere``, the median normalised adjoint state there and at the other times; ``larger``, at how many of the
        ``others`` the median over sequences is larger still.
    """
    normalised = frame.pivot(index="time", columns="sequence", values="normalised")
    peak, median = normalised.idxmax(), normalised.median(axis="columns")
    return {
        "near": ((peak - place).abs() <= 1).mean(),
        "peak": peak.median(),
        "here": normalised.loc[place].median(),
        "elsewhere": normalised.drop(index=place).median().median(),
        "larger": int((median > median[place]).sum()),
        "others": len(median) - 1,
    }


def trainings(ds: xr.Dataset, vanished: float) -> pd.DataFrame:
    """Return what became of every training, its Lyapunov exponents, and its adjoint states at the greatest length.

    Parameters
    ----------
    vanished
        Share of its final length below which an adjoint state counts as vanished.

    Returns
    -------
    pandas.DataFrame
        By training: ``completed``, ``error`` at the shortest length and ``worst_error`` over all; ``exponent``, the median over
        sequences, ``lowest`` and ``highest`` (nat / step); ``outcome``, of `OUTCOMES`: latched where the worst error is below the
        tolerance, learned where the one at the shortest length is; ``log10_ratio`` and ``rate`` as in `adjoint_ratios`;
        ``vanished``.
    """
    tolerance, error, exponent = settings_of(ds)["tolerance"], ds["error"], ds["exponent"]
    table = pd.DataFrame(
        {
            "completed": (ds["status"] == COMPLETED).to_series(),
            "error": error.isel(horizon=0, drop=True).to_series(),
            "worst_error": error.max("horizon").to_series(),
            "exponent": exponent.median("sequence").to_series(),
            "lowest": exponent.min("sequence").to_series(),
            "highest": exponent.max("sequence").to_series(),
        }
    )
    cases = ~table["completed"], table["worst_error"] < tolerance, table["error"] < tolerance
    table["outcome"] = np.select(cases, ["diverged", "latched", "learned"], "failed")
    ratios = adjoint_ratios(ds)
    last = ratios[ratios["horizon"] == int(ds["horizon"][-1])].set_index("training")
    table = table.join(last[["log10_ratio", "rate"]])
    return table.assign(vanished=table["log10_ratio"] < np.log10(vanished))


def count_outcomes(table: pd.DataFrame) -> pd.DataFrame:
    """Count `trainings` by outcome: how many adjoint states vanished, how many exponents are negative on every sequence."""
    counted = table.groupby("outcome").agg(
        trainings=("outcome", "size"),
        vanished=("vanished", "sum"),
        negative=("highest", lambda values: int((values < 0).sum())),
        median_exponent=("exponent", "median"),
    )
    counted = counted.reindex(OUTCOMES)
    whole = ["trainings", "vanished", "negative"]
    counted[whole] = counted[whole].fillna(0).astype(int)
    return counted.rename_axis("outcome").reset_index()


def latched_at(table: pd.DataFrame, tolerances: Sequence[float]) -> pd.DataFrame:
    """Return how many `trainings` latched at every length, by the tolerance that is asked for.

    Returns
    -------
    pandas.DataFrame
        ``tolerance``, ``trainings``, ``latched``, its ``share`` with the ends ``low`` and ``high`` of the exact 95% interval; of those
        that latched, how many adjoint states ``vanished``, and how many were ``contracting``: exponents negative on every sequence.
    """
    rows = []
    for tolerance in tolerances:
        inside = table[table["completed"] & (table["worst_error"] < tolerance)]
        low, high = binomtest(len(inside), len(table)).proportion_ci()
        contracting = int((inside["highest"] < 0).sum())
        row = len(table), len(inside), len(inside) / len(table), low, high
        rows.append((tolerance, *row, int(inside["vanished"].sum()), contracting))
    columns = ["tolerance", "trainings", "latched", "share", "low", "high", "vanished"]
    return pd.DataFrame(rows, columns=[*columns, "contracting"])


_NEAR = 0.1
"""Exponents (nat / step) within which the axes of `plot_exponents` are linear."""
_TICKS = (-10, -1, -_NEAR, -_NEAR / 2, 0, _NEAR / 2, _NEAR, 1, 10)


def plot_exponents(table: pd.DataFrame) -> Figure:
    """Draw the rate of the adjoint state against the largest Lyapunov exponent, a point for each of `trainings`."""
    figure, ax = plt.subplots(figsize=(6.4, 4.4))
    for outcome, (marker, colour) in OUTCOMES.items():
        rows = table[(table["outcome"] == outcome) & table["completed"]]
        if len(rows):
            x, y = rows["exponent"], rows["rate"]
            spread = [x - rows["lowest"], rows["highest"] - x]
            style = {"fmt": marker, "color": colour, "markersize": 6, "markerfacecolor": "none"}
            ax.errorbar(
                x, y, xerr=spread, elinewidth=0.8, label=f"{outcome} ({len(rows)})", **style
            )
    span = table[["lowest", "highest", "rate"]]
    ends = [span.min(axis=None), max(0, span.max(axis=None))]
    ax.plot(ends, ends, color="black", linewidth=0.8, label="equal")
    ax.axvline(0, color="black", linestyle=":", linewidth=0.8)
    beyond = ""
    if span.abs().max(axis=None) > 4 * _NEAR:  # or all others would fall on one point
        beyond = f"\n(logarithmic beyond ±{_NEAR})"
        limits = (2 * ends[0], max(_NEAR, 2 * ends[1]))
        for axis, scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
            scale("symlog", linthresh=_NEAR, linscale=2)
            axis.set_ticks([x for x in _TICKS if limits[0] <= x <= limits[1]])
            axis.set_major_formatter("{x:g}")
        ax.set(xlim=limits, ylim=limits)
    ax.set_xlabel(f"largest Lyapunov exponent (nat / step){beyond}")
    ax.set_ylabel(f"rate of the adjoint state (nat / step){beyond}")
    ax.legend()
    return figure


def plot_decay(median: xr.DataArray, place: int) -> Figure:
    """Draw the median adjoint state relative to the last one, on a logarithmic axis, a line a length.

    `median` is ``adjoint_median`` of one training, (horizon, time).
    """
    figure, ax = plt.subplots(figsize=(7, 3.8))
    shades = plt.get_cmap("viridis")(np.linspace(0, 0.85, median.sizes["horizon"]))
    for T, shade in zip(median["horizon"].values, shades, strict=True):
        values = median.sel(horizon=T, time=slice(1, T))
        ax.plot(values["time"], values - values[-1], color=shade, linewidth=1.2, label=f"T = {T}")
    ax.axvline(place, color="black", linestyle="--", linewidth=1, label=f"t = {place}")
    ax.set(xlabel="time (step)", ylabel=r"$\log_{10} \|\lambda_t\|_2 / \|\lambda_T\|_2$")
    ax.legend()
    return figure
