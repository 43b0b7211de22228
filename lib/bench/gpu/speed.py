"""Figure 1 of the UnICORNN report on the GPU at hand: forward plus backward, beside cuDNN's LSTM and the floors.

T. K. Rusch, S. Mishra, *UnICORNN*, report, figure 1 (figure 2 of the ICML text): batch 128, sequences of 1000 and 2000 steps, two layers of
UnICORNN, SRU and IndRNN, one of the LSTM. The texts give no number of units: 128 is that of their smallest psMNIST network. Their
batch normalisation between the layers of SRU and IndRNN is left out.
"""

from collections.abc import Callable

import pandas as pd
import torch

from lib.bench.gpu import floors
from lib.bench.gpu.checks import DEVICE, capture
from lib.cells import make_cell

BATCH, HIDDEN, INPUTS = 128, 128, 1

CANDIDATES = {
    "unicornn": ("numba-cuda", {"layers": 2}),
    "sru": ("numba-cuda", {"layers": 2}),
    "indrnn": ("numba-cuda", {"layers": 2}),
    "lem": ("numba-cuda", {}),
    "rnn": ("numba-cuda", {}),
    "lstm": ("library", {}),
}
"""Engine and settings of each cell; the LSTM is what all are set beside."""

FASTER, FLOOR = 10, 3
"""Least ratio to cuDNN's LSTM, and largest to the larger floor, that UnICORNN, SRU and IndRNN are to reach."""


def figure_1(time_steps: int, *, rounds: int = 30) -> pd.DataFrame:
    """Return the median times of one length, plain and replayed from a graph, their ratios, and the floors.

    Parameters
    ----------
    time_steps
        Length N of the sequences.
    rounds
        Passes timed after three that are not; all candidates take turns.

    Returns
    -------
    pandas.DataFrame
        Columns as in `lib.bench.gpu.__main__.table`.
    """
    u = torch.randn(time_steps, BATCH, INPUTS, device=DEVICE)
    plain = {name: _pass(name, u) for name in CANDIDATES}
    graphs = {name: capture(run)[0] for name, run in plain.items()}
    ways = {"plain": plain, "graph": {name: graph.replay for name, graph in graphs.items()}}
    speed, rows = floors.bandwidth(), []
    for way, runs in ways.items():
        times = pd.DataFrame(
            [
                {name: floors.milliseconds(run) for name, run in runs.items()}
                for _ in range(rounds + 3)
            ][3:]
        )
        for name in runs:
            case = f"{name}, B{BATCH} T{time_steps} d{HIDDEN}, {way}"
            rows.append(_row(case, "forward and backward, median", times[name].median(), "ms"))
            if name == "lstm":
                continue
            ratio = (times["lstm"] / times[name]).median()
            aimed = name in floors.ARRAYS
            rows.append(
                _row(
                    case, "cuDNN's LSTM / this", ratio, "ratio", at_least=FASTER if aimed else None
                )
            )
            if aimed:
                rows += _beside_floors(case, name, times[name].median(), time_steps, speed)
    return pd.DataFrame(rows)


def _beside_floors(case: str, name: str, time: float, steps: int, speed: float) -> list[dict]:
    layers = CANDIDATES[name][1]["layers"]
    moved = floors.ARRAYS[name] * layers * steps * BATCH * HIDDEN * 4
    bytes_floor = moved / speed * 1e3
    latency_floor = steps * layers * floors.step_latency(name) * 1e3
    ratio = time / max(bytes_floor, latency_floor)
    return [
        _row(case, "floor: bytes over bandwidth", bytes_floor, "ms"),
        _row(case, "floor: dependent steps", latency_floor, "ms"),
        _row(case, "this / larger floor", ratio, "ratio", at_most=FLOOR),
    ]


def _pass(name: str, u: torch.Tensor) -> Callable[[], object]:
    """Return a forward and backward pass from the last output, as training does."""
    engine, settings = CANDIDATES[name]
    torch.manual_seed(0)
    cell = make_cell(name, INPUTS, HIDDEN, **settings).to(DEVICE)
    parameters = list(cell.parameters())

    def run():
        outputs, _ = cell(u, engine=engine)
        return torch.autograd.grad(outputs[-1].sum(), parameters, allow_unused=True)

    return run


def _row(
    case: str,
    quantity: str,
    value: float,
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> dict:
    limit, passed = "", ""
    if at_least is not None:
        limit, passed = f">= {at_least}", value >= at_least
    if at_most is not None:
        limit, passed = f"<= {at_most}", value <= at_most
    return {
        "check": "speed",
        "case": case,
        "quantity": quantity,
        "value": value,
        "unit": unit,
        "limit": limit,
        "passed": passed,
    }
