"""Autograd functions that run the loop and the adjoint of a `Recurrence`.

Ordinary calls bypass PyTorch's dispatcher, which takes some tenths of a millisecond for an operator
with many arguments. PyTorch does not let `torch.func.grad` differentiate a registered operator, so
inside its transforms a function calls the operator.

The arguments are those of `Recurrence.run` and of `longrnn.kernels._adjoint.run_adjoint`.
"""

from typing import Any

import torch
from torch import Tensor

from longrnn.kernels._adjoint import run_adjoint
from longrnn.kernels._mapping import run_adjoint_mapped, run_mapped
from longrnn.kernels._second_derivatives import differentiate_adjoint, save_for_second


class Loop(torch.autograd.Function):
    """The loop of a recurrence, in ordinary calls."""

    @staticmethod
    def forward(ctx, recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the loop."""
        results = recurrence.run(*arguments)
        ctx.recurrence = recurrence
        recurrence.save(ctx, arguments, results)
        return results

    @staticmethod
    def backward(ctx, *grad_results: Tensor | None) -> tuple:
        """Run the adjoint; return the gradients of the arguments of `forward`."""
        return None, *ctx.recurrence.differentiate(ctx, *grad_results)


class Adjoint(torch.autograd.Function):
    """The adjoint of a recurrence, in ordinary calls that are differentiated again."""

    @staticmethod
    def forward(ctx, recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the adjoint."""
        gradients = run_adjoint(recurrence, *arguments)
        ctx.recurrence = recurrence
        save_for_second(recurrence, ctx, arguments)
        return gradients

    @staticmethod
    def backward(ctx, *cotangents: Tensor | None) -> tuple:
        """Differentiate the adjoint; return the gradients of the arguments of `forward`."""
        return None, *differentiate_adjoint(ctx.recurrence, ctx, *cotangents)


class MappedLoop(torch.autograd.Function):
    """The loop of a recurrence inside `torch.func` transforms."""

    @staticmethod
    def forward(recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the loop."""
        return recurrence.call(*arguments)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        """Keep what the adjoint needs."""
        ctx.recurrence = inputs[0]
        ctx.recurrence.save(ctx, inputs[1:], output)

    backward = staticmethod(Loop.backward)

    @staticmethod
    def vmap(info, in_dims: tuple, recurrence: Any, *arguments: Any) -> tuple:
        """Run the loop under `torch.vmap`; return the results and their mapped axes."""
        return run_mapped(recurrence, info, in_dims[1:], *arguments)


class MappedAdjoint(torch.autograd.Function):
    """The adjoint of a recurrence inside `torch.func` transforms."""

    @staticmethod
    def forward(recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the adjoint."""
        return recurrence.call_adjoint(*arguments)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        """Keep what second derivatives need."""
        ctx.recurrence = inputs[0]
        save_for_second(ctx.recurrence, ctx, inputs[1:])

    backward = staticmethod(Adjoint.backward)

    @staticmethod
    def vmap(info, in_dims: tuple, recurrence: Any, *arguments: Any) -> tuple:
        """Run the adjoint under `torch.vmap`; return the gradients and their mapped axes."""
        return run_adjoint_mapped(recurrence, info, in_dims[1:], *arguments)
