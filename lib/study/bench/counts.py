"""What one time step of a cell takes: operators, products and bytes, counted without a GPU and without a clock."""

from dataclasses import dataclass

import numpy as np
import torch
from longrnn.cells import Cell, make_cell
from longrnn.probes.adjoint import adjoint_norms
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

TRAINING, PROBES = "training", "probes"
_STEPS = 16
"""Time steps by which two counted sequences differ; the probes differentiate so many at once."""


@dataclass(frozen=True)
class Counts:
    """Of one time step of one mini-batch: operators, matrix products among them, their operations, and bytes in and out."""

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
        if not operator.is_view and operator is not torch.ops.aten.detach.default:
            parts = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
            formula = flop_registry.get(operator.overloadpacket)
            flop = formula(*args, **kwargs, out_val=result) if formula else 0
            self.counted += (1, bool(formula), flop, sum(x.nbytes for x in parts))
        return result


def count(cell: str, width: int, features: int, part: str, batch: int) -> Counts:
    """Count one time step of a cell's reference, forward and backward, in a mini-batch of `batch` sequences.

    Two small batches are counted and continued in a straight line, which is exact: work grows with the batch by the same
    amount for every sequence.
    """
    one, two = (_step(cell, width, features, part, size) for size in (1, 2))
    return Counts(*(one + (two - one) * (batch - 1)).tolist())


def _step(name: str, width: int, features: int, part: str, batch: int) -> np.ndarray:
    """Return what one time step adds: what a longer sequence counts more than a shorter one."""
    run, totals = (_train if part == TRAINING else _probe), []
    for steps in (_STEPS, 2 * _STEPS):
        cell = make_cell(name, features, width)
        with _Counting() as counting:
            run(cell, torch.zeros(steps, batch, features))
        totals.append(counting.counted)
    return (totals[1] - totals[0]) / _STEPS


def _train(cell: Cell, u: torch.Tensor) -> None:
    outputs, _ = cell.run(u, cell.initial_state(u.shape[1]), engine="reference")
    torch.autograd.grad(outputs[-1].sum(), list(cell.parameters()), allow_unused=True)


def _probe(cell: Cell, u: torch.Tensor) -> None:
    adjoint_norms(cell, u, torch.sum, times=(1, len(u)), engine="reference")
