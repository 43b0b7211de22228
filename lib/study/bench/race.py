"""The one way in which anything is timed here.

Times on a shared machine drift, so nothing is timed alone: every round runs all entrants in turn, a ratio compares two times of
one round, and medians over rounds are reported. A time says little without its baseline, size, machine and versions: every row has
them. Rows are appended to a file one by one, so that a run that is cut short keeps what it has measured; an entrant that fails
is a row as well, and the others go on.
"""

import csv
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from statistics import median

import torch
from longrnn import kernels
from torch import nn

from study.pipeline.machine import processor

COLUMNS = ("what", "size", "quantity", "round", "value", "unit", "baseline", "ratio")
COLUMNS += ("rounds", "passed", "failure", "machine", "versions")
"""Of every benchmark. One measurement has its ``round``, a median the number of ``rounds`` and its ``baseline``; ``ratio`` is the
median over rounds of the time by the baseline's, below 1 where it is faster. ``passed`` tells whether what must hold did."""

MEASUREMENT, MEDIAN = "time", "median time"
"""Quantities of the rows of a race."""

_PACKAGES = ("torch", "numba", "numba-cuda", "numpy", "scipy", "statsmodels")

Timer = Callable[[], float]
"""Does something once and returns the milliseconds that it took."""


@dataclass(frozen=True)
class Workload:
    """Sizes of one benchmark: forward plus backward of one recurrent layer."""

    batch: int
    time_steps: int
    hidden: int
    inputs: int = 1

    def __str__(self) -> str:
        return f"B{self.batch} T{self.time_steps} d{self.hidden}"


class Ledger:
    """Rows of measurements, each appended to a CSV file at once, or without one kept in memory alone.

    The file is begun `anew`, or rows are added to those that are there. `where` is the machine in words, by default its processor.
    """

    def __init__(self, path: Path | None = None, *, anew: bool = True, where: str = "") -> None:
        self.rows: list[dict] = []
        self._path = path
        self._about = {"machine": where or machine(), "versions": versions()}
        if path is not None and (anew or not path.exists()):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(COLUMNS, "w")

    def add(self, what: str, quantity: str, **more) -> dict:
        """Append a row and return it; `more` are columns."""
        if unknown := more.keys() - set(COLUMNS):
            raise ValueError(f"unknown column {min(unknown)!r}; known: {', '.join(COLUMNS)}")
        given = {"what": what, "quantity": quantity, **self._about, **more}
        given["size"] = str(more.get("size", ""))
        row = {column: given.get(column) for column in COLUMNS}
        self.rows.append(row)
        if self._path is not None:
            self._append(row.values(), "a")
        return row

    def _append(self, values: Collection, mode: str) -> None:
        with self._path.open(mode, encoding="utf-8", newline="") as file:
            texts = (f"{value:.6g}" if isinstance(value, float) else value for value in values)
            csv.writer(file, lineterminator="\n").writerow(texts)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a ledger's file as texts by column."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def race(
    entrants: Mapping[str, Timer],
    ledger: Ledger,
    *,
    size: object,
    rounds: int,
    baselines: Collection[str] | Mapping[str, Collection[str]] = (),
    warm_up: int = 1,
) -> list[dict]:
    """Run all entrants in turn, round after round.

    Every measurement goes to the ledger, and every failure: an entrant that failed takes no further part. Kernels compile in the
    rounds of `warm_up`, which do not count. `baselines` are names of entrants that all others are set beside, or such names for
    each entrant. Returned is a row of medians for each entrant and baseline, which is in the ledger too.
    """
    if rounds < 1:
        raise ValueError(f"expected at least one round, got {rounds}")
    times: dict[str, list[float]] = {what: [] for what in entrants}
    for k in range(-warm_up, rounds):
        for what in list(times):
            try:
                milliseconds = entrants[what]()
            except Exception as error:  # a result: the others are still wanted
                ledger.add(what, MEASUREMENT, size=size, round=k + 1, failure=sentence(error))
                del times[what]
                continue
            if k >= 0:
                times[what].append(milliseconds)
                ledger.add(what, MEASUREMENT, size=size, round=k + 1, value=milliseconds, unit="ms")
    found = []
    for what, own in times.items():
        row = {"size": size, "value": median(own), "unit": "ms", "rounds": rounds}
        beside = baselines.get(what, ()) if isinstance(baselines, Mapping) else baselines
        for name in beside or ("",):
            if name in times:
                ratio = median(a / b for a, b in zip(own, times[name], strict=True))
                row |= {"baseline": name, "ratio": ratio}
            elif name:
                row |= {"baseline": name, "ratio": None}
            found.append(ledger.add(what, MEDIAN, **row))
    return found


def wall(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Timer:
    """Return a timer of `run` by a clock in seconds."""

    def timer() -> float:
        start = clock()
        run()
        return 1e3 * (clock() - start)

    return timer


def on_device(run: Callable[[], object]) -> Timer:
    """Return a timer of `run` by two events around it on the GPU's current stream."""

    def between_events() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    return between_events


def training_pass(module: nn.Module, u: torch.Tensor, **more) -> Callable[[], object]:
    """Return a forward and backward pass of a recurrent layer from its last output, as training does."""
    parameters = list(module.parameters())

    def run() -> object:
        last = module(u, **more)[0][-1].sum()
        return torch.autograd.grad(last, parameters, allow_unused=True)

    return run


def engines_on(cell: str, device: str = "cpu") -> list[str]:
    """Return the engines that run a cell on a device here, the reference first."""
    names = kernels.engine_names(cell)
    return [name for name in names if kernels.takes(cell, name, device)]


def machine() -> str:
    """Return what a reader needs to place the times: processor, cores, threads used."""
    return f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} thread(s) used"


def versions() -> str:
    """Return the installed packages that times depend on."""
    here = {one.name: one.version for one in distributions()}
    return ", ".join(f"{name} {here[name]}" for name in _PACKAGES if name in here)


def sentence(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {error}".split("\n")[0]
