"""What the adding problem (LEM's Figures 1 and 3) says of the text's claims."""

import math
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis.network_claims import Networks, drawn, on_task, times_as_long
from lib.analysis.networks import chosen_rates, in_measure, steps_to
from lib.results.claims import (
    Finding,
    Judges,
    geometric_mean,
    largest,
    smallest,
    unable,
)
from lib.results.learned import ADDING_GUESS

SOLVED = 0.01
"""Mean squared error below which the authors' log calls the problem solved; always answering one costs a sixth."""
SHORTEST = 2_000
"""Time steps of the shortest sequences in Figure 1, whose claims are about great lengths."""
RULE = (250, 2_000)
"""Time steps of the shortest and the longest sequences in Figure 3."""
OTHERS = ("chrono-LSTM", "LSTM", "coRNN", "FastGRNN", "expRNN")

judges = Judges("long_memory")


def networks(ds: xr.Dataset, task: str) -> Networks:
    """Return the networks of a length with their squared errors."""
    return Networks(in_measure(ds, "squared error"), task)


def lengths(ds: xr.Dataset, shortest: float = 0, longest: float = math.inf) -> list[str]:
    """Return the tasks that LEM was trained on, by the length of their sequences, which lies between these."""
    steps = {
        int(task.removeprefix("N=")): task for task in ds["task_label"].values[ds["label"] == "LEM"]
    }
    return [steps[n] for n in sorted(steps) if shortest <= n <= longest]


def compared(ds: xr.Dataset, shortest: float = 0) -> list[str]:
    """Return the tasks on which other networks were trained beside LEM, of sequences of `shortest` steps or more."""
    others = set(ds["task_label"].values[ds["label"].isin(OTHERS)].tolist())
    return [task for task in lengths(ds, shortest) if task in others]


def _over_guess(ds: xr.Dataset, label: str, task: str) -> Finding:
    held = networks(ds, task)
    if refused := held.refusal("LEM") or held.missing(label):
        return refused  # that nobody can learn says nothing of one
    rows = held.of(label)
    return geometric_mean(rows["score"] / rows["guess"], held.scale(label))


def _drawn(lem: float, lstm: float = 0.15, chrono: float = 0.05, *, spread: float = 0.04):
    """Return how to draw squared errors of LEM, LSTM and chrono-LSTM at three lengths, and the same steps for all."""
    scores = {"LEM": lem, "LSTM": lstm, "chrono-LSTM": chrono}
    levels = on_task(scores, "N=250", "N=2000", "N=5000")
    make = drawn(levels, spread=spread, guess=ADDING_GUESS, measure="squared error")

    def draw(rng: np.random.Generator, replicates: int = 6) -> xr.Dataset:
        ds = make(rng, replicates)
        return ds.assign(step=ds["step"] * rng.integers(800, 1200, ds["step"].shape))

    return draw


def _slower_when_longer(rng: np.random.Generator) -> xr.Dataset:
    """Draw errors at which the longest task of Figure 3 takes four times the steps."""
    ds = _drawn(0.005)(rng)
    return ds.assign(step=ds["step"] * xr.where(ds["task_label"] == "N=2000", 4, 1))


def _extreme(
    of: Callable[[Iterable[Finding]], Finding], find: Callable[[str], Finding], tasks: list[str]
) -> Finding:
    """Return the smallest or largest finding of several lengths."""
    return of(map(find, tasks)) if tasks else unable("trained at none of the text's lengths")


@judges.judge(
    "lem-5-adding-lstm", false=_drawn(0.005, lstm=0.12), true=_drawn(0.005, lstm=0.165, spread=0.01)
)
def lstm_stays_at_the_guess(ds: xr.Dataset) -> Finding:
    return _extreme(smallest, lambda task: _over_guess(ds, "LSTM", task), compared(ds, SHORTEST))


@judges.judge("lem-5-adding-lem", false=_drawn(0.04), true=_drawn(0.005))
def lem_solves_it(ds: xr.Dataset) -> Finding:
    return _extreme(largest, lambda task: _over_guess(ds, "LEM", task), lengths(ds, SHORTEST))


@judges.judge("lem-5-adding-lower", false=_drawn(0.05), true=_drawn(0.005))
def lem_beats_chrono(ds: xr.Dataset) -> Finding:
    def lead(task: str) -> Finding:
        return networks(ds, task).lead("LEM", "chrono-LSTM")

    return _extreme(smallest, lead, compared(ds, SHORTEST))


def first_solved(ds: xr.Dataset) -> pd.DataFrame:
    """Return after how many steps each training had an error below `SOLVED`; all of its steps where it never had."""
    table = steps_to(chosen_rates(ds), SOLVED)
    return table.assign(steps=table["steps"].where(np.isfinite(table["steps"]), table["trained"]))


def _times_as_long(ds: xr.Dataset, one: tuple[str, str], other: tuple[str, str]) -> Finding:
    held, table = networks(ds, other[1]), first_solved(ds)
    if refused := held.refusal(other[0]) or networks(ds, one[1]).missing(one[0]):
        return refused
    pair = [table.query("label == @label and task_label == @task") for label, task in (one, other)]
    return times_as_long(*pair, held.scale(other[0]))


@judges.judge("lem-5-adding-faster", false=_drawn(0.005, chrono=0.005))
def lem_is_faster_than_chrono(ds: xr.Dataset) -> Finding:
    def times(task: str) -> Finding:
        return _times_as_long(ds, ("chrono-LSTM", task), ("LEM", task))

    return _extreme(smallest, times, compared(ds, SHORTEST))


@judges.judge("lem-B1-dtadding-error", false=_drawn(0.03), true=_drawn(0.005))
def one_rule_for_dt_suffices(ds: xr.Dataset) -> Finding:
    return _extreme(largest, lambda task: _over_guess(ds, "LEM", task), lengths(ds, *RULE))


@judges.judge("lem-B1-dtadding-steps", false=_slower_when_longer)
def steps_do_not_depend_on_length(ds: xr.Dataset) -> Finding:
    tasks = lengths(ds, *RULE)
    if len(tasks) < 2:
        return unable("LEM was trained at fewer than two of the text's lengths")
    return _times_as_long(ds, ("LEM", tasks[-1]), ("LEM", tasks[0]))
