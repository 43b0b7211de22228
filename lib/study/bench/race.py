"""Timing: several entrants run in turn, round after round, and their times are written to a file.

Times on a shared machine drift, so nothing is timed alone. A ratio compares two times of one round,
and medians over rounds are reported. A time means little without its baseline, size, machine and
versions, so every row has them. Rows are appended to the file one by one: a run that is cut short
keeps what it has measured. An entrant that fails is a row as well, and the others continue.
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

COLUMNS = (
    "what",
    "size",
    "quantity",
    "round",
    "value",
    "unit",
    "baseline",
    "ratio",
    "rounds",
    "passed",
    "failure",
    "machine",
    "versions",
)
"""Columns of every benchmark.

A measurement has its ``round``; a median has the number of ``rounds`` and its ``baseline``.
``ratio`` is the median over rounds of the time divided by the baseline's, below 1 if it is faster.
``passed`` is whether a check succeeded.
"""

MEASUREMENT = "time"
"""Quantity of the rows of `race` that are single measurements."""
MEDIAN = "median time"
"""Quantity of the rows of `race` that are medians over rounds."""

_PASSES_BEFORE_GRAPH = 3
"""Passes before a graph is recorded, as PyTorch advises."""

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
    """Rows of measurements, each appended to a CSV file at once.

    Parameters
    ----------
    path : Path, optional
        The file; without one the rows are kept in memory alone.
    overwrite : bool
        Whether the file begins anew; otherwise rows are added to those it has.
    where : str
        The machine in words, by default its processor.

    Attributes
    ----------
    rows : list of dict
        Values by column of the rows that this object added.
    """

    def __init__(
        self, path: Path | None = None, *, overwrite: bool = True, where: str = ""
    ) -> None:
        self.rows: list[dict] = []
        self._path = path
        self._about = {"machine": where or machine(), "versions": versions()}
        if path is not None and (overwrite or not path.exists()):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write_row(COLUMNS, "w")

    def add(self, what: str, quantity: str, **values: object) -> dict:
        """Append a row.

        Parameters
        ----------
        what : str
            What is measured, such as an engine.
        quantity : str
            Which quantity of it.
        **values
            Values of the other columns.

        Returns
        -------
        dict
            The row.

        Raises
        ------
        ValueError
            There is no such column.
        """
        unknown = values.keys() - set(COLUMNS)
        if unknown:
            raise ValueError(f"unknown column {min(unknown)!r}; known: {', '.join(COLUMNS)}")
        given = {"what": what, "quantity": quantity, **self._about, **values}
        given["size"] = str(values.get("size", ""))
        row = {column: given.get(column) for column in COLUMNS}
        self.rows.append(row)
        if self._path is not None:
            self._write_row(row.values(), "a")
        return row

    def _write_row(self, values: Collection, mode: str) -> None:
        texts = [f"{value:.6g}" if isinstance(value, float) else value for value in values]
        with self._path.open(mode, encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(texts)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a ledger's file as texts by column."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


Baselines = Collection[str] | Mapping[str, Collection[str]]
"""Names of entrants that all others are compared with, or such names for each entrant."""


def race(
    entrants: Mapping[str, Timer],
    ledger: Ledger,
    *,
    size: object,
    rounds: int,
    baselines: Baselines = (),
    warm_up: int = 1,
) -> list[dict]:
    """Run all entrants in turn, round after round.

    Parameters
    ----------
    entrants : mapping of str to Timer
        An entrant that fails takes no further part.
    ledger : Ledger
        Gets every measurement, every failure, and the medians.
    size : object
        What the rows call the size of the problem.
    rounds : int
        Rounds that count, at least 1.
    baselines : collection of str, or mapping from str to collection of str
        Names of entrants that all others are compared with, or such names for each entrant.
    warm_up : int
        Rounds before these, in which kernels compile.

    Returns
    -------
    list of dict
        A row of medians, in ms, for each entrant and each of its baselines.

    Raises
    ------
    ValueError
        There is no round.
    """
    if rounds < 1:
        raise ValueError(f"expected at least one round, got {rounds}")
    times = _run_rounds(entrants, ledger, size, rounds, warm_up)
    medians = []
    for what, milliseconds in times.items():
        of_entrant = baselines.get(what, ()) if isinstance(baselines, Mapping) else baselines
        row = {"size": size, "value": median(milliseconds), "unit": "ms", "rounds": rounds}
        if not of_entrant:
            medians.append(ledger.add(what, MEDIAN, **row))
        for name in of_entrant:
            ratio = _median_ratio(milliseconds, times.get(name))
            medians.append(ledger.add(what, MEDIAN, **row, baseline=name, ratio=ratio))
    return medians


def _run_rounds(
    entrants: Mapping[str, Timer], ledger: Ledger, size: object, rounds: int, warm_up: int
) -> dict[str, list[float]]:
    """Return the times of each entrant that did not fail, in ms; those of the warm-up are left out.

    Rounds are numbered from 1 in the ledger; those of the warm-up are 0 and below.
    """
    times: dict[str, list[float]] = {what: [] for what in entrants}
    for number in range(1 - warm_up, rounds + 1):
        for what in list(times):
            row = {"size": size, "round": number}
            try:
                milliseconds = entrants[what]()
            except Exception as error:  # a result: the others are still wanted
                ledger.add(what, MEASUREMENT, **row, failure=sentence(error))
                del times[what]
                continue
            if number >= 1:
                times[what].append(milliseconds)
                ledger.add(what, MEASUREMENT, **row, value=milliseconds, unit="ms")
    return times


def _median_ratio(times: list[float], baseline: list[float] | None) -> float | None:
    """Return the median over rounds of two times' ratio; None if the baseline failed."""
    if baseline is None:
        return None
    return median(time / other for time, other in zip(times, baseline, strict=True))


