"""The workload of the UnICORNN report's Figure 1 (Figure 2 of the ICML text), on a processor or a GPU.

Forward plus backward of UnICORNN, SRU and IndRNN with two layers, of the library's LSTM with one, and of the exponential RNN and
coRNN, which the text compares with in words. Each is run by the engine that ``auto`` takes on the device. On a GPU also what
that engine takes when replayed from a graph, cuDNN with its own ten bits (TF32), and the time that the bytes alone take. The texts train SRU and IndRNN with batch normalisation between layers; ours have none.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from lib import kernels
from lib.bench.race import Ledger, Timer, Workload, race, training_pass, wall
from lib.cells import make_cell

LAYERS = {"unicornn": 2, "sru": 2, "indrnn": 2, "exponential": 1, "cornn": 1}
BASELINE = "nn.LSTM"

ARRAYS = {"unicornn": 8, "sru": 16, "indrnn": 5}
"""Arrays (time, batch, hidden) that a layer's recurrence must read or write, forward and backward.

UnICORNN: g, y, z; g, y, z, o, delta. SRU: three drives, x, c, h; three drives, x, c, o, four gradients. IndRNN: g, h; h, o, delta.
"""


def time_figure_1(workload: Workload, ledger: Ledger, *, rounds: int, device: str) -> list[dict]:
    """Time every network of the figure on ``cpu`` or ``cuda``; return rows of `race`.

    The text gives batch 128 and 1000 or 2000 steps, and neither the width nor the features. ``what`` is `BASELINE` or "cell,
    engine, n layer(s)", on a GPU also with ", graph" and ", TF32".
    """
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs, device=device)
    passes = {BASELINE: training_pass(nn.LSTM(workload.inputs, workload.hidden).to(device), u)}
    names = {name: _name(name, u) for name in LAYERS}
    passes |= {what: _pass(name, u, workload.hidden) for name, what in names.items()}
    if not on_gpu(u):
        entrants = {what: wall(run) for what, run in passes.items()}
        return race(entrants, ledger, size=workload, rounds=rounds, baselines=[BASELINE])
    entrants = {what: on_device(run) for what, run in passes.items()}
    entrants[f"{BASELINE}, TF32"] = _with_tf32(entrants[BASELINE])
    entrants |= {
        f"{what}, graph": on_device(_replayed(run))
        for what, run in passes.items()
        # The reference's loop is thousands of nodes, and the exponential of a matrix waits for the host.
        if "reference" not in what and what != names["exponential"]
    }
    found = race(entrants, ledger, size=workload, rounds=rounds, baselines=[BASELINE], warm_up=3)
    for name in ARRAYS:
        _beside_floor(
            name, [row for row in found if row["what"].startswith(names[name])], workload, ledger
        )
    return found


def on_gpu(u: torch.Tensor) -> bool:
    """Return whether the workload runs on a GPU."""
    return u.is_cuda


def _name(cell: str, u: torch.Tensor) -> str:
    engine = kernels.choose(cell, u.device.type)
    return f"{cell}, {engine}, {LAYERS[cell]} layer(s)"


def _pass(name: str, u: torch.Tensor, hidden: int) -> Callable[[], object]:
    hyper_parameters = {"layers": LAYERS[name]} if LAYERS[name] > 1 else {}
    return training_pass(make_cell(name, u.shape[2], hidden, **hyper_parameters).to(u.device), u)


def _with_tf32(timer: Timer) -> Timer:
    def run() -> float:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=True):
            return timer()

    return run


def _replayed(run: Callable[[], object]) -> Callable[[], object]:
    """Return a function that captures `run` when first called, so that a failure is that entrant's, and replays it."""
    graph = cache(lambda: capture(run)[0])
    return lambda: graph().replay()


def capture(run: Callable[[], object]) -> tuple[torch.cuda.CUDAGraph, object]:
    """Capture what `run` launches, after three passes beside the graph; return the graph and the result of `run`."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph, result


def _beside_floor(name: str, found: list[dict], workload: Workload, ledger: Ledger) -> None:
    """Add what the memory allows, and how near to it these came."""
    T, B, d = workload.time_steps, workload.batch, workload.hidden
    floor = 1e3 * ARRAYS[name] * LAYERS[name] * T * B * d * torch.float32.itemsize / bandwidth()
    ledger.add(name, "floor: bytes over bandwidth", size=workload, value=floor, unit="ms")
    for row in found:
        over = row["value"] / floor
        ledger.add(row["what"], "this / floor", size=workload, value=over, unit="ratio")


@cache
def bandwidth(*, rounds: int = 20) -> float:
    """Return bytes a second, read and written, of the best of `rounds` copies of a gibibyte on the GPU."""
    source = torch.empty(2**28, device="cuda")
    target = torch.empty_like(source)
    copy = on_device(lambda: target.copy_(source))
    return 2 * source.nbytes / (min(copy() for _ in range(rounds + 1)) / 1e3)


def on_device(run: Callable[[], object]) -> Timer:
    """Return a timer of `run` by two events around it on the current stream."""

    def between_events() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    return between_events
