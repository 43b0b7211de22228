"""What the adding problem (LEM's Figures 1 and 3) says of the text's claims."""

import math

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis.network_claims import Networks, drawn, on_task, times_as_long
from lib.analysis.networks import in_measure, steps_to
from lib.results.claims import (
    Finding,
    Judges,
    geometric_mean,
    largest,
    smallest,
)

SOLVED = 0.01
"""Mean squared error below which the authors' log calls the problem solved; always answering one costs a sixth."""
LONGEST = 2_000
"""Time steps of the longest sequences in Figure 3."""
OTHERS = ("chrono-LSTM", "LSTM", "coRNN", "FastGRNN", "expRNN")

judges = Judges("long_memory")


def networks(ds: xr.Dataset, task: str) -> Networks:
    """Return the networks of a length with their squared errors."""
    return Networks(in_measure(ds, "squared error"), task)


def compared(ds: xr.Dataset) -> list[str]:
    """Return the tasks on which other networks than LEM were trained, by length."""
    return list(dict.fromkeys(ds["task_label"].values[ds["label"].isin(OTHERS)].tolist()))


def _over_guess(ds: xr.Dataset, label: str, task: str) -> Finding:
    held = networks(ds, task)
    if refused := held.refusal("LEM") or held.missing(label):
        return refused  # that nobody can learn says nothing of one
    rows = held.of(label)
    return geometric_mean(rows["score"] / rows["guess"], held.scale(label))


def _drawn(lem: float, lstm: float = 0.15, chrono: float = 0.05, *, spread: float = 0.04):
    """Return how to draw squared errors of LEM, LSTM and chrono-LSTM at two lengths, and the same steps for all."""
    scores = {"LEM": lem, "LSTM": lstm, "chrono-LSTM": chrono}
    levels = on_task(scores, "N=1", "N=2")
    make = drawn(levels, spread=spread, guess=1 / 6, measure="squared error")

    def draw(rng: np.random.Generator, replicates: int = 6) -> xr.Dataset:
        ds = make(rng, replicates)
        return ds.assign(step=ds["step"] * rng.integers(800, 1200, ds["step"].shape))

    return draw


def _slower_when_longer(rng: np.random.Generator) -> xr.Dataset:
    """Draw errors at which the longer task takes four times the steps."""
    ds = _drawn(0.005)(rng)
    return ds.assign(step=ds["step"] * xr.where(ds["task_label"] == "N=2", 4, 1))


@judges.judge(
    "lem-5-adding-lstm", false=_drawn(0.005, lstm=0.12), true=_drawn(0.005, lstm=0.165, spread=0.01)
)
def lstm_stays_at_the_guess(ds: xr.Dataset) -> Finding:
    return smallest(_over_guess(ds, "LSTM", task) for task in compared(ds))


@judges.judge("lem-5-adding-lem", false=_drawn(0.04), true=_drawn(0.005))
def lem_solves_it(ds: xr.Dataset) -> Finding:
    return largest(_over_guess(ds, "LEM", task) for task in compared(ds))


@judges.judge("lem-5-adding-lower", false=_drawn(0.05), true=_drawn(0.005))
def lem_beats_chrono(ds: xr.Dataset) -> Finding:
    return smallest(networks(ds, task).lead("LEM", "chrono-LSTM") for task in compared(ds))


def first_solved(ds: xr.Dataset) -> pd.DataFrame:
    """Return after how many steps each training had an error below `SOLVED`; all of its steps where it never had."""
    table = steps_to(ds, SOLVED)
    return table.assign(steps=table["steps"].where(np.isfinite(table["steps"]), table["trained"]))


def _times_as_long(ds: xr.Dataset, one: tuple[str, str], other: tuple[str, str]) -> Finding:
    held, table = networks(ds, other[1]), first_solved(ds)
    if refused := held.refusal(other[0]) or networks(ds, one[1]).missing(one[0]):
        return refused
    pair = [table.query("label == @label and task_label == @task") for label, task in (one, other)]
    return times_as_long(*pair, held.scale(other[0]))


@judges.judge("lem-5-adding-faster", false=_drawn(0.005, chrono=0.005))
def lem_is_faster_than_chrono(ds: xr.Dataset) -> Finding:
    tasks = compared(ds)
    return smallest(_times_as_long(ds, ("chrono-LSTM", task), ("LEM", task)) for task in tasks)


def lengths(ds: xr.Dataset, longest: float = math.inf) -> list[str]:
    """Return the tasks that LEM was trained on, from the shortest sequences to those of `longest` steps."""
    steps = {
        int(task.removeprefix("N=")): task for task in ds["task_label"].values[ds["label"] == "LEM"]
    }
    return [steps[n] for n in sorted(steps) if n <= longest]


@judges.judge("lem-B1-dtadding-error", false=_drawn(0.03), true=_drawn(0.005))
def one_rule_for_dt_suffices(ds: xr.Dataset) -> Finding:
    return largest(_over_guess(ds, "LEM", task) for task in lengths(ds, LONGEST))


@judges.judge("lem-B1-dtadding-steps", false=_slower_when_longer)
def steps_do_not_depend_on_length(ds: xr.Dataset) -> Finding:
    tasks = lengths(ds, LONGEST)
    return _times_as_long(ds, ("LEM", tasks[-1]), ("LEM", tasks[0]))
