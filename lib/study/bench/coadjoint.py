"""The cost of the coadjoint method compared with backpropagation: time and memory per step."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch
from longrnn.cells import Cell, make_cell
from longrnn.probes.coadjoint import coadjoint_loss
from torch import Tensor, nn
from torch.nn import functional as F

from study.bench.timers import Workload

Losses = Callable[[Tensor], Tensor]
"""The loss of each sequence, (batch,), as a function of the last state, (batch, hidden)."""
Method = Callable[[Cell, nn.RNN, Tensor, Losses], Tensor]
"""Returns the loss of a mini-batch for a cell, an `nn.RNN` of the same size, inputs and losses."""

_CLASSES = 10
_PROCESS = Path("/proc/self")
_WARM_UP = 3
"""Time steps of a first run, which compiles kernels and allocates constant memory."""


def _backpropagation(cell: Cell, layer: nn.RNN, u: Tensor, losses: Losses) -> Tensor:
    _, (state, *_) = cell(u)
    return losses(state).mean()


def _pytorch_backpropagation(cell: Cell, layer: nn.RNN, u: Tensor, losses: Losses) -> Tensor:
    _, states = layer(u)
    return losses(states[0]).mean()


def _algorithm_2(cell: Cell, layer: nn.RNN, u: Tensor, losses: Losses) -> Tensor:
    return coadjoint_loss(cell, u, losses, kappa=1.0).total


def _double_backward(cell: Cell, layer: nn.RNN, u: Tensor, losses: Losses) -> Tensor:
    return coadjoint_loss(cell, u, losses, kappa=1.0, engine="reference").total


METHODS: dict[str, Method] = {
    "backpropagation": _backpropagation,
    "backpropagation, nn.RNN": _pytorch_backpropagation,
    "Algorithm 2": _algorithm_2,
    "double backward": _double_backward,
}
"""Ways to compute the loss whose gradient is timed.

The last two include the coadjoint penalty (dissertation, equation 2.20).
"""


def training_step(method: str, workload: Workload) -> Callable[[], dict[str, Tensor]]:
    """Return a function that computes the gradients of one mini-batch.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    workload : Workload
        Its sizes. Inputs, labels and weights are random, and the same for every method.

    Returns
    -------
    callable
        Returns the gradients by name of the parameter, float32. Each call adds to them.
    """
    torch.manual_seed(0)
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs)
    labels = torch.randint(0, _CLASSES, (workload.batch,))
    cell = make_cell("rnn", workload.inputs, workload.hidden)
    layer = nn.RNN(workload.inputs, workload.hidden)
    output = nn.Linear(workload.hidden, _CLASSES)
    modules = nn.ModuleList([cell, layer, output])

    def losses(state: Tensor) -> Tensor:
        return F.cross_entropy(output(state), labels, reduction="none")

    def step() -> dict[str, Tensor]:
        METHODS[method](cell, layer, u, losses).backward()
        gradients = {}
        for name, parameter in modules.named_parameters():
            if parameter.grad is not None:
                gradients[name] = parameter.grad
        return gradients

    return step


def peak_arrays(method: str, workload: Workload) -> float:
    """Return the peak memory of one training step, in arrays of shape (time, batch, hidden).

    Inputs and weights exist before the step and don't count. The step runs in a new process,
    because Linux reports the peak memory of a process.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    workload : Workload
        Its sizes.

    Returns
    -------
    float
        Bytes that the step allocates, divided by the bytes of one float32 array.

    Raises
    ------
    OSError
        The system is not Linux.
    """
    if not _PROCESS.joinpath("clear_refs").exists():
        raise OSError("the memory of a training step can only be measured on Linux")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        added = fresh.submit(_added_bytes, method, workload).result()
    array = workload.time_steps * workload.batch * workload.hidden * torch.float32.itemsize
    return added / array


def _added_bytes(method: str, workload: Workload) -> int:
    """Return the bytes that one training step adds to this process."""
    torch.set_num_threads(1)
    training_step(method, replace(workload, time_steps=_WARM_UP))()
    step = training_step(method, workload)
    before = _memory("VmRSS")
    _PROCESS.joinpath("clear_refs").write_text("5", "ascii")  # resets the peak
    step()
    return _memory("VmHWM") - before


def _memory(key: str) -> int:
    """Return a memory size of this process in bytes, by its name in ``/proc/self/status``."""
    for line in _PROCESS.joinpath("status").read_text("ascii").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")