def wall(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Timer:
    """Return a timer of a call.

    Parameters
    ----------
    run : callable
        What is timed.
    clock : callable
        Returns the time in seconds.

    Returns
    -------
    Timer
    """

    def timer() -> float:
        start = clock()
        run()
        return 1e3 * (clock() - start)

    return timer


def on_device(run: Callable[[], object]) -> Timer:
    """Return a timer of a call, by two events around it on the GPU's current stream.

    Parameters
    ----------
    run : callable
        What is timed.

    Returns
    -------
    Timer
    """

    def between_events() -> float:
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    return between_events


def on_host(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Timer:
    """Return a timer of what the host does in a call, on a GPU that is idle when it begins.

    The time ends when the call returns, which is when all work is submitted, not when it is done.

    Parameters
    ----------
    run : callable
        What is timed.
    clock : callable
        Returns the time in seconds.

    Returns
    -------
    Timer
    """

    def until_submitted() -> float:
        torch.cuda.synchronize()
        start = clock()
        run()
        submitted = 1e3 * (clock() - start)
        torch.cuda.synchronize()
        return submitted

    return until_submitted


def as_graph(run: Callable[[], object]) -> Callable[[], object]:
    """Return a call that replays what another one submits to the GPU, as one CUDA graph.

    The graph is recorded at the first call, after passes on another stream in which kernels are
    compiled and libraries choose their algorithms.

    Parameters
    ----------
    run : callable
        Work on the GPU that looks at no values.

    Returns
    -------
    callable
        Returns what `run` returned when it was recorded; replaying fills it anew.
    """
    graphs: list[torch.cuda.CUDAGraph] = []
    results: list[object] = []

    def replay() -> object:
        if not graphs:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_PASSES_BEFORE_GRAPH):
                    run()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results.append(run())
            graphs.append(graph)
        graphs[0].replay()
        return results[0]

    return replay


def training_pass(module: nn.Module, u: torch.Tensor, **options) -> Callable[[], object]:
    """Return a forward and backward pass of a recurrent layer from its last output.

    Parameters
    ----------
    module : nn.Module
        A layer that returns outputs and a state.
    u : Tensor
        Input, shape (time, batch, input).
    **options
        Further arguments of the layer.

    Returns
    -------
    callable
        Returns the gradients of all parameters.
    """
    parameters = list(module.parameters())

    def run() -> object:
        outputs, _ = module(u, **options)
        return torch.autograd.grad(outputs[-1].sum(), parameters, allow_unused=True)

    return run


def engines_on(cell: str, device: str = "cpu") -> list[str]:
    """Return the engines that run a cell on a type of device here, the reference first."""
    names = kernels.engine_names(cell)
    return [name for name in names if kernels.can_run(cell, name, device)]


def machine() -> str:
    """Return processor, cores and threads of this process in words."""
    return f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} thread(s) used"


def versions() -> str:
    """Return the versions of the installed packages that times depend on, in words."""
    installed = {package.name: package.version for package in distributions()}
    return ", ".join(f"{name} {installed[name]}" for name in _PACKAGES if name in installed)


def sentence(error: BaseException) -> str:
    """Return kind and message of an error in one line."""
    return f"{type(error).__name__}: {error}".split("\n")[0]
