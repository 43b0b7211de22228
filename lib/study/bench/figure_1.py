"""The workload of Figure 1 of UnICORNN: a forward and backward pass of each network.

Notebook 82 and ``python -m study.bench.gpu`` time it.
"""

import torch
from longrnn import kernels
from longrnn.cells import make_cell
from torch import Tensor, nn
from torch.nn.utils import parametrize

from study.bench.race import Baselines
from study.bench.timers import (
    Timer,
    Workload,
    as_graph,
    device_timer,
    host_timer,
    training_pass,
    wall_timer,
)

LAYERS = {"lstm": 1, "unicornn": 2, "sru": 2, "indrnn": 2, "exponential": 1, "cornn": 1}
"""Number of layers of each timed network, by its cell."""
BASELINE = "lstm, library"
HOST = ", host"
"""Ends the name of a pass whose host time is measured."""
GRAPH = ", graph"
"""Ends the name of a pass that is replayed as a CUDA graph."""


def figure_1_timers(workload: Workload, device: str) -> tuple[dict[str, Timer], Baselines]:
    """Return timers of all networks, for `study.bench.race.race`.

    Parameters
    ----------
    workload : Workload
        Sizes of the pass.
    device : str
        ``cpu`` or ``cuda``.

    Returns
    -------
    timers : dict of str to Timer
        By cell and engine, such as ``unicornn, numba-cuda``. On a GPU each network has further
        timers, whose names end in `HOST` and `GRAPH`.
    baselines : dict of str to list of str
        A graph is compared with the LSTM's graph, other times with the LSTM's plain pass.
    """
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs, device=device)
    timers: dict[str, Timer] = {}
    for cell in LAYERS:
        engine = "library"
        if cell != "lstm":
            engine = kernels.choose(cell, device)
        timers |= _timers_of(f"{cell}, {engine}", _network(cell, workload).to(device), u)
    baselines = {}
    for name in timers:
        baselines[name] = [BASELINE]
        if name.endswith(GRAPH):
            baselines[name] = [BASELINE + GRAPH]
    return timers, baselines


def _network(cell: str, workload: Workload) -> nn.Module:
    """Return one of the timed networks."""
    sizes = workload.inputs, workload.hidden
    if cell == "lstm":
        return nn.LSTM(*sizes)
    if LAYERS[cell] == 1:
        return make_cell(cell, *sizes)
    return make_cell(cell, *sizes, layers=LAYERS[cell])


def _timers_of(name: str, module: nn.Module, u: Tensor) -> dict[str, Timer]:
    """Return the timers of a network by name."""
    one_pass = training_pass(module, u)
    if u.device.type != "cuda":
        return {name: wall_timer(one_pass)}
    timers = {name: device_timer(one_pass), name + HOST: host_timer(one_pass)}
    # PyTorch looks at values when it computes a matrix exponential, which no graph can contain.
    if not any(map(parametrize.is_parametrized, module.modules())):
        timers[name + GRAPH] = device_timer(as_graph(one_pass))
    return timers
