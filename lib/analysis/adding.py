"""The adding problem (experiment 2.4): which training stands for a network, its curve, and its adjoint states."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from lib.plotting import colour, label, legend_below, marker
from lib.results.schema import COMPLETED, DIVERGED

NETWORK = ["architecture", "time_steps"]
AUTHOR = {"start": "author", "activation": "tanh"}
"""The networks of the author's public research code, of which the text's figure and the claims are."""
RATIO = r"$\log_{10}\ \|\lambda_t\|_2 / \|\lambda_T\|_2$"


def of_author(ds: xr.Dataset) -> xr.Dataset:
    """Return the results of the author's networks alone; older results know one start, our own, and are returned whole."""
    return ds.sel(AUTHOR) if set(AUTHOR) <= set(ds.dims) else ds


def settings(ds: xr.Dataset) -> list[str]:
    """Return the levels, such as the learning rate, of which the best stands for a network."""
    return [name for name in ds["status"].dims if name not in (*NETWORK, "replicate")]


def chosen_rates(ds: xr.Dataset) -> pd.DataFrame:
    """Return the curves of the setting that is best for each network and length, as the text selects the learning rate.

    Returns
    -------
    pandas.DataFrame
        Columns ``architecture``, ``time_steps``, ``learning_rate`` and any further settings, ``replicate``, ``step`` (training
        steps) and the test ``error``. The best setting has the smallest mean validation error over replicates at the last
        checkpoint; a training without one, because it diverged, counts as infinite. Trainings that never ran are left out.
    """
    checkpoints = ds.sizes["checkpoint"] - 1
    steps = ds["training_steps"] * ds["checkpoint"] // checkpoints
    # Older results have no validation sequences: the test error chose.
    judged = ds["validation" if "validation" in ds else "error"]
    kept = {"error": ds["error"], "validation": judged, "status": ds["status"]}
    frame = xr.Dataset({**kept, "step": steps})
    frame = frame.to_dataframe().reset_index()
    frame = frame[frame["status"].isin((COMPLETED, DIVERGED))]
    last = frame[frame["checkpoint"] == checkpoints].fillna({"validation": float("inf")})
    training = [*NETWORK, *settings(ds)]
    mean = last.groupby(training, sort=False)["validation"].mean().reset_index()
    best = mean.loc[mean.groupby(NETWORK, sort=False)["validation"].idxmin(), training]
    chosen = best.merge(frame, on=training, how="left")
    return chosen[[*training, "replicate", "step", "error"]]


