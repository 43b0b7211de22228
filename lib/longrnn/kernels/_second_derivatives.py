"""Derivatives of the adjoint of a `Recurrence`, hence second derivatives of its loop.

They come from the reference of the recurrence, in plain PyTorch, which can be differentiated any
number of times, in reverse and in forward mode.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from longrnn.kernels._adjoint import all_inputs, split_saved
from longrnn.kernels._drive import Sources


def save_for_second(recurrence: Any, ctx: Any, arguments: Sequence) -> None:
    """Keep what the derivatives of the adjoint need.

    Parameters
    ----------
    recurrence : Recurrence
        The recurrence.
    ctx
        PyTorch's context.
    arguments : sequence
        Arguments of `longrnn.kernels._adjoint.run_adjoint`.
    """
    *arguments, _, _ = arguments
    settings, sources, tensors = recurrence.parts(arguments)
    ctx.settings = settings
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*sources, *tensors)


def differentiate_adjoint(
    recurrence: Any, ctx: Any, *cotangents: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Differentiate the adjoint with respect to sources, saved inputs and arriving gradients.

    The results of the loop among the saved tensors get no gradient, because they are functions of
    the inputs.

    Parameters
    ----------
    recurrence : Recurrence
        The recurrence.
    ctx
        PyTorch's context, filled by `save_for_second`.
    *cotangents : Tensor or None
        Gradients of what `longrnn.kernels._adjoint.run_adjoint` returned.

    Returns
    -------
    tuple of (Tensor or None)
        Gradients of the arguments of `longrnn.kernels._adjoint.run_adjoint`.
    """
    tensors = list(ctx.saved_tensors)
    variables = _variables(recurrence, tensors)
    picked = [k for k, value in enumerate(cotangents) if value is not None]
    settings = len(recurrence.settings)
    if not picked:
        return (None,) * (settings + len(tensors) + 2)

    def gradient(*values: Tensor) -> tuple[Tensor, ...]:
        for k, value in zip(variables, values, strict=True):
            tensors[k] = value
        gradients = _reference_gradient(recurrence, ctx.settings, tensors)
        return tuple(gradients[k] for k in picked)

    _, pull_back = torch.func.vjp(gradient, *(tensors[k] for k in variables))
    products = pull_back(tuple(cotangents[k] for k in picked))
    gradients = _spread(products, variables, len(tensors))
    return *[None] * settings, *gradients, None, None


def reference_gradients(recurrence: Any, *arguments: Any) -> tuple[Tensor | None, ...]:
    """Compute the gradients of all inputs by the reference, for forward-mode derivatives.

    Parameters
    ----------
    recurrence : Recurrence
        The recurrence.
    *arguments
        As for `longrnn.kernels._adjoint.run_adjoint`.

    Returns
    -------
    tuple of (Tensor or None)
        The gradients, whether they are wanted or not; None for an input that has none.
    """
    *arguments, _, _ = arguments
    settings, sources, tensors = recurrence.parts(arguments)
    return tuple(_reference_gradient(recurrence, settings, [*sources, *tensors]))


def _variables(recurrence: Any, tensors: Sequence) -> list[int]:
    """Return the indices of the tensors with respect to which the adjoint is differentiated."""
    # The fields of Sources are not results, whatever their names are.
    names = [*("" for _ in Sources._fields), *recurrence.saved]
    variables = []
    for k, value in enumerate(tensors):
        is_result = k < len(names) and names[k] in recurrence.results
        if _is_differentiable(value) and not is_result:
            variables.append(k)
    return variables


def _reference_gradient(
    recurrence: Any, settings: Sequence, tensors: Sequence
) -> list[Tensor | None]:
    """Return the gradients of all inputs by the reference, which can be differentiated."""
    count = len(Sources._fields)
    saved, arriving = split_saved(recurrence, tensors[count:])
    inputs = all_inputs(recurrence, settings, Sources(*tensors[:count]), saved)
    variables = [k for k, value in enumerate(inputs) if _is_differentiable(value)]
    present = [k for k, value in enumerate(arriving) if value is not None]

    def run(*values: Tensor) -> tuple[Tensor, ...]:
        for k, value in zip(variables, values, strict=True):
            inputs[k] = value
        outputs, final = recurrence.reference(*settings, *inputs)
        results = [outputs, *final]
        return tuple(results[k] for k in present)

    _, pull_back = torch.func.vjp(run, *(inputs[k] for k in variables))
    products = pull_back(tuple(arriving[k] for k in present))
    return _spread(products, variables, len(inputs))


def _spread(values: Sequence[Tensor], indices: Sequence[int], count: int) -> list[Tensor | None]:
    """Return a list with each value at its index, and None elsewhere."""
    spread: list[Tensor | None] = [None] * count
    for index, value in zip(indices, values, strict=True):
        spread[index] = value
    return spread


def _is_differentiable(value: Tensor | None) -> bool:
    return value is not None and value.is_floating_point()
