"""UnICORNN's recurrence beside the plain loop that a user would write, and beside what the memory allows.

The recurrence alone, without the product with the input weights: forward plus backward of one layer that is driven by
a given sequence, with a gradient arriving at every output.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lib.bench.race import Ledger, Timer, Workload, race, wall
from lib.kernels import _cpu
from lib.kernels.cpu_unicornn import recurrence

STREAMS = {"stored": 8, "recovered": 6, "reversible": 5}
"""Sequences that each way back must read or write. All read g, the arriving gradient and g again, and write y and the
gradient of g; those that are not reversible read y again; the stored one writes and reads z."""
ALPHA, DT = 10.0, 0.1


def bench_recurrence(
    workload: Workload, ledger: Ledger, *, rounds: int, threads: int
) -> list[dict]:
    """Time each way back of the numba-cpu engine, the plain loop and the memory.

    Parameters
    ----------
    workload
        The sizes; all float32.
    ledger, rounds
        As in `race`.
    threads
        PyTorch's threads for the engine and the memory. The loop is timed with one thread and with these.

    Returns
    -------
    list of dict
        Rows of `race` for each way back beside the loops and its floor, and for those.

    Notes
    -----
    The floor copies as many bytes as the way reads and writes, between arrays that are already in memory, on all threads. The
    engine allocates its results besides.
    """
    if threads < 1:
        raise ValueError(f"expected at least one thread, got {threads}")
    T, B, d = workload.time_steps, workload.batch, workload.hidden
    generator = torch.Generator().manual_seed(0)
    w = torch.rand(d, generator=generator)
    h = torch.full((d,), DT / 2)
    g, arriving = (torch.randn(T, B, d, generator=generator) for _ in range(2))
    source, target = g.numpy().reshape(-1), np.empty(g.numel(), np.float32)

    entrants = {
        name: _on(threads, _both_ways, _engine, w, h, g, arriving, name) for name in STREAMS
    }
    loops = {f"loop, {count} thread(s)": count for count in sorted({1, threads})}
    entrants |= {
        name: _on(count, _both_ways, _loop, w, h, g, arriving) for name, count in loops.items()
    }
    entrants |= {
        f"floor of {name}": _on(threads, _copy, source, target, streams / 2)
        for name, streams in STREAMS.items()
    }
    baselines = {name: (*loops, f"floor of {name}") for name in STREAMS}
    before = torch.get_num_threads()
    try:
        size = f"{workload}, {threads} thread(s)"
        return race(entrants, ledger, size=size, rounds=rounds, baselines=baselines)
    finally:
        torch.set_num_threads(before)


def _on(threads: int, run: Callable, *arguments) -> Timer:
    timer = wall(lambda: run(*arguments))

    def on_threads() -> float:
        torch.set_num_threads(threads)
        return timer()

    return on_threads


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


def _copy(source: np.ndarray, target: np.ndarray, count: float) -> None:
    """Copy `source` to `target` `count` times, the last one perhaps in part."""
    for k in range(int(np.ceil(count))):
        size = int(len(source) * min(1.0, count - k))
        _cpu.over_chains(lambda a, b: np.copyto(target[a:b], source[a:b]), 1, size)
