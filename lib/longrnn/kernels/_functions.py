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
        """Run the loop.

        Parameters
        ----------
        ctx
            PyTorch's context.
        recurrence : Recurrence
            The recurrence.
        *arguments
            Arguments of `Recurrence.run`.

        Returns
        -------
        tuple of Tensor
            As from `Recurrence.run`.
        """
        results = recurrence.run(*arguments)
        ctx.recurrence = recurrence
        recurrence._save(ctx, arguments, results)
        return results

    @staticmethod
    def backward(ctx, *grad_results: Tensor | None) -> tuple:
        """Run the adjoint.

        Parameters
        ----------
        ctx
            PyTorch's context.
        *grad_results : Tensor or None
            Gradients of the results.

        Returns
        -------
        tuple of (Tensor or None)
            Gradients of the arguments of `forward`.
        """
        return None, *ctx.recurrence._differentiate(ctx, *grad_results)


class Adjoint(torch.autograd.Function):
    """The adjoint of a recurrence, in ordinary calls that are differentiated again."""

    @staticmethod
    def forward(ctx, recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the adjoint.

        Parameters
        ----------
        ctx
            PyTorch's context.
        recurrence : Recurrence
            The recurrence.
        *arguments
            Arguments of `Recurrence.run_adjoint`.

        Returns
        -------
        tuple of Tensor
            As from `Recurrence.run_adjoint`.
        """
        gradients = recurrence.run_adjoint(*arguments)
        ctx.recurrence = recurrence
        recurrence._save_for_second(ctx, arguments, gradients)
        return gradients

    @staticmethod
    def backward(ctx, *cotangents: Tensor | None) -> tuple:
        """Differentiate the adjoint, by the reference.

        Parameters
        ----------
        ctx
            PyTorch's context.
        *cotangents : Tensor or None
            Gradients of the results of `forward`.

        Returns
        -------
        tuple of (Tensor or None)
            Gradients of the arguments of `forward`.
        """
        return None, *ctx.recurrence._differentiate_adjoint(ctx, *cotangents)


class MappedLoop(torch.autograd.Function):
    """The loop of a recurrence inside `torch.func` transforms."""

    @staticmethod
    def forward(recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the loop.

        Parameters
        ----------
        recurrence : Recurrence
            The recurrence.
        *arguments
            Arguments of `Recurrence.run`.

        Returns
        -------
        tuple of Tensor
            As from `Recurrence.run`.
        """
        return recurrence._call(*arguments)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        ctx.recurrence = inputs[0]
        ctx.recurrence._save(ctx, inputs[1:], output)

    backward = staticmethod(Loop.backward)

    @staticmethod
    def vmap(info, in_dims: tuple, recurrence: Any, *arguments: Any) -> tuple:
        """Run the loop under `torch.vmap`.

        Parameters
        ----------
        info
            PyTorch's description of the map, with its `batch_size`.
        in_dims
            The mapped axis of each argument; None if it is not mapped.
        recurrence, *arguments
            As for `forward`.

        Returns
        -------
        results : tuple of Tensor
            As from `forward`, each with a mapped axis.
        out_dims : tuple
            These axes.
        """
        return recurrence._run_mapped(info, in_dims[1:], *arguments)


class MappedAdjoint(torch.autograd.Function):
    """The adjoint of a recurrence inside `torch.func` transforms."""

    @staticmethod
    def forward(recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the adjoint.

        Parameters
        ----------
        recurrence : Recurrence
            The recurrence.
        *arguments
            Arguments of `Recurrence.run_adjoint`.

        Returns
        -------
        tuple of Tensor
            As from `Recurrence.run_adjoint`.
        """
        return recurrence._call_adjoint(*arguments)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        ctx.recurrence = inputs[0]
        ctx.recurrence._save_for_second(ctx, inputs[1:], output)

    backward = staticmethod(Adjoint.backward)

    @staticmethod
    def vmap(info, in_dims: tuple, recurrence: Any, *arguments: Any) -> tuple:
        """Run the adjoint under `torch.vmap`.

        Parameters
        ----------
        info
            PyTorch's description of the map, with its `batch_size`.
        in_dims
            The mapped axis of each argument; None if it is not mapped.
        recurrence, *arguments
            As for `forward`.

        Returns
        -------
        results : tuple of Tensor
            As from `forward`, each with a mapped axis.
        out_dims : tuple
            These axes.
        """
        return recurrence._run_adjoint_mapped(info, in_dims[1:], *arguments)
