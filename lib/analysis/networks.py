"""What became of the networks of a published table: the dataset of a group of `lib.experiments.supervised` as tables.

A text chooses a network's epoch by its validation part and reports the mean over a few trainings with its standard
deviation. So does `outcomes`; what was measured last is beside it.
"""

import json
import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from lib.plotting import colour, marker
from lib.results.schema import COMPLETED, NOT_PLANNED

RUN = ("label", "task_label", "architecture", "width", "learning_rate", "hyper_parameters", "task")
"""What identifies a network beside its name in the dataset."""
_ABOUT = (
    "parameters",
    "sequences",
    "test_sequences",
    "time_steps",
    "substitute",
    "metric",
    "guess_metric",
)
_TRAINED = ("status", "records", "step", "test_metric", "validation_metric")


MEASURES = {
    "squared error": lambda loss: loss,
    "perplexity": np.exp,
    "bits": lambda loss: loss / math.log(2),
}
"""What texts print that was not recorded as the metric, from the loss; the smaller the better."""


def in_measure(ds: xr.Dataset, measure: str, tasks: Iterable[str] | None = None) -> xr.Dataset:
    """Return `ds` with one of `MEASURES` as the metric, of these tasks (labels; all by default)."""
    labels = ds["task_label"]
    chosen = xr.ones_like(labels, bool) if tasks is None else labels.isin(list(tasks))
    changed = {
        f"{part}_metric": ds[f"{part}_metric"].where(~chosen, MEASURES[measure](ds[f"{part}_loss"]))
        for part in ("test", "validation", "train", "guess")
        if f"{part}_loss" in ds and f"{part}_metric" in ds
    }
    return ds.assign(changed | {"metric": ("run", np.where(chosen, measure, ds["metric"]))})


def trainings(ds: xr.Dataset) -> pd.DataFrame:
    """Return a row for every planned training.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``replicate``, the columns of `RUN`, ``parameters``, ``sequences``, ``test_sequences``, ``time_steps``, ``substitute``, ``metric``,
        ``guess_metric`` and, of the record with the best validation metric (the last, where nothing is validated), ``step``, ``test``
        and ``validation``; ``last`` is the test metric at the end, ``improving`` whether validation was best there. A training that diverged before its first record has
        ``nan``; ``completed`` says which did not diverge.
    """
    rows = []
    kept = {name: ds[name].transpose("run", ...).values for name in (*RUN, *_ABOUT, *_TRAINED)}
    for i, run in enumerate(ds["run"].values.tolist()):
        about = {name: kept[name][i : i + 1].tolist()[0] for name in (*RUN, *_ABOUT)}
        higher = about["metric"] == "accuracy"
        for j, replicate in enumerate(ds["replicate"].values.tolist()):
            status, records, step, test, validation = (kept[name][i, j] for name in _TRAINED)
            if status == NOT_PLANNED:
                continue
            recorded = int(records)
            found = dict.fromkeys(("step", "test", "validation", "last"), np.nan)
            found["improving"] = False
            if recorded:
                chosen = recorded - 1
                if np.isfinite(validation[:recorded]).any():
                    better = validation[:recorded] if higher else -validation[:recorded]
                    chosen = int(np.nanargmax(better))
                found = {
                    "improving": chosen == recorded - 1 > 0 and np.isfinite(validation[chosen]),
                    "step": int(step[chosen]),
                    "test": test[chosen],
                    "validation": validation[chosen],
                    "last": test[recorded - 1],
                }
            completed = bool(status == COMPLETED)
            rows.append(
                {"run": run, "replicate": replicate, **about, **found, "completed": completed}
            )
    return pd.DataFrame(rows)


def outcomes(ds: xr.Dataset) -> pd.DataFrame:
    """Return a row for every network: mean and standard deviation over its trainings.

    Returns
    -------
    pandas.DataFrame
        What a network is (`trainings`), ``ours``, ``spread`` (standard deviation, ``nan`` of fewer than two), ``n`` trainings of which ``diverged``.
    """
    rows = trainings(ds)
    same = ["run", *RUN, *_ABOUT]
    grouped = rows.groupby(same, sort=False, dropna=False)
    table = grouped.agg(
        ours=("test", "mean"),
        spread=("test", "std"),
        n=("test", "size"),
        completed=("completed", "sum"),
    ).reset_index()
    return table.assign(diverged=table["n"] - table["completed"]).drop(columns="completed")


def chosen_rates(ds: xr.Dataset) -> xr.Dataset:
    """Return the networks of `ds` with, of those that differ in nothing but the learning rate, the one that validates best.

    Where nothing is validated, the test metric decides, which favours networks with more learning rates.
    """
    best = _best(trainings(ds))
    return ds.sel(run=[run for run in ds["run"].values if run in best])


def chosen_trainings(ds: xr.Dataset) -> pd.DataFrame:
    """Return `trainings` of the networks that `chosen_rates` gives."""
    rows = trainings(ds)
    return rows[rows["run"].isin(_best(rows))].reset_index(drop=True)


def _best(rows: pd.DataFrame) -> set[str]:
    keys = [name for name in RUN if name != "learning_rate"]
    return set(_validation(rows).groupby(keys, sort=False)["score"].idxmax())


