"""The work of one time step of a cell: operators, products and bytes.

It is counted without a GPU and without a clock.
"""

from dataclasses import dataclass

import numpy as np
import torch
from longrnn.cells import Cell, make_cell
from longrnn.probes.adjoint import adjoint_norms
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

TRAINING = "training"
PROBES = "probes"
_STEPS = 16
"""Difference in length of two counted sequences; the probes differentiate so many steps at once."""


@dataclass(frozen=True)
class Counts:
    """The work of one time step of one mini-batch.

    Attributes
    ----------
    operators : float
        Operators that PyTorch runs.
    products : float
        Matrix products among them.
    flop : float
        Floating-point operations of these products.
    bytes : float
        Bytes that the operators read and write.
    """

    operators: float
    products: float
    flop: float
    bytes: float


class _Counting(TorchDispatchMode):
    """Sums operators, products, their operations and bytes; views are no work."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = np.zeros(4)

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = operator(*args, **kwargs)
        if operator.is_view or operator is torch.ops.aten.detach.default:
            return result
        flop = 0
        count_flop = flop_registry.get(operator.overloadpacket)
        if count_flop is not None:
            flop = count_flop(*args, **kwargs, out_val=result)
        leaves = tree_leaves((args, kwargs, result))
        size = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))
        self.counted += (1, count_flop is not None, flop, size)
        return result


def count(cell: str, width: int, features: int, part: str, batch: int) -> Counts:
    """Count one time step of a cell's reference, forward and backward.

    Two small batches are counted and extrapolated linearly. That is exact: every sequence of a
    batch adds the same amount of work.

    Parameters
    ----------
    cell : str
        Name of the cell.
    width, features : int
        Recurrent and input dimensions.
    part : str
        `TRAINING`, or `PROBES` for the adjoint norms.
    batch : int
        Sequences of the mini-batch.

    Returns
    -------
    Counts
    """
    single = _count_step(cell, width, features, part, batch=1)
    double = _count_step(cell, width, features, part, batch=2)
    counted = single + (double - single) * (batch - 1)
    return Counts(*counted.tolist())


def _count_step(name: str, width: int, features: int, part: str, batch: int) -> np.ndarray:
    """Return the work of one time step: what a longer sequence takes more than a shorter one."""
    shorter = _count_sequence(name, width, features, part, batch, _STEPS)
    longer = _count_sequence(name, width, features, part, batch, 2 * _STEPS)
    return (longer - shorter) / _STEPS


def _count_sequence(
    name: str, width: int, features: int, part: str, batch: int, time_steps: int
) -> np.ndarray:
    """Return the work of a sequence, in the order of the fields of `Counts`."""
    run = _train if part == TRAINING else _probe
    cell = make_cell(name, features, width)
    with _Counting() as counting:
        run(cell, torch.zeros(time_steps, batch, features))
    return counting.counted


def _train(cell: Cell, u: torch.Tensor) -> None:
    """Run forward and backward from the last output."""
    outputs, _ = cell.run(u, cell.initial_state(u.shape[1]), engine="reference")
    torch.autograd.grad(outputs[-1].sum(), list(cell.parameters()), allow_unused=True)


def _probe(cell: Cell, u: torch.Tensor) -> None:
    """Measure the adjoint norms at the first and the last time step."""
    adjoint_norms(cell, u, torch.sum, times=(1, len(u)), engine="reference")