def adjoint_curves(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return the adjoint states along the sequence, for the settings of `chosen_rates`.

    Returns
    -------
    pandas.DataFrame
        Columns ``architecture``, ``time_steps``, ``learning_rate`` and any further settings, ``stage``, ``position`` (t / T),
        ``log10_ratio``, the mean over replicates of :math:`\log_{10} \|\lambda_t\|_2 / \|\lambda_T\|_2`, and the gains ``largest``
        and ``smallest``.
    """
    ends = ds["end"].values.tolist()
    ratio = ds["adjoint"] - ds["adjoint"].isel(position=-1)
    gains = {end: ds["gain"].sel(end=end, drop=True) for end in ends}
    mean = xr.Dataset({"log10_ratio": ratio, **gains}).mean("replicate")
    training = [*NETWORK, *settings(ds)]
    chosen = chosen_rates(ds)[training].drop_duplicates()
    columns = [*training, "stage", "position", "log10_ratio", *ends]
    return chosen.merge(mean.to_dataframe().reset_index(), on=training, how="left")[columns]


def outcomes(
    ds: xr.Dataset, baseline: float, *, solved: float = 0.1, improved: float = 0.9
) -> pd.DataFrame:
    """Return what became of each network: its error at the end of the curves of `chosen_rates`.

    Parameters
    ----------
    baseline
        Error of guessing.
    solved, improved
        Shares of the baseline below which a network learned, and below which it is better than guessing.

    Returns
    -------
    pandas.DataFrame
        In the order of the design: ``architecture``, ``time_steps``, the settings chosen, ``training_steps``, ``trainings``, the
        mean ``error`` over them, ``improved`` and ``learned`` (1 or 0).
    """
    training = [*NETWORK, *settings(ds)]
    curves = chosen_rates(ds).dropna(subset=["error"]).sort_values("step")
    ends = curves.groupby([*training, "replicate"], sort=False)[["error", "step"]].last()
    table = ends.groupby(training, sort=False).agg(
        training_steps=("step", "max"), trainings=("error", "size"), error=("error", "mean")
    )
    table = table.reset_index()
    table["improved"] = table["error"] < improved * baseline
    table["learned"] = (table["error"] < solved * baseline).astype(int)
    order = {name: place for place, name in enumerate(ds["architecture"].values)}
    by = ["time_steps", "architecture"]
    return table.sort_values(by, key=lambda part: part.map(order).fillna(part))


def by_start(ds: xr.Dataset, baseline: float, **borders: float) -> pd.DataFrame:
    """Return the `outcomes` of every start and activation, the learning rate chosen within each.

    Returns
    -------
    pandas.DataFrame
        As of `outcomes`, and ``best``: whether the combination's validation error is the smallest of its network and length.
    """
    parts = []
    for start in ds["start"].values:
        for activation in ds["activation"].values:
            part = ds.sel(start=[start], activation=[activation])
            if bool(part["status"].isin((COMPLETED, DIVERGED)).any()):
                parts.append(outcomes(part, baseline, **borders))
    table = pd.concat(parts, ignore_index=True)
    keys = [*NETWORK, *AUTHOR]
    best = pd.MultiIndex.from_frame(chosen_rates(ds)[keys].drop_duplicates())
    table["best"] = pd.MultiIndex.from_frame(table[keys]).isin(best)
    order = {name: place for place, name in enumerate(ds["architecture"].values)}
    by = ["time_steps", "architecture"]
    return table.sort_values(
        by, key=lambda part: part.map(order).fillna(part), kind="stable", ignore_index=True
    )


def plot_curves(best: pd.DataFrame, baseline: float) -> Figure:
    """Draw the error over training steps, one panel a length (Figure 2.8); `best` is of `chosen_rates`."""
    lengths = sorted(best["time_steps"].unique())
    figure, axes = plt.subplots(1, len(lengths), figsize=(9.5, 3.6), sharey=True, squeeze=False)
    for ax, T in zip(axes[0], lengths, strict=True):
        rows = best[best["time_steps"] == T]
        for name, lines in rows.groupby("architecture", sort=False):
            mean = lines.groupby("step")["error"].mean()
            style = {"color": colour(name), "marker": marker(name), "markersize": 4, "markevery": 2}
            ax.plot(mean.index, mean, label=label(name), **style)
        ax.axhline(baseline, color="black", linestyle="--", linewidth=1, label="always 1")
        ax.set(title=f"T = {T}", xlabel="training step", ylim=(0, 1.35 * baseline))
        ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 3))
    axes[0, 0].set_ylabel("mean squared error")
    legend_below(figure, ncols=5)
    return figure


def plot_adjoints(curves: pd.DataFrame) -> Figure:
    """Draw adjoint states before (dashed) and after training, one panel a length; `curves` is of `adjoint_curves`."""
    lengths = sorted(curves["time_steps"].unique())
    figure, axes = plt.subplots(1, len(lengths), figsize=(9.5, 3.8), sharey=True, squeeze=False)
    levels = ["time_steps", "architecture", "stage"]
    for (T, name, stage), rows in curves.groupby(levels, sort=False):
        trained = stage == "trained"
        style = {"linewidth": 1.8, "label": label(name)} if trained else {"linewidth": 1}
        line = "-" if trained else "--"
        ax = axes[0, lengths.index(T)]
        ax.plot(rows["position"], rows["log10_ratio"], line, color=colour(name), **style)
    for ax, T in zip(axes[0], lengths, strict=True):
        ax.set(title=f"T = {T}", xlabel="t / T")
    axes[0, 0].set_ylabel(RATIO)
    legend_below(figure, ncols=4)
    return figure


def plot_scaled(frame: pd.DataFrame, rows: Sequence[str]) -> Figure:
    """Draw adjoint states under a scaled W, a column a network and a row a loudness, named by `rows`.

    `frame` is of `lib.probes.scaled.scaled_adjoints`.
    """
    networks, levels = (list(frame[name].unique()) for name in ("architecture", "loudness"))
    figure, axes = plt.subplots(
        len(levels), len(networks), figsize=(9.5, 5.6), sharex=True, sharey="row"
    )
    lines = dict(zip(np.sort(frame["scale"].unique()), ("--", "-", ":"), strict=True))
    keys = ["loudness", "architecture", "scale"]
    for (level, name, scale), part in frame.groupby(keys, sort=False):
        ax = axes[levels.index(level), networks.index(name)]
        style = {"color": colour(name), "label": f"{scale:g} W"}
        ax.plot(part["time"], part["log10_ratio"], lines[scale], **style)
    for ax, name in zip(axes[0], networks, strict=True):
        ax.set_title(label(name))
        ax.legend()
    for ax, text in zip(axes[:, 0], rows, strict=True):
        ax.set_ylabel(f"{text}\n{RATIO}")
    for ax in axes[-1]:
        ax.set_xlabel("time (step)")
    return figure