def tuned(ds: xr.Dataset, prefixes: Mapping[str, str]) -> xr.Dataset:
    """Return `ds` with more networks a task, by label: of those whose label begins with its prefix, the one that validates best."""
    means, whole = _validation(trainings(ds)), [ds]
    for label, prefix in prefixes.items():
        likely = means[means["label"].str.startswith(prefix)]
        best = list(likely.groupby("task_label", sort=False)["score"].idxmax())
        added = ds.sel(run=best).assign(label=("run", [label] * len(best)))
        whole.append(added.assign_coords(run=[f"{label} = {run}" for run in best]))
    return xr.concat(whole, "run", combine_attrs="override")


def _validation(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what a network is and its mean validation metric, the larger the better, by run; of `trainings`."""
    score = rows["validation"].fillna(rows["test"])
    score = score.where(rows["metric"] == "accuracy", -score).fillna(-np.inf)
    about = {"score": "mean", **dict.fromkeys(RUN, "first")}
    return rows.assign(score=score).groupby("run", sort=False).agg(about)


def beside_published(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Put what `outcomes` returns beside a published table, accuracies in per cent as texts print them; every row of either is kept.

    Parameters
    ----------
    published
        Columns ``network``, ``task``, ``parameters``, ``published``, ``spread`` and ``note``, as in `data/published`.

    Returns
    -------
    pandas.DataFrame
        ``task``, ``network``, ``ours``, ``spread``, ``n``, ``guess``, ``published``, ``published_spread``, ``parameters``,
        ``published_parameters``, ``note``; rows in the published order, then ours alone.
    """
    factor = np.where(ours["metric"] == "accuracy", 100.0, 1.0)
    mine = pd.DataFrame(
        {
            "task": ours["task_label"],
            "network": ours["label"],
            "ours": ours["ours"] * factor,
            "spread": ours["spread"] * factor,
            "n": ours["n"],
            "guess": ours["guess_metric"] * factor,
            "parameters": ours["parameters"],
        }
    )
    theirs = published.rename(
        columns={"spread": "published_spread", "parameters": "published_parameters"}
    )[["task", "network", "published", "published_spread", "published_parameters", "note"]]
    table = theirs.merge(mine, on=["task", "network"], how="outer", sort=False)
    place = {key: i for i, key in enumerate(zip(theirs["task"], theirs["network"], strict=True))}
    order = [
        place.get(key, len(place)) for key in zip(table["task"], table["network"], strict=True)
    ]
    columns = ["task", "network", "ours", "spread", "n", "guess", "published", "published_spread"]
    columns += ["parameters", "published_parameters", "note"]
    table = table.assign(order=order).sort_values("order", kind="stable")[columns]
    counts = dict.fromkeys(
        ("n", "parameters", "published_parameters"), "Int64"
    )  # even where some are missing
    return table.assign(note=table["note"].fillna("")).astype(counts).reset_index(drop=True)


def curves(ds: xr.Dataset, name: str = "test_metric") -> pd.DataFrame:
    """Return a variable of every record in long form: ``run``, ``label``, ``task_label``, ``architecture``, ``replicate``, ``step`` and ``value``."""
    frame = ds[[name, "step", "records"]].to_dataframe().reset_index()
    about = ds[["label", "task_label", "architecture"]].to_dataframe().reset_index()
    frame = frame[frame["record"] < frame["records"]].merge(about, on="run")
    columns = ["run", "label", "task_label", "architecture", "replicate", "step", name]
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


def steps_to(ds: xr.Dataset, threshold: float, name: str = "test_loss") -> pd.DataFrame:
    """Return after how many steps each training's `name` first lay below a threshold; ``inf`` where it never did.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``label``, ``task_label``, ``architecture``, ``replicate``, ``steps``, ``before`` (the last record before it, 0 where there is none: it
        lies between the two) and ``trained``, all steps of the training.
    """
    frame = curves(ds, name)
    keys = ["run", "label", "task_label", "architecture", "replicate"]
    below = frame["step"].where(frame["value"] < threshold, np.inf)
    first = below.groupby([frame[key] for key in keys], sort=False).transform("min")
    before = frame["step"].where(frame["step"] < first, 0)
    table = frame.assign(steps=below, before=before).groupby(keys, sort=False)
    columns = {"steps": ("steps", "min"), "before": ("before", "max"), "trained": ("step", "max")}
    return table.agg(**columns).reset_index()


def scale_sentence(ds: xr.Dataset) -> str:
    """Return the size of the experiment in words: profile, sequences, steps, trainings, and what stands in for data."""
    frame = trainings(ds)
    low, high = int(ds["steps"].max("replicate").min()), int(ds["steps"].max())
    steps = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    sequences = sorted({int(n) for n in frame["sequences"] if n})
    many = " to ".join(f"{n:,}" for n in dict.fromkeys(sequences[:1] + sequences[-1:])) or "drawn"
    stand_ins = sorted({text for text in frame["substitute"] if text})
    words = (
        f"profile {ds.attrs['profile']}, {len(frame)} trainings, {many} sequences, {steps} steps"
    )
    return words + "".join(f"; {text}" for text in stand_ins)


def hyper_parameter(ds: xr.Dataset, name: str) -> pd.Series:
    """Return a hyper-parameter of every network by run; None where it is not given."""
    given = ds["hyper_parameters"].to_series()
    return given.map(lambda text: json.loads(text).get(name))
