"""What became of the networks of a group of rows (`study.results.rows`), as tables.

A text chooses a network's epoch by its validation part and reports the mean over a few trainings with its standard
deviation. So does `outcomes`; what was measured last is beside it.
"""

import math
from collections.abc import Callable, Iterable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from study.results.names import colour, marker
from study.results.schema import COMPLETED, DIVERGED, NOT_PLANNED

READINGS = {
    "others": "other networks",
    "adopted": "adopted: from the last state",
    "minus": "minus: the remark's sign",
    "printed": "printed: from zero",
}
"""How iRNN's equations are read: where the inner steps start, and with which sign the last state enters them."""
CLASS = 0.1
"""Width of a class of time steps, in decades (`longrnn.probes.time_steps`)."""
_INNER = {1: ":", 2: "-.", 3: "-.", 5: "--", 10: "-"}
IDENTITY = ["label", "task", "width"]
"""What networks that differ in their learning rate alone have in common."""
MEASURES = {
    "squared error": lambda loss: loss,
    "perplexity": np.exp,
    "bits": lambda loss: loss / math.log(2),
}
"""What texts print that was not recorded as the metric, from the loss; the smaller the better."""


def in_measure(ds: xr.Dataset, measure: str, tasks: Iterable[str] | None = None) -> xr.Dataset:
    """Return `ds` with one of `MEASURES` as the metric, of these tasks (all by default)."""
    chosen = ds["task"].isin(list(tasks)) if tasks is not None else ds["task"] == ds["task"]
    changed = {
        f"{part}_metric": ds[f"{part}_metric"].where(~chosen, MEASURES[measure](ds[f"{part}_loss"]))
        for part in ("test", "validation", "train", "guess")
        if f"{part}_loss" in ds and f"{part}_metric" in ds
    }
    return ds.assign(changed | {"metric": ("run", np.where(chosen, measure, ds["metric"]))})


def about(ds: xr.Dataset) -> pd.DataFrame:
    """Return what is known of each run before it is trained: its names, sizes and factors, by run."""
    known = {name: one.values for name, one in ds.variables.items() if one.dims == ("run",)}
    return pd.DataFrame(known).set_index("run")


