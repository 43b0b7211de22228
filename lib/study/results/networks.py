"""Tables of the outcomes of a group's networks (the schema `study.results.rows`).

The papers choose a network's epoch by the validation part, and report the mean and the standard
deviation over a few runs. So does `outcomes`.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import xarray as xr

from study.results.number_format import range_text
from study.results.runs import about, by_run, first_records, run_table
from study.results.schema import COMPLETED, DIVERGED, NOT_PLANNED

READINGS = {
    "others": "other networks",
    "adopted": "start at the last state, plus sign (adopted)",
    "minus": "start at the last state, minus sign",
    "printed": "start at zero, plus sign (as printed)",
}
"""Ways to read iRNN's equations: where the inner steps start, and the sign of the last state."""
BIN_WIDTH = 0.1
"""Width of a bin in the histograms of time steps, in decades (`longrnn.probes.time_steps`)."""
IDENTITY = ["label", "task", "width"]
"""Columns that identify a network up to its learning rate."""


def outcomes(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per network on a task, with the mean over its replicates.

    Parameters
    ----------
    ds
        Results of a group.

    Returns
    -------
    pandas.DataFrame
        ``run``, the columns of `about`, and:

        - ``ours`` and ``spread``: mean and standard deviation of the test metric over the ``n``
          replicates with a record; the standard deviation of a single one is ``nan``;
        - ``diverged``: number of replicates that did not complete.
    """
    runs = run_table(ds).groupby("run", sort=False)
    table = runs["test"].agg(ours="mean", spread="std", n="count").join(about(ds))
    diverged = runs.size() - runs["completed"].sum()
    return table.assign(diverged=diverged).reset_index()


def chosen_rates(ds: xr.Dataset) -> xr.Dataset:
    """Keep each network at the learning rate with the best validation metric.

    Without a validation part the test metric decides, which favors networks with more rates.

    Parameters
    ----------
    ds
        Results of a group.

    Returns
    -------
    xarray.Dataset
        The same results with fewer runs.
    """
    best = validated_best(run_table(ds), IDENTITY)
    return ds.sel(run=[run for run in ds["run"].values if run in best])


def validated_best(rows: pd.DataFrame, same: list[str]) -> set[str]:
    """Return the runs with the best mean validation metric among those that are otherwise equal.

    Parameters
    ----------
    rows
        A table of `run_table`. A replicate without a record has the metric at chance, and so has
        one that is worse than chance: a single error of 1e9 would decide a mean. Among runs that
        are all at chance the median counts.
    same
        Columns in which the compared runs agree.

    Returns
    -------
    set of str
        One run for each combination of these columns.
    """
    score = rows["validation"].fillna(rows["test"]).fillna(rows["guess_metric"])
    higher_is_better = rows["metric"] == "accuracy"
    score = score.where(higher_is_better, -score).fillna(-np.inf)
    chance = rows["guess_metric"].where(higher_is_better, -rows["guess_metric"])
    # A difference, because the metric at chance is not the same to the last digit in all runs.
    above_chance = (score - chance).clip(lower=0).fillna(score)
    means = above_chance.groupby(rows["run"], sort=False).mean()
    # Runs of which no replicate is better than chance have equal means: their medians decide.
    medians = score.groupby(rows["run"], sort=False).median()
    runs = rows.drop_duplicates("run").set_index("run").assign(mean=means, median=medians)
    order = runs.sort_values(["mean", "median"], ascending=False, kind="stable")
    return set(order[~order.duplicated(same)].index)


def tuned(ds: xr.Dataset, **factors: str) -> xr.Dataset:
    """Add each network once more, at the level of a factor with the best validation metric.

    If there are ``LEM, dt=1`` and ``LEM, dt=0.1``, then ``tuned(ds, LEM="dt")`` adds the better of
    the two on each task under the label ``LEM``.

    Parameters
    ----------
    ds
        Results of a group.
    factors
        From the name of a network to the factor that was swept.

    Returns
    -------
    xarray.Dataset
        The same results and one more run for each network and task.
    """
    parts = [ds]
    rows = run_table(ds)
    for network, factor in factors.items():
        best = validated_best(levels_of(rows, network, factor), ["task"])
        added = ds.isel(run=ds["run"].isin([*best]).values)
        added = added.assign(label=("run", [network] * len(best)))
        names = [f"{network} = {run}" for run in added["run"].values]
        parts.append(added.assign_coords(run=names))
    return xr.concat(parts, "run", combine_attrs="override", data_vars="minimal", coords="minimal")


def at_best_level(ds: xr.Dataset, networks: Iterable[str], factor: str) -> xr.Dataset:
    """Keep some networks at the level of a factor with the best validation metric on each task.

    Parameters
    ----------
    ds
        Results of a group.
    networks
        Their names. A run whose label is just the network's name counts as a level, too.
    factor
        The factor.

    Returns
    -------
    xarray.Dataset
        The same results without the other levels. The label of a kept run is the network's name.
    """
    rows = run_table(ds)
    labels = ds["label"].to_series()
    dropped: set[str] = set()
    for network in networks:
        levels = pd.concat([rows[rows["label"] == network], levels_of(rows, network, factor)])
        best = validated_best(levels, ["task"])
        labels[list(best)] = network
        dropped |= set(levels["run"]) - best
    ds = ds.assign(label=("run", labels.to_numpy()))
    return ds.sel(run=[run for run in ds["run"].values if run not in dropped])


def levels_of(rows: pd.DataFrame, network: str, factor: str) -> pd.DataFrame:
    """Return the rows of a network that differ in the level of a factor.

    Parameters
    ----------
    rows
        A table with a column ``label``, such as that of `run_table`.
    network
        Start of the label, such as ``LEM`` or ``dt-LSTM v1``.
    factor
        Column of the factor.

    Returns
    -------
    pandas.DataFrame
        Rows whose label names the level after the network, such as ``LEM, dt=0.1`` or
        ``LEM, alpha=2, dt=0.1``.
    """
    of_network = rows[rows["label"].str.startswith(f"{network}, ")]
    settings = of_network["label"].str.removeprefix(network)
    levels = of_network[settings.str.contains(f", {factor}=", regex=False)]
    return levels[levels[factor].notna() & (levels[factor] != "")]


def compare_with_published(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Join our outcomes and a published table; accuracies are in percent.

    Parameters
    ----------
    ours
        `outcomes`.
    published
        Columns ``network`` (our label), ``task``, ``parameters``, ``published``, ``spread`` and
        ``note``, as in `data/published`.

    Returns
    -------
    pandas.DataFrame
        Columns ``task``, ``network``, ``ours``, ``spread``, ``n``, ``diverged``, ``guess``,
        ``published``, ``published_spread``, ``parameters``, ``published_parameters``, ``note``.
        The published rows come first, in their order, then those that only we have.
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
    theirs = theirs.assign(order=range(len(theirs)))
    table = theirs.merge(mine, on=["task", "network"], how="outer")
    columns = ["task", "network", "ours", "spread", "n", "diverged", "guess", "published"]
    columns += ["published_spread", "parameters", "published_parameters", "note"]
    table = table.sort_values("order", kind="stable")[columns]
    counts = dict.fromkeys(("n", "diverged", "parameters", "published_parameters"), "Int64")
    # Without any note, pandas reads the column as numbers, which can't be replaced by texts.
    notes = table["note"].astype(object).fillna("")
    return table.assign(note=notes).astype(counts).reset_index(drop=True)


def curves(ds: xr.Dataset, name: str = "test_metric", *more: str) -> pd.DataFrame:
    """Return a variable at every record as a table with one row per record.

    Parameters
    ----------
    ds
        Results of a group.
    name
        A variable with the dimensions run, replicate and record.
    more
        Further columns of `about`.

    Returns
    -------
    pandas.DataFrame
        Columns ``run``, ``label``, ``task``, ``architecture``, ``replicate``, ``step``, ``value``,
        and `more`.
    """
    frame = ds[[name, "step", "records"]].reset_coords(drop=True).to_dataframe().reset_index()
    frame = frame[frame["record"] < frame["records"]]
    known = about(ds)[["label", "task", "architecture", *more]].reset_index()
    frame = frame.merge(known, on="run")
    columns = ["run", "label", "task", "architecture", "replicate", "step", name, *more]
    return frame[columns].rename(columns={name: "value"})


def steps_to(ds: xr.Dataset, threshold: float) -> pd.DataFrame:
    """Return the number of steps until each run's test loss was first below a threshold.

    Parameters
    ----------
    ds
        Results of a group.
    threshold
        Threshold of the test loss.

    Returns
    -------
    pandas.DataFrame
        Columns ``run``, ``label``, ``task``, ``architecture``, ``replicate``, and:

        - ``steps``: step of the first record below the threshold; ``inf`` if there is none;
        - ``before``: step of the record before it, 0 if there is none;
        - ``trained``: number of steps of the whole run.
    """
    loss = ds.variables["test_loss"]
    step = ds.variables["step"]
    step = step.where(first_records(ds, ds.variables["records"]))
    steps = step.where(loss < threshold, np.inf).min("record")
    columns = {
        "steps": steps,
        "before": step.where(step < steps, 0).max("record"),
        "trained": step.max("record").fillna(0),
    }
    table = by_run(ds, columns, ds["status"].isin((COMPLETED, DIVERGED)).variable)
    known = about(ds)[["label", "task", "architecture"]]
    table = table.join(known, on="run")[["run", *known, "replicate", *columns]]
    return table.astype({"before": int, "trained": int})


def scale_sentence(ds: xr.Dataset) -> str:
    """Return the size of the experiment in words, and the data that replace a paper's.

    Parameters
    ----------
    ds
        Results of a group.

    Returns
    -------
    str
        Such as ``profile real, 12 runs, 5,000 sequences, 800 steps``. The steps are those of runs
        that completed, because one that diverges may end at once.
    """
    completed = ds["status"] == COMPLETED
    if not completed.any():
        completed = ds["status"] == DIVERGED
    of_network = ds["steps"].where(completed).max("replicate").dropna("run")
    steps = range_text(int(of_network.min()), int(of_network.max()))
    counts = [int(count) for count in ds["sequences"].values if count]
    sequences = "drawn"
    if counts:
        sequences = range_text(min(counts), max(counts))
    planned = int((ds["status"] != NOT_PLANNED).sum())
    size = f"profile {ds.attrs['profile']}, {planned} runs, {sequences} sequences, {steps} steps"
    substitutes = set(ds["substitute"].values.tolist()) - {""}
    return "; ".join([size, *sorted(substitutes)])
