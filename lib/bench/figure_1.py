"""Time the workload of the report's Figure 1 (Figure 2 of the ICML text), on a processor or a GPU.

Forward plus backward of UnICORNN, SRU and IndRNN with two layers, of the library's LSTM with one, and of the exponential RNN and
coRNN, which the text compares with in words. Each is run by the engine that ``auto`` takes on the device.
"""

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor, nn

from lib import kernels
from lib.bench import Workload, machine, seconds
from lib.cells import make_cell

LAYERS = {"unicornn": 2, "sru": 2, "indrnn": 2, "exponential": 1, "cornn": 1}
BASELINE = "nn.LSTM"


def time_figure_1(workload: Workload, *, rounds: int, device: str) -> pd.DataFrame:
    """Time every network of the figure, in turn in each round.

    Parameters
    ----------
    workload
        The sizes. The text gives batch 128 and 1000 or 2000 steps, and neither the width nor the features.
    rounds
        Rounds after one warm-up.
    device
        ``cpu`` or ``cuda``.

    Returns
    -------
    pandas.DataFrame
        A row for each network, with the columns `lib.results.timings.COLUMNS`.

    Raises
    ------
    ValueError
        There is no round to time.
    """
    if rounds < 1:
        raise ValueError(f"expected at least one round, got {rounds}")
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs, device=device)
    lstm = nn.LSTM(workload.inputs, workload.hidden).to(device)
    runs: dict[str, Callable[[], Tensor]] = {BASELINE: lambda: lstm(u)[0]}
    runs |= {name: _pass(name, workload, u) for name in LAYERS}
    times = pd.DataFrame(
        [{name: seconds(run, u) for name, run in runs.items()} for _ in range(rounds + 1)][1:]
    )
    where = torch.cuda.get_device_name() if device == "cuda" else machine()
    rows = [
        {
            "workload": str(workload),
            "time_steps": workload.time_steps,
            "cell": "lstm" if name == BASELINE else name,
            "engine": "library" if name == BASELINE else _engine(name, u),
            "layers": LAYERS.get(name, 1),
            "baseline": BASELINE,
            "median_ms": times[name].median() * 1e3,
            "ratio": (times[name] / times[BASELINE]).median(),
            "rounds": rounds,
            "machine": where,
        }
        for name in runs
    ]
    return pd.DataFrame(rows)


def _engine(name: str, u: Tensor) -> str:
    return kernels.choose(name, u.device.type, u.dtype)


def _pass(name: str, workload: Workload, u: Tensor) -> Callable[[], Tensor]:
    hyper_parameters = {"layers": LAYERS[name]} if LAYERS[name] > 1 else {}
    cell = make_cell(name, workload.inputs, workload.hidden, **hyper_parameters).to(u.device)
    return lambda: cell(u)[0]
