"""What networks trained on the long time gap task emphasise, and how even their adjoints are (Figures 2.2, 2.3, A1)."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binomtest, norm, spearmanr

from lib.analysis.latching import ADJOINT, STATE
from lib.analysis.units import KAPPA
from lib.results.schema import COMPLETED, DIVERGED, settings_of

LEARNED = 0.99
"""Accuracy from which a network counts as one that learned the task."""


def emphasis_table(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per completed linear network: how much weight the deciding input t* gets.

    Parameters
    ----------
    ds
        Results of the experiment `linear_gaps`.

    Returns
    -------
    pandas.DataFrame
        ``place``, ``orthogonality``, ``replicate``; ``rank`` of the input t* by the size of its emphasis, 1 for
        the largest; its ``share`` in the sum of the squared emphases; ``accuracy``; the accuracy ``expected``
        of a network with this emphasis; ``departure`` of W from orthogonality.

    Notes
    -----
    The other T - 1 inputs are independent signs. Their weighted sum is nearly normal, so a network whose emphasis c
    has the right sign at t* is right with probability :math:`\\Phi(c_{t^*} / \\sqrt{\\sum_{t \\ne t^*} c_t^2})`.
    """
    at_place = ds["emphasis"].sel(time=ds["place"])
    squares = ds["emphasis"] ** 2
    share = at_place**2 / squares.sum("time")
    rest = np.sqrt((squares.sum("time") - at_place**2).clip(0))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = xr.zeros_like(share) + norm.cdf(at_place / rest)
    measured = xr.Dataset(
        {
            "rank": 1 + (abs(ds["emphasis"]) > abs(at_place)).sum("time"),
            "share": share,
            "accuracy": ds["accuracy"],
            "expected": expected,
            "departure": ds["departure"],
            "status": ds["status"],
        }
    ).drop_vars("time", errors="ignore")
    order = ["place", "orthogonality", "replicate"]
    frame = measured.to_dataframe(dim_order=order).reset_index()
    return frame[frame["status"] == COMPLETED].drop(columns="status").reset_index(drop=True)


def summarise_emphasis(table: pd.DataFrame, replicates: int) -> pd.DataFrame:
    """Summarise `emphasis_table` by task and penalty.

    Parameters
    ----------
    table
        Its rows.
    replicates
        Networks trained for each task and penalty.

    Returns
    -------
    pandas.DataFrame
        ``networks`` completed, ``diverged``; ``first``, networks that emphasise t* most; medians of rank, share
        and departure; median, lowest and highest accuracy.
    """
    groups = table.groupby(["place", "orthogonality"])
    summary = pd.DataFrame(
        {
            "networks": groups.size(),
            "first": groups["rank"].agg(lambda rank: int((rank == 1).sum())),
            "rank": groups["rank"].median(),
            "share": groups["share"].median(),
            "accuracy": groups["accuracy"].median(),
            "accuracy_lowest": groups["accuracy"].min(),
            "accuracy_highest": groups["accuracy"].max(),
            "departure": groups["departure"].median(),
        }
    ).reset_index()
    summary.insert(3, "diverged", replicates - summary["networks"])
    return summary


def compare_with_penalty(table: pd.DataFrame) -> pd.DataFrame:
    """Compare networks with the largest weight of the penalty to those without, start by start.

    Returns
    -------
    pandas.DataFrame
        One row per place: ``pairs``; in how many the penalised network is ``better`` and ``worse``; the median
        ``difference`` of the accuracies, and ``p``, the sign test's two-sided probability (ties left out).
    """
    rows = []
    for place, part in table.groupby("place"):
        wide = part.pivot(index="replicate", columns="orthogonality", values="accuracy").dropna()
        if wide.shape[1] < 2:
            raise ValueError(f"place {place}: expected networks with and without the penalty")
        difference = wide[wide.columns.max()] - wide[wide.columns.min()]
        better, worse = int((difference > 0).sum()), int((difference < 0).sum())
        p = binomtest(better, better + worse).pvalue if better + worse else 1.0
        rows.append((place, len(wide), better, worse, difference.median(), p))
    return pd.DataFrame(rows, columns=["place", "pairs", "better", "worse", "difference", "p"])


def departure_and_accuracy(table: pd.DataFrame) -> pd.DataFrame:
    """Correlate, among networks without the penalty, the departure of W from orthogonality with the accuracy.

    Returns
    -------
    pandas.DataFrame
        One row per place: ``networks``, Spearman's ``rho`` and its probability ``p``.
    """
    free = table[table["orthogonality"] == table["orthogonality"].min()]
    rows = [
        (place, len(part), *spearmanr(part["departure"], part["accuracy"]))
        for place, part in free.groupby("place")
    ]
    return pd.DataFrame(rows, columns=["place", "networks", "rho", "p"])


