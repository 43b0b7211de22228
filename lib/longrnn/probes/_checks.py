"""Checks of arguments that several probes share."""

from collections.abc import Callable

import torch
from torch import Tensor

from longrnn.cells import Cell, OneStep, Recurrent
from longrnn.cells._checks import check_is_tensor

Losses = Callable[[Tensor], Tensor]
"""Maps inputs of the head, such as the last output, to one loss per sequence, (batch,)."""


def bare_cell(module: object) -> Cell:
    """Return the cell that a probe measures.

    Parameters
    ----------
    module
        The first argument of a probe: a cell, a one-step cell such as `longrnn.LEMCell`, or a layer
        such as `longrnn.LEM` that has one cell.

    Returns
    -------
    Cell
        The cell itself, not a copy.

    Raises
    ------
    TypeError
        It is none of these.
    ValueError
        It is a layer with several cells, or one that expects inputs batch first.
    """
    if isinstance(module, Cell):
        return module
    if isinstance(module, OneStep):
        return module.cell
    label = type(module).__name__
    if not isinstance(module, Recurrent):
        raise TypeError(
            f"expected a cell of longrnn, or a layer that has one cell, got {label}; pass for "
            "example longrnn.LEM(2, 8) or longrnn.make_cell('lem', 2, 8)"
        )
    names = list(module.cells)
    if len(names) > 1:
        raise ValueError(
            f"expected a layer that has one cell, got {label} with {', '.join(names)}; pass one "
            f"of them, such as layer.cells[{names[0]!r}], and the inputs that it gets"
        )
    if module.batch_first:
        raise ValueError(
            f"expected a layer whose inputs are (time, batch, input), got {label} with "
            f"batch_first=True; pass layer.cells[{names[0]!r}] and input.transpose(0, 1)"
        )
    return module.cells[names[0]]


def double_inputs(cell: Cell, u: Tensor) -> Tensor:
    """Return sequences in float64, after the checks of the cell.

    Parameters
    ----------
    cell
        The cell, in float64.
    u : (time, batch, input)
        The sequences, of any type.

    Returns
    -------
    (time, batch, input)
        The sequences without a graph.

    Raises
    ------
    TypeError
        They are not a tensor.
    ValueError
        They have the wrong shape or device, no time steps, or values that are not finite.
    """
    check_is_tensor(cell.label, u)
    u = u.double()
    if u.is_inference():  # autograd does not save such tensors, but it saves copies
        u = u.clone()
    cell.check_input(u)
    return u.detach()


def checked_losses(losses: Losses, x: Tensor) -> Tensor:
    """Return the losses of a batch, after a check of their shape and their graph.

    Parameters
    ----------
    losses
        The losses as a function of `x`.
    x : (batch, inputs of the head)
        The last output of a cell, which requires gradients.

    Returns
    -------
    (batch,)

    Raises
    ------
    ValueError
        The losses have another shape, or autograd has not recorded how they were computed.
    """
    values = losses(x)
    if values.shape != x.shape[:1]:
        raise ValueError(
            f"expected one loss per sequence, ({len(x)},), got {tuple(values.shape)}; use "
            "reduction='none', and sum or average over all dimensions but the batch"
        )
    if not values.requires_grad:
        raise ValueError(
            "expected losses with a derivative with respect to the cell's output, got a tensor "
            "without a graph; compute them from the output itself, not from output.detach() or a "
            "copy in NumPy"
        )
    return values


def loss_gradients(losses: Losses, parts: list[Tensor]) -> tuple[Tensor, ...]:
    """Return the derivatives of the summed losses with respect to tensors in float64.

    Parameters
    ----------
    losses
        The losses as a function of the tensors side by side.
    parts : list of (batch, hidden)
        The tensors, which require gradients.

    Returns
    -------
    tuple of (batch, hidden)

    Raises
    ------
    TypeError
        The head or the targets are not in float64.
    ValueError
        There is not one loss per sequence, or the losses have no derivative.
    """
    try:
        with torch.enable_grad():
            total = checked_losses(losses, torch.cat(parts, dim=1)).sum()
            return torch.autograd.grad(total, parts)
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        # PyTorch has no class of its own for the error that operands have different types.
        if "double" not in message.lower() or "type" not in message:
            raise
        raise TypeError(
            f"expected losses that take outputs in float64, got the error {message!r}; give them "
            "copy.deepcopy(head).double() and targets.double()"
        ) from error
