"""Time UnICORNN's recurrence beside the plain loop that a user would write, and beside what the memory allows.

The recurrence alone, without the product with the input weights: forward plus backward of one layer that is driven by
a given sequence, with a gradient arriving at every output. As in `lib.bench` every round runs all candidates in turn.
"""

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lib.bench import Workload
from lib.kernels import _cpu
from lib.kernels.cpu_unicornn import recurrence

STREAMS = {"stored": 8, "recovered": 6, "reversible": 5}
"""Sequences that each way must read or write. All read g, the arriving gradient and g again, and write y and the
gradient of g; those that are not reversible read y again; the stored one writes and reads z."""
ALPHA, DT = 10.0, 0.1


def bench_recurrence(workload: Workload, *, rounds: int, threads: int) -> pd.DataFrame:
    """Time each way back of the numba-cpu engine, the plain loop and the memory.

    Parameters
    ----------
    workload
        The sizes; all float32.
    rounds
        Rounds after one warm-up.
    threads
        PyTorch's threads for the engine and the memory. The loop is timed with one thread and with these, and the better
        counts.

    Returns
    -------
    pandas.DataFrame
        One row for each way back: median milliseconds of the engine, of the loop and of the floor, and the medians over
        rounds of loop / engine (``speedup``) and engine / floor (``over_floor``).

    Notes
    -----
    The floor copies as many bytes as the way reads and writes, between arrays that are already in memory, on all threads. The
    engine allocates its results besides.
    """
    if rounds < 1 or threads < 1:
        raise ValueError(f"expected at least one round and thread, got {rounds} and {threads}")
    T, B, d = workload.time_steps, workload.batch, workload.hidden
    generator = torch.Generator().manual_seed(0)
    w = torch.rand(d, generator=generator)
    h = torch.full((d,), DT / 2)
    g, arriving = (torch.randn(T, B, d, generator=generator) for _ in range(2))
    source, target = g.numpy().reshape(-1), np.empty(g.numel(), np.float32)

    def engine(backward: str) -> Callable[[], object]:
        return lambda: _both_ways(_engine, w, h, g, arriving, backward)

    candidates = {name: (threads, engine(name)) for name in STREAMS}
    for count in {1, threads}:
        candidates[f"loop {count}"] = count, lambda: _both_ways(_loop, w, h, g, arriving)
    for name, streams in STREAMS.items():
        run = _copies(source, target, streams / 2)
        candidates[f"floor {name}"] = threads, run
    before = torch.get_num_threads()
    try:
        times = pd.DataFrame([_round(candidates) for _ in range(rounds + 1)][1:])
    finally:
        torch.set_num_threads(before)
    loop = times[[name for name in times if name.startswith("loop")]].min(axis=1)
    rows = [
        {
            "workload": str(workload),
            "backward": name,
            "median_ms": times[name].median() * 1e3,
            "loop_median_ms": loop.median() * 1e3,
            "floor_median_ms": times[f"floor {name}"].median() * 1e3,
            "speedup": (loop / times[name]).median(),
            "over_floor": (times[name] / times[f"floor {name}"]).median(),
            "threads": threads,
            "rounds": rounds,
        }
        for name in STREAMS
    ]
    return pd.DataFrame(rows)


def _round(candidates: dict[str, tuple[int, Callable[[], object]]]) -> dict[str, float]:
    seconds = {}
    for name, (threads, run) in candidates.items():
        torch.set_num_threads(threads)
        start = time.perf_counter()
        run()
        seconds[name] = time.perf_counter() - start
    return seconds


def _both_ways(run: Callable, w: Tensor, h: Tensor, g: Tensor, arriving: Tensor, *more) -> None:
    leaves = [part.detach().requires_grad_() for part in (w, h, g)]
    y = run(*leaves, *more)
    torch.autograd.grad(y, leaves, arriving)


def _engine(w: Tensor, h: Tensor, g: Tensor, backward: str) -> Tensor:
    rest = torch.zeros_like(g[0])
    w, h = (part.expand_as(rest).contiguous() for part in (w, h))
    return recurrence(w, h, ALPHA, g, rest, rest, backward=backward)[0]


def _loop(w: Tensor, h: Tensor, g: Tensor) -> Tensor:
    y = z = torch.zeros_like(g[0])
    outputs = []
    for g_n in g.unbind(0):
        z = z - h * (torch.tanh(w * y + g_n) + ALPHA * y)
        y = y + h * z
        outputs.append(y)
    return torch.stack(outputs)


def _copies(source: np.ndarray, target: np.ndarray, count: float) -> Callable[[], None]:
    """Return a function that copies `source` to `target` `count` times, the last one perhaps in part."""

    def run() -> None:
        for k in range(int(np.ceil(count))):
            size = int(len(source) * min(1.0, count - k))
            _cpu.over_chains(lambda a, b: np.copyto(target[a:b], source[a:b]), 1, size)

    return run
