"""Autograd functions that run the loop and the adjoint of a `Recurrence`.

Ordinary calls bypass PyTorch's dispatcher, which takes some tenths of a millisecond for an operator
with many arguments. PyTorch does not let `torch.func.grad` differentiate a registered operator, so
inside its transforms a function calls the operator.
"""

from typing import Any

import torch
from torch import Tensor


class Loop(torch.autograd.Function):
    """The loop of a recurrence, in ordinary calls."""

    @staticmethod
    def forward(ctx, recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        results = recurrence.run(*arguments)
        ctx.recurrence = recurrence
        recurrence._save(ctx, arguments, results)
        return results

    @staticmethod
    def backward(ctx, *from_results: Tensor | None) -> tuple:
        return None, *ctx.recurrence._differentiate(ctx, *from_results)


class Adjoint(torch.autograd.Function):
    """The adjoint of a recurrence in ordinary calls that are differentiated again."""

    @staticmethod
    def forward(ctx, recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        gradients = recurrence.run_adjoint(*arguments)
        ctx.recurrence = recurrence
        recurrence._save_for_second(ctx, arguments, gradients)
        return gradients

    @staticmethod
    def backward(ctx, *cotangents: Tensor | None) -> tuple:
        return None, *ctx.recurrence._differentiate_adjoint(ctx, *cotangents)


class MappedLoop(torch.autograd.Function):
    """The loop of a recurrence inside `torch.func` transforms."""

    @staticmethod
    def forward(recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        return recurrence._call(*arguments)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        ctx.recurrence = inputs[0]
        ctx.recurrence._save(ctx, inputs[1:], output)

    backward = staticmethod(Loop.backward)

    @staticmethod
    def vmap(info, in_dims: tuple, recurrence: Any, *arguments: Any) -> tuple:
        return recurrence._run_mapped(info, in_dims[1:], *arguments)


class MappedAdjoint(torch.autograd.Function):
    """The adjoint of a recurrence inside `torch.func` transforms."""

    @staticmethod
    def forward(recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        return recurrence._call_adjoint(*arguments)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        ctx.recurrence = inputs[0]
        ctx.recurrence._save_for_second(ctx, inputs[1:], output)

    backward = staticmethod(Adjoint.backward)

    @staticmethod
    def vmap(info, in_dims: tuple, recurrence: Any, *arguments: Any) -> tuple:
        return recurrence._run_adjoint_mapped(info, in_dims[1:], *arguments)
