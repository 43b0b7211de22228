r"""A loop over time and its adjoint as one function that PyTorch can differentiate, once.

In the derivations of all engines :math:`\lambda_t` is the derivative of the loss by the output :math:`x_t` (:math:`y_t`, :math:`h_t`, ..)
through everything that follows, :math:`o_t` the part that arrives at the output at t, and :math:`\delta_t` the derivative by the
drive :math:`g_t`. The recurrence of the adjoints starts from the gradients of the final state.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class Recurrence(NamedTuple):
    """A cell's loops as a function ``(*inputs) -> (outputs, final)`` of tensors and settings, as an engine returns them.

    Loops of the CPU get and return NumPy arrays in place of tensors (`arrays`), those of the GPU contiguous tensors.
    """

    forward: Callable[..., tuple]
    """``forward(*inputs) -> (outputs, final, kept)``: the outputs (time, batch, hidden), the states after the last input (views will
    do), and what the way back needs beside `saved`."""
    backward: Callable[..., tuple]
    """``backward(*saved, *kept, arrived, *carried) -> gradients``, of as many of the last inputs: `arrived` is what arrives at the
    outputs, `carried` at the final states, which it may write over. A gradient that costs a product may be a function that returns it,
    called where it is wanted."""
    saved: tuple[int, ...]
    """Which of the inputs the way back needs."""
    arrays: bool = True
    """Whether the loops take NumPy arrays."""

    def __call__(self, *inputs: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
        outputs, *final = _Function.apply(self, *inputs)
        return outputs, tuple(final)

    def taken(self, value: Any) -> Any:
        """Return an input as the loops take it."""
        if not isinstance(value, Tensor):
            return value
        value = value.detach().contiguous()
        return value.numpy() if self.arrays else value

    def zeros(self, shape: tuple[int, ...], like: Tensor) -> Any:
        """Return zeros; those of NumPy, for which the system has huge pages, where PyTorch's come page by page."""
        return np.zeros(shape, like.numpy().dtype) if self.arrays else like.new_zeros(shape)


def as_tensor(value: Any) -> Any:
    """Return an array as a tensor of the same memory, all else as it is."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, recurrence: Recurrence, *inputs: Any) -> tuple[Tensor, ...]:
        found, final, kept = recurrence.forward(*map(recurrence.taken, inputs))
        outputs = as_tensor(found)
        kept = [outputs if part is found else as_tensor(part) for part in kept]
        kept = [*(inputs[k] for k in recurrence.saved), *kept]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*(part if isinstance(part, Tensor) else None for part in kept))
        ctx.settings = [None if isinstance(part, Tensor) else part for part in kept]
        ctx.recurrence, ctx.shape, ctx.like = recurrence, outputs.shape, outputs.new_empty(0)
        return outputs, *(as_tensor(part).clone() for part in final)

    @staticmethod
    @once_differentiable
    def backward(ctx, from_outputs: Tensor | None, *from_final: Tensor | None) -> tuple:
        recurrence, shape = ctx.recurrence, ctx.shape
        saved = zip(ctx.saved_tensors, ctx.settings, strict=True)
        kept = [setting if part is None else part for part, setting in saved]
        # Absent gradients stayed absent: PyTorch would fill memory with zeros for them.
        taken, zeros = recurrence.taken, partial(recurrence.zeros, like=ctx.like)
        arrived = zeros(shape) if from_outputs is None else from_outputs
        carried = [zeros(shape[1:]) if part is None else taken(part.clone()) for part in from_final]
        found = recurrence.backward(*map(taken, [*kept, arrived]), *carried)
        wanted = ctx.needs_input_grad[-len(found) :]
        gradients = (
            as_tensor(part() if callable(part) else part) if needed else None
            for part, needed in zip(found, wanted, strict=True)
        )
        return *(None for _ in ctx.needs_input_grad[len(found) :]), *gradients


def drive(u: Tensor, R: Tensor, b: Tensor | None = None) -> Tensor:
    """Return R u_t + b for all times at once, contiguous (time, batch, rows)."""
    return F.linear(u, R, b).contiguous()


def per_chain(value: Tensor | float, like: Tensor) -> Tensor:
    """Return a number, or one for each neuron, for each chain: contiguous, as `like` (batch, hidden).

    So the inner loop of a kernel is one stretch; autograd sums over the sequences.
    """
    if not isinstance(value, Tensor):
        return torch.full_like(like, value)
    return value.expand_as(like).contiguous()


def in_one(like: Tensor, *values: float) -> Tensor:
    """Return numbers as one tensor, without a copy from the host, which no graph could capture."""
    return torch.stack([like.new_full((), value) for value in values])


def summed(delta, x):
    r"""Return :math:`\sum_t \delta_t x_t^\top` over times and sequences, of arrays or tensors (time, batch, rows) and (time, batch, hidden)."""
    return delta.reshape(-1, delta.shape[-1]).T @ x.reshape(-1, x.shape[-1])


def product(delta, x0, outputs) -> Callable[[], Any]:
    r"""Return a function that gives :math:`\sum_t \delta_t x_{t-1}^\top`, (rows, hidden), where that is wanted.

    `delta` (time, batch, rows) are the adjoints of the product of the matrix and the state, `x0` (batch, hidden) is the state
    before the first input, `outputs` (time, batch, hidden) are those after every input; all arrays or all tensors.
    """

    def gradient():
        first = delta[0].T @ x0
        return first + summed(delta[1:], outputs[:-1]) if len(delta) > 1 else first

    return gradient
