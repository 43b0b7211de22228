"""Padded images (experiment 2.3): balance of the adjoints and accuracy (Figure 2.6), weight of the penalty (Figure A2)."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from lib.analysis.padding import METHODS, attempts, sweep_attempts
from lib.analysis.units import KAPPA
from lib.plotting import legend_below

_NEAR, _FAR = 2, 20
_TICKS = (-1000, -100, -2, 0, 2, 100, 1000)


def balance(ds: xr.Dataset, dataset: str, width: int, kappa: float) -> pd.DataFrame:
    """Return the completed attempts of one data set and width, those of the sweep with them.

    The sweep adds paddings that the table has not: its networks at weight 0 were trained by the adjoint
    method, those at the table's own `kappa` by the coadjoint method.

    Returns
    -------
    pandas.DataFrame
        ``padding``, ``method``, ``replicate``, ``metric``, ``accuracy``.
    """
    rows = attempts(ds)
    rows = rows[(rows["dataset"] == dataset) & (rows["width"] == width)]
    more = sweep_attempts(ds)
    more = more[(more["initialisation"] == "orthogonal") & ~more["padding"].isin(rows["padding"])]
    more = more.assign(method=more["kappa"].map({0.0: "adjoint", kappa: "coadjoint"}))
    columns = ["padding", "method", "replicate", "status", "metric", "accuracy"]
    both = pd.concat([rows[columns], more[columns].dropna(subset="method")], ignore_index=True)
    done = both[both["status"] == "completed"].drop(columns="status")
    return done.sort_values("padding", kind="stable").reset_index(drop=True)


def balance_by_padding(rows: pd.DataFrame, bound: float) -> pd.DataFrame:
    """Say for each padding how balanced adjoints go with accuracy.

    Parameters
    ----------
    rows
        As `balance` returns them, of the methods to be compared.
    bound
        Accuracy, in percent, beyond which a network learned (`learning_bound`).

    Returns
    -------
    pandas.DataFrame
        ``padding``; ``networks``; for each method the median ``metric``; ``rho``, Spearman's rank correlation of accuracy
        with the distance of the metric from 0, and its probability ``p`` (empty where either does not vary); how many
        networks are balanced, within a factor of ten, and of those how many did not learn.
    """
    lines = []
    for padding, part in rows.groupby("padding", sort=True):
        distance = part["metric"].abs()
        varies = distance.nunique() > 1 and part["accuracy"].nunique() > 1
        rho, p = spearmanr(distance, part["accuracy"]) if varies else (np.nan, np.nan)
        even = distance < 1
        lines.append(
            {
                "padding": padding,
                "networks": len(part),
                **{
                    f"metric_{name}": group.median()
                    for name, group in part.groupby("method")["metric"]
                },
                "rho": rho,
                "p": p,
                "balanced": int(even.sum()),
                "balanced_not_learned": int((even & (100 * part["accuracy"] <= bound)).sum()),
            }
        )
    return pd.DataFrame(lines)


def count_balanced(rows: pd.DataFrame, bound: float) -> pd.DataFrame:
    """Count by method the networks that are balanced within a factor of ten, and those that learned.

    Returns
    -------
    pandas.DataFrame
        ``method``, ``networks``, ``balanced``, ``balanced_not_learned`` and ``learned_unbalanced``.
    """
    even, poor = rows["metric"].abs() < 1, 100 * rows["accuracy"] <= bound
    marked = rows.assign(
        networks=1,
        balanced=even,
        balanced_not_learned=even & poor,
        learned_unbalanced=~even & ~poor,
    )
    counted = ["networks", "balanced", "balanced_not_learned", "learned_unbalanced"]
    return marked.groupby("method", sort=False)[counted].sum().astype(int).reset_index()


def kappa_effect(summary: pd.DataFrame, bound: float, examples: int | None = None) -> pd.DataFrame:
    """Compare each weight of the penalty with none, for each padding and initialisation.

    Parameters
    ----------
    summary
        The sweep's medians by ``padding``, ``initialisation`` and ``kappa``, as `summarise` returns them.
    bound
        Accuracy, in percent, beyond which a network learned.
    examples
        Test sequences. A weight is no worse than none if it falls short by at most two standard errors of an accuracy
        measured on so many; if None, if it does not fall short at all.

    Returns
    -------
    pandas.DataFrame
        ``padding``, ``initialisation``; ``without``, the median at weight 0; ``best_kappa`` among the positive weights and its
        median ``best``; ``no_worse``, how many of the ``weights`` positive ones are no worse than none, and
        ``harmless_to``, the largest of them below which all are (0 if there is none); whether backpropagation
        ``learned``, and ``learned_with``, how many positive weights did.
    """
    lines = []
    for (padding, initialisation), part in summary.groupby(
        ["padding", "initialisation"], sort=False
    ):
        median = part.set_index("kappa")["median"]
        without, others = median.get(0.0, np.nan), median[median.index > 0]
        known = others.dropna()
        share = without / 100
        slack = 200 * np.sqrt(share * (1 - share) / examples) if examples else 0.0
        no_worse = (others >= without - slack).sort_index()
        lines.append(
            {
                "padding": padding,
                "initialisation": initialisation,
                "without": without,
                "best_kappa": known.idxmax() if len(known) else np.nan,
                "best": known.max() if len(known) else np.nan,
                "weights": len(others),
                "no_worse": int(no_worse.sum()),
                "harmless_to": float(no_worse.index[no_worse.cummin()].max())
                if len(no_worse) and no_worse.iloc[0]
                else 0.0,
                "learned": bool(without > bound),
                "learned_with": int((others > bound).sum()),
            }
        )
    return pd.DataFrame(lines)


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
            accuracy = 100 * group["accuracy"]
            name, tint, shape = METHODS[method]
            style = {"marker": shape, "s": 60, "edgecolors": tint}
            shown = {"color": tint, "alpha": 0.8, "label": name}
            ax.scatter(place[inside], accuracy[inside], **shown, **style)
            ax.scatter(place[~inside], accuracy[~inside], facecolors="none", **style)
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


def plot_kappa(rows: pd.DataFrame, guess: float, names: Mapping[str, str]) -> Figure:
    """Draw test accuracy against kappa, a row an initialisation and a column a padding (Figure A2).

    Parameters
    ----------
    rows
        The sweep's attempts: ``padding``, ``initialisation``, ``kappa``, ``status``, ``accuracy``.
    guess
        Accuracy of a network that always names the largest class.
    names
        A title for each initialisation.

    Notes
    -----
    In brackets stands kappa in the units of the author's program (`lib.analysis.units`).
    """
    paddings, kappas = rows["padding"].unique().tolist(), np.sort(rows["kappa"].unique())
    positive = kappas[kappas > 0].min(initial=np.inf)
    figure, axes = plt.subplots(
        len(names), len(paddings), figsize=(7.6, 6.2), sharex=True, sharey=True, squeeze=False
    )
    tint, failure = METHODS["coadjoint"].colour, {"color": "#D55E00", "marker": "x"}
    for line, (initialisation, name) in zip(axes, names.items(), strict=True):
        for ax, padding in zip(line, paddings, strict=True):
            group = rows[(rows["initialisation"] == initialisation) & (rows["padding"] == padding)]
            done = group[group["status"] == "completed"]
            accuracy = 100 * done["accuracy"]
            ax.scatter(done["kappa"], accuracy, color=tint, s=30, alpha=0.7, label="one network")
            median = accuracy.groupby(done["kappa"]).median()
            ax.plot(median.index, median, color=tint, label="median")
            failed = group.loc[group["status"] == "diverged", "kappa"]
            ax.scatter(failed, np.zeros(len(failed)), clip_on=False, **failure)
            ax.axhline(
                100 * guess, color="0.4", linestyle=":", linewidth=1.2, label="largest class"
            )
            ax.set_xscale("symlog", linthresh=positive if np.isfinite(positive) else 1.0)
            ax.set_xticks(kappas, [f"{kappa:g}\n[{kappa * KAPPA:.2g}]" for kappa in kappas])
            ax.tick_params(axis="x", labelsize=9)
            ax.minorticks_off()
            ax.set(ylim=(0, 100), title=f"{name}, padding {padding}x")
    for ax in axes[-1]:
        ax.set_xlabel("penalty weight $\\kappa$\n[in the author's program]")
    for ax in axes[:, 0]:
        ax.set_ylabel("test accuracy (%)")
    if (rows["status"] == "diverged").any():
        axes[0, 0].scatter([], [], label="diverged", **failure)
    legend_below(figure)
    return figure