def draw_emphasis(
    ax: Axes, ds: xr.Dataset, place: int, weight: float, *, size: bool = False
) -> pd.DataFrame:
    """Draw the emphasis of all replicates of one task and penalty, each over its largest size.

    Parameters
    ----------
    place, weight
        The task t*, and the weight of the penalty.
    size
        Draw sizes without signs.

    Returns
    -------
    pandas.DataFrame
        ``replicate``, ``time``, ``emphasis``, ``place`` and ``orthogonality``, what is drawn. In black stands the start that was most
        accurate without the penalty.
    """
    free = ds["orthogonality"].min()
    example = int(ds["accuracy"].sel(place=place, orthogonality=free).argmax("replicate"))
    lines = ds["emphasis"].sel(place=place, orthogonality=weight)
    lines = lines / abs(lines).max("time")
    lines = abs(lines) if size else lines
    ax.plot(ds["time"], lines.T, color="#BBBBBB", linewidth=0.8)
    ax.plot(ds["time"], lines[example], color="black", marker="o", markersize=3, linewidth=1)
    ax.axvline(place, color="#D55E00", linestyle="--", linewidth=1.2, label=f"$t^* = {place}$")
    drawn = lines.drop_vars(["place", "orthogonality"]).to_dataframe("emphasis").reset_index()
    return drawn.assign(place=place, orthogonality=weight)


def plot_gaps(ds: xr.Dataset) -> tuple[Figure, pd.DataFrame]:
    """Draw the size of the emphasis for every task, without and with the penalty (Figure A1)."""
    places, weights = ds["place"].values.tolist(), ds["orthogonality"].values[[0, -1]]
    size = (1.2 + min(2.6, 11 / len(places)) * len(places), 4.6)
    figure, axes = plt.subplots(
        2, len(places), figsize=size, sharex=True, sharey=True, squeeze=False
    )
    drawn = []
    for line, weight, name in zip(
        axes, weights, ("without penalty", "soft orthogonal"), strict=True
    ):
        line[0].set_ylabel(f"{name}\nsize of emphasis")
        for ax, place in zip(line, places, strict=True):
            drawn.append(draw_emphasis(ax, ds, place, weight, size=True))
    for ax, place in zip(axes[0], places, strict=True):
        ax.set_title(f"$t^* = {place}$")
    figure.supxlabel("time t of the input (steps)", fontsize=11)
    return figure, pd.concat(drawn)


def normalised_adjoints(ds: xr.Dataset) -> xr.DataArray:
    """Return each sequence's adjoint norms over their largest, between 0 and 1 (section 2.6.1).

    `ds` holds the results of the experiment `coadjoint_gaps`; where all adjoints are zero the result is ``nan``.
    """
    with np.errstate(invalid="ignore"):  # -inf less -inf
        return 10 ** (ds["adjoint"] - ds["adjoint"].max("time"))


def evenness_table(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per weight kappa: who learned, and how even the adjoints are over time.

    Parameters
    ----------
    ds
        Results of the experiment `coadjoint_gaps`.

    Returns
    -------
    pandas.DataFrame
        ``kappa``, and ``kappa_author``, the same weight in the units of the author's program; ``networks``, ``diverged``, ``learned`` (counts); the highest ``accuracy``; ``evenness``, the median
        over networks of the mean over sequences and times of the normalised adjoints, 1 where all are equally large;
        ``largest``, the median over networks of the mean over sequences of log10 of the largest adjoint norm.
    """
    evenness = normalised_adjoints(ds).mean(["sequence", "time"])
    largest = ds["adjoint"].max("time").mean("sequence")
    return pd.DataFrame(
        {
            "kappa": ds["kappa"].values,
            "kappa_author": ds["kappa"].values * KAPPA,
            "networks": ds.sizes["replicate"],
            "diverged": (ds["status"] == DIVERGED).sum("replicate").values,
            "learned": (ds["accuracy"] >= LEARNED).sum("replicate").values,
            "accuracy": ds["accuracy"].max("replicate").values,
            "evenness": evenness.median("replicate").values,
            "largest": largest.median("replicate").values,
        }
    )


def plot_networks(ds: xr.Dataset) -> tuple[Figure, pd.DataFrame]:
    """Draw states and adjoints over time for the most accurate network of each weight kappa (Figure 2.3).

    Returns
    -------
    figure : Figure
    data : pandas.DataFrame
        ``kappa``, ``sequence``, ``time``, ``state``, ``adjoint`` (log10) and ``normalised``, what is drawn.
    """
    best = ds.isel(replicate=ds["accuracy"].argmax("replicate"))
    drawn = best[["state", "adjoint"]].assign(normalised=normalised_adjoints(best))
    rows = {
        "state": ("state norm", STATE),
        "adjoint": (r"$\log_{10}$ adjoint norm", ADJOINT),
        "normalised": ("adjoint norm / largest", ADJOINT),
    }
    kappas, place = ds["kappa"].values, settings_of(ds)["place"]
    size = (1 + 2.2 * len(kappas), 6.6)
    figure, axes = plt.subplots(
        len(rows), len(kappas), figsize=size, sharex=True, sharey="row", squeeze=False
    )
    for line, (name, (title, style)) in zip(axes, rows.items(), strict=True):
        line[0].set_ylabel(title)
        for ax, kappa in zip(line, kappas, strict=True):
            values = drawn[name].sel(kappa=kappa).T
            ax.plot(ds["time"], values, color=style["color"], linewidth=0.7, alpha=0.4)
            ax.axvline(place, color="black", linestyle="--", linewidth=1)
    for ax, kappa, accuracy in zip(axes[0], kappas, best["accuracy"].values, strict=True):
        title = f"$\\kappa$ = {kappa:g}\n[{kappa * KAPPA:,.0f}]\naccuracy {accuracy:.2f}"
        ax.set_title(title, fontsize=10)
    figure.supxlabel("time t (steps)", fontsize=11)
    return figure, drawn.to_dataframe(dim_order=["kappa", "sequence", "time"]).reset_index()