def run_table(ds: xr.Dataset) -> pd.DataFrame:
    """Return a row for every planned training: ``run``, ``replicate``, the columns of `about`, and what it came to.

    ``step``, ``test`` and ``validation`` are those of the record with the best validation metric (the last, where nothing is
    validated), ``then`` is ``test`` of the first two thirds of the records, ``last`` the test metric at the end, ``improving`` whether
    validation (the test metric, where nothing is validated) was best at the end. A training that diverged
    before its first record has ``nan``; ``completed`` says which did not diverge.
    """
    records, status, metric = (ds.variables[name] for name in ("records", "status", "metric"))
    validation = ds.variables["validation_metric"]
    validated = (_there(ds, records) & np.isfinite(validation)).any("record")
    score = xr.where(validated, validation, ds.variables["test_metric"])
    score = score.where(metric == "accuracy", -score)

    def best(among: xr.Variable) -> xr.Variable:
        return score.where(_there(ds, among) & np.isfinite(score), -np.inf).argmax("record")

    def at(name: str, place: xr.Variable) -> xr.Variable:
        return ds.variables[name].isel(record=place).where(records > 0)

    of_all, last, early = best(records), (records - 1).clip(0), -(-2 * records // 3)
    chosen = of_all.where(validated, last)
    columns = {
        "step": at("step", chosen),
        "test": at("test_metric", chosen),
        "validation": at("validation_metric", chosen),
        "last": at("test_metric", last),
        "then": at("test_metric", best(early).where(validated, (early - 1).clip(0))),
        "improving": (of_all == last) & (last > 0),
        "completed": status == COMPLETED,
    }
    return by_training(ds, columns, status != NOT_PLANNED).join(about(ds), on="run")


def _there(ds: xr.Dataset, records: xr.Variable) -> xr.Variable:
    """Return which are the first `records` of a training."""
    return records > xr.Variable("record", np.arange(ds.sizes["record"]))


def by_training(
    ds: xr.Dataset, columns: dict[str, xr.Variable], which: xr.Variable
) -> pd.DataFrame:
    """Return a row for `which` trainings of `ds`: ``run``, ``replicate`` and these columns."""
    whole = xr.Dataset(columns | {"which": which}, ds[["run", "replicate"]].indexes)
    frame = whole.to_dataframe(dim_order=["run", "replicate"]).reset_index()
    return frame[frame.pop("which")].reset_index(drop=True)


def outcomes(ds: xr.Dataset) -> pd.DataFrame:
    """Return a row for every network: the columns of `about` and its trainings together.

    ``ours`` and ``spread`` are mean and standard deviation (``nan`` of fewer than two) of the test metric over the ``n`` trainings
    that reached a record; ``diverged`` counts those that diverged, before or after.
    """
    runs = run_table(ds).groupby("run", sort=False)
    table = runs["test"].agg(ours="mean", spread="std", n="count").join(about(ds))
    return table.assign(diverged=runs.size() - runs["completed"].sum()).reset_index()


def chosen_rates(ds: xr.Dataset) -> xr.Dataset:
    """Return the networks of `ds` with, of those that differ in nothing but the learning rate, the one that validates best.

    Where nothing is validated, the test metric decides, which favours networks with more learning rates.
    """
    best = validated_best(run_table(ds), IDENTITY)
    return ds.sel(run=[run for run in ds["run"].values if run in best])


def validated_best(rows: pd.DataFrame, same: list[str]) -> set[str]:
    """Return, of `run_table` with the same of these columns, the runs with the best mean validation metric; without a record a training counts as a guess."""
    score = rows["validation"].fillna(rows["test"]).fillna(rows["guess_metric"])
    score = score.where(rows["metric"] == "accuracy", -score).fillna(-np.inf)
    means = score.groupby(rows["run"], sort=False).mean()
    runs = rows.drop_duplicates("run").set_index("run")
    order = runs.assign(score=means).sort_values("score", ascending=False, kind="stable")
    return set(order[~order.duplicated(same)].index)


def tuned(ds: xr.Dataset, **factors: str) -> xr.Dataset:
    """Return `ds` with more networks, called by their plain name: of the levels of a factor the one that validates best.

    ``tuned(ds, LEM="dt")`` adds to ``LEM, dt=1`` and ``LEM, dt=0.1`` the better of the two as ``LEM``, on each task.
    """
    whole, rows = [ds], run_table(ds)
    for one, factor in factors.items():
        best = validated_best(levels_of(rows, one, factor), ["task"])
        added = ds.isel(run=ds["run"].isin([*best]).values).assign(label=("run", [one] * len(best)))
        whole.append(added.assign_coords(run=[f"{one} = {run}" for run in added["run"].values]))
    return xr.concat(whole, "run", combine_attrs="override", data_vars="minimal", coords="minimal")


def levels_of(rows: pd.DataFrame, network: str, factor: str) -> pd.DataFrame:
    """Return the rows of a network, whose label may say more of it (dt-LSTM v1), that are told apart by their level of a factor."""
    named = rows["label"].str.startswith(f"{network}, ") & rows["label"].str.contains(f"{factor}=")
    return rows[named & rows[factor].notna() & (rows[factor] != "")]


def beside_published(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Put what `outcomes` returns beside a published table, accuracies in per cent as texts print them; every row of either is kept.

    `published` has columns ``network`` (our label), ``task``, ``parameters``, ``published``, ``spread`` and ``note``, as in
    `data/published`; returned are ``task``, ``network``, ``ours``, ``spread``, ``n``, ``diverged``, ``guess``, ``published``, ``published_spread``,
    ``parameters``, ``published_parameters``, ``note``; rows in the published order, then ours alone.
    """
    factor = np.where(ours["metric"] == "accuracy", 100.0, 1.0)
    mine = ours.assign(
        network=ours["label"],
        ours=ours["ours"] * factor,
        spread=ours["spread"] * factor,
        guess=ours["guess_metric"] * factor,
    )[["task", "network", "ours", "spread", "n", "diverged", "guess", "parameters"]]
    theirs = published.rename(
        columns={"spread": "published_spread", "parameters": "published_parameters"}
    )[["task", "network", "published", "published_spread", "published_parameters", "note"]]
    table = theirs.assign(order=range(len(theirs))).merge(mine, on=["task", "network"], how="outer")
    columns = ["task", "network", "ours", "spread", "n", "diverged", "guess", "published"]
    columns += ["published_spread", "parameters", "published_parameters", "note"]
    table = table.sort_values("order", kind="stable")[columns]
    counts = dict.fromkeys(("n", "diverged", "parameters", "published_parameters"), "Int64")
    return table.assign(note=table["note"].fillna("")).astype(counts).reset_index(drop=True)


def curves(ds: xr.Dataset, name: str = "test_metric", *more: str) -> pd.DataFrame:
    """Return a variable of every record in long form: ``run``, ``label``, ``task``, ``architecture``, ``replicate``, ``step``, ``value``, and `more` of `about`."""
    frame = ds[[name, "step", "records"]].reset_coords(drop=True).to_dataframe().reset_index()
    frame = frame[frame["record"] < frame["records"]]
    frame = frame.merge(about(ds)[["label", "task", "architecture", *more]].reset_index(), on="run")
    columns = ["run", "label", "task", "architecture", "replicate", "step", name, *more]
    return frame[columns].rename(columns={name: "value"})


def plot_curves(ax: Axes, frame: pd.DataFrame, *, styles: dict[str, str] | None = None) -> None:
    """Draw `curves`: a line for each network, the mean over trainings, with a band from the smallest to the largest.

    Up to eight markers tell its architecture. `styles` gives line styles by label, for networks of one architecture.
    """
    for _, rows in frame.groupby("run", sort=False):
        first = rows.iloc[0]
        by_step = rows.groupby("step")["value"]
        mean, tint = by_step.mean(), colour(first["architecture"])
        style = (styles or {}).get(first["label"], "-")
        shape = {"marker": marker(first["architecture"]), "markevery": -(-len(mean) // 8)}
        ax.plot(mean.index, mean, style, color=tint, label=first["label"], markersize=4, **shape)
        if by_step.size().max() > 1:
            ax.fill_between(mean.index, by_step.min(), by_step.max(), color=tint, alpha=0.15, lw=0)


def plot_accuracies(
    ds: xr.Dataset, *, styles: dict[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw test accuracies in percent while training, a panel for each task, dotted the guess; return the figure and its `curves`."""
    drawn = curves(ds)
    tasks = list(dict.fromkeys(drawn["task"]))
    size = (4 + 3 * len(tasks), 4.2)
    figure, axes = plt.subplots(1, len(tasks), figsize=size, sharey=True, squeeze=False)
    for ax, task in zip(axes[0], tasks, strict=True):
        rows = drawn[drawn["task"] == task]
        plot_curves(ax, rows.assign(value=100 * rows["value"]), styles=styles)
        guess = 100 * float(ds["guess_metric"].where(ds["task"] == task).max())
        ax.axhline(guess, color="black", linestyle=":", label="guess")
        ax.set(title=task, xlabel="training steps (batches)")
    axes[0, 0].set(ylabel="test accuracy (%)")
    axes[0, -1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure, drawn


def plot_readings(
    frame: pd.DataFrame, draw: Callable[[Axes], object] = lambda ax: None, **axes: object
) -> Figure:
    """Draw curves, with columns ``reading`` and ``inner_steps``, in a panel for each reading that there is.

    A line is the median over trainings, since one that blows up hides all others in a mean. Its dashes say how many inner steps, or which
    of two networks of an architecture it is; `draw` adds to each panel, and `axes` are its settings.
    """
    there = [name for name in READINGS if (frame["reading"] == name).any()]
    rows = (len(there) + 1) // 2
    fig, panels = plt.subplots(
        rows, 2, sharex=True, sharey=True, squeeze=False, figsize=(9, 3.5 * rows)
    )
    for ax, name in zip(panels.flat, there, strict=False):
        seen = set()
        for label, rows_of in frame[frame["reading"] == name].groupby("label", sort=False):
            first, line = rows_of.iloc[0], rows_of.groupby("step")["value"].median()
            dash = _INNER.get(first["inner_steps"], "--" if first["architecture"] in seen else "-")
            seen.add(first["architecture"])
            tint = colour(first["architecture"])
            ax.plot(line.index, line, dash, color=tint, label=label)
        draw(ax)
        ax.set(title=READINGS[name], **axes)
        ax.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    for ax in panels.flat[len(there) :]:
        ax.set_visible(False)
    for ax in panels.flat[max(len(there) - 2, 0) : len(there)]:  # the lowest of each column
        ax.set_xlabel("training step")
        ax.tick_params(labelbottom=True)
    return fig


def plot_histograms(
    rows: pd.DataFrame, names: list[str], architecture: str, *, log: bool = False
) -> Figure:
    """Draw a network's shares by class, a panel a kind of step: after training as bars, before as a line, means over trainings."""
    size, alike = (2.4 + 2.4 * len(names), 3.4), {"sharex": True, "sharey": True}
    figure, axes = plt.subplots(1, len(names), figsize=size, squeeze=False, **alike)
    looks = {
        "trained": {"fill": True, "color": colour(architecture), "alpha": 0.8},
        "untrained": {"color": "black", "linestyle": ":"},
    }
    for scale, (ax, name) in enumerate(zip(axes[0], names, strict=True)):
        for stage, look in looks.items():
            of_kind = rows[(rows["scale"] == scale) & (rows["stage"] == stage)]
            mean = of_kind.groupby("dt")["share"].sum() / max(1, of_kind["replicate"].nunique())
            classes = np.round(np.log10(mean.index.to_numpy()) - CLASS / 2, 1)
            edges = np.round(np.arange(classes.min(), classes.max() + 1.5 * CLASS, CLASS), 1)
            heights = dict(zip(classes, mean, strict=True))
            values = [heights.get(edge, 0.0) for edge in edges[:-1]]
            ax.stairs(values, 10**edges, label=stage, **look)
        ax.set(xscale="log", xlabel="time step", title=name)
        ax.xaxis.set_minor_formatter(NullFormatter())
        if log:
            ax.set(yscale="log")
    axes[0, 0].set(ylabel="share of the steps")
    axes[0, 0].legend()
    return figure


def steps_to(ds: xr.Dataset, threshold: float) -> pd.DataFrame:
    """Return after how many steps each training's test loss first lay below a threshold; ``inf`` where it never did, as of one that diverged before.

    Columns ``run``, ``label``, ``task``, ``architecture``, ``replicate``, ``steps``, ``before`` (the last record before it, 0 where there is
    none: it lies between the two) and ``trained``, all steps of the training.
    """
    step, loss = (ds.variables[name] for name in ("step", "test_loss"))
    step = step.where(_there(ds, ds.variables["records"]))
    steps = step.where(loss < threshold, np.inf).min("record")
    columns = {
        "steps": steps,
        "before": step.where(step < steps, 0).max("record"),
        "trained": step.max("record").fillna(0),
    }
    table = by_training(ds, columns, ds["status"].isin((COMPLETED, DIVERGED)).variable)
    known = about(ds)[["label", "task", "architecture"]]
    table = table.join(known, on="run")[["run", *known, "replicate", *columns]]
    return table.astype({"before": int, "trained": int})


def scale_sentence(ds: xr.Dataset) -> str:
    """Return the size of the experiment in words: profile, sequences, steps, trainings, and what stands in for data."""
    low, high = int(ds["steps"].max("replicate").min()), int(ds["steps"].max())
    steps = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    sequences = sorted({int(n) for n in ds["sequences"].values if n})
    many = " to ".join(f"{n:,}" for n in dict.fromkeys(sequences[:1] + sequences[-1:])) or "drawn"
    planned = int((ds["status"] != NOT_PLANNED).sum())
    words = f"profile {ds.attrs['profile']}, {planned} trainings, {many} sequences, {steps} steps"
    return "; ".join([words, *sorted(set(ds["substitute"].values.tolist()) - {""})])
