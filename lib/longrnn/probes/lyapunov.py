r"""Lyapunov exponents of a recurrent network along given input sequences.

With the Jacobians :math:`J_t = \partial x_t / \partial x_{t-1}` of one sequence, the largest
exponent over the steps :math:`s + 1 .. T` is

.. math:: \chi_1 = \frac{1}{T - s} \log \| J_T J_{T-1} \cdots J_{s+1} v \|_2, \qquad \|v\|_2 = 1

for almost every v if T - s is large, in nats per step. If it is negative, nearby states approach
each other, and an adjoint state shrinks by :math:`e^{\chi_1}` per step of backpropagation. If it is
positive, distances and adjoints grow.

The vector is renormalized after every step, and the logarithms of its norms are added, so the
product can neither underflow nor overflow. The result is a finite-time exponent that depends on the
inputs.

The paper of the incremental RNN (Kag et al. 2020) plots the influence of an early state on the last
one in Figures 3b, 8 and 9, by :math:`\|\partial h_T / \partial h_1\|` and
:math:`\|\partial h_T / \partial h_{T-1}\|`. The norms here are spectral; the paper does not say
which it uses.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral

import torch
from torch import Tensor

from longrnn.cells import Cell, OneStep, Recurrent, State
from longrnn.probes._checks import bare_cell, double_inputs
from longrnn.probes.slopes import Slopes


@torch.inference_mode(False)  # which also enables gradients: evaluation usually disables them
def step_jacobians(
    cell: Cell | OneStep | Recurrent,
    u: Tensor,
    *,
    parts: Sequence[int] | None = None,
    start: int = 0,
) -> Iterator[Tensor]:
    """Return an iterator over the Jacobians of all steps of a cell along sequences, in float64.

    Parameters
    ----------
    cell
        A cell whose step is differentiable with respect to its state, as a cell, a one-step cell
        such as `longrnn.LEMCell`, or a layer such as `longrnn.LEM` that has one layer and one
        direction; it is copied, not changed.
    u : (time, batch, input)
        The sequences, of any type. The first state is that of `Cell.initial_state`: zero, unless it
        is trained.
    parts
        Indices of the state tensors to include, from 0; by default all except step counters
        (`Cell.counters`), such as that of the LU RNN. The derivative of a count with respect to the
        one before is 1, so it would hide how fast the network forgets.
    start
        Number of steps to run before the first Jacobian.

    Returns
    -------
    iterator of (batch, n, n)
        Derivative of the state after step t with respect to the state before it, for
        t = start + 1 .. T. n is the number of parts times the recurrent dimension.

    Raises
    ------
    TypeError
        `cell` is neither a cell nor a layer, `u` is not a tensor, or `start` is not an integer.
    ValueError
        The layer has several cells or takes inputs batch first, the sequences don't fit the cell,
        `parts` are not indices of state tensors, or no step is left after `start`.

    Examples
    --------
    >>> from longrnn import LEM
    >>> jacobians = list(step_jacobians(LEM(2, 8), torch.randn(5, 3, 2)))
    >>> len(jacobians), jacobians[0].shape
    (5, torch.Size([3, 16, 16]))
    """
    # Without dropout, whose masks would differ between calls and advance PyTorch's generator.
    cell = copy.deepcopy(bare_cell(cell)).double().requires_grad_(False).eval()
    u = double_inputs(cell, u)
    if not isinstance(start, Integral):
        raise TypeError(f"expected start to be an integer, got {start!r}")
    if not 0 <= start < len(u):
        raise ValueError(f"expected a start between 0 and {len(u) - 1}, got {start}")
    if parts is None:
        parts = [index for index in range(cell.states) if index not in cell.counters]
    return _jacobians(cell, u, _checked_parts(cell, parts), start)


def _checked_parts(cell: Cell, parts: Iterable[int]) -> tuple[int, ...]:
    """Return `parts` after a check that they are indices of state tensors, each at most once."""
    indices = ()
    if isinstance(parts, Iterable):
        indices = tuple(parts)
    known = range(cell.states)
    are_indices = all(isinstance(index, Integral) and index in known for index in indices)
    if not indices or not are_indices or len(set(indices)) < len(indices):
        raise ValueError(
            f"expected parts to be different indices of {cell.label}'s {cell.states} state "
            f"tensor(s), such as parts=[0] for the first one, got {parts!r}"
        )
    return indices


@torch.inference_mode(False)
def _jacobians(cell: Cell, u: Tensor, parts: tuple[int, ...], start: int) -> Iterator[Tensor]:
    """Yield the Jacobians of the steps after `start`; the arguments have been checked."""
    weights = cell.weights()
    state = cell.initial_state(u.shape[1])
    for t, u_t in enumerate(u.unbind(0)):
        if t >= start:
            yield _jacobian(cell, weights, state, u_t, parts)
        with torch.no_grad():
            state = cell.step(weights, state, u_t)


def _jacobian(
    cell: Cell, weights: tuple, state: State, u_t: Tensor, parts: tuple[int, ...]
) -> Tensor:
    """Return the Jacobian of one step, (batch, n, n)."""
    n = len(parts) * cell.hidden_size
    # Run n copies of each sequence; the gradient of component i of copy i is row i of the Jacobian.
    copies = [part.repeat(n, 1) for part in state]
    inputs = [copies[index].requires_grad_() for index in parts]
    with torch.enable_grad(), Slopes():
        after = cell.step(weights, tuple(copies), u_t.repeat(n, 1))
        components = torch.cat([after[index] for index in parts], dim=1).unflatten(0, (n, -1))
        total = components.diagonal(dim1=0, dim2=2).sum()
    rows = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    return torch.cat(rows, dim=1).unflatten(0, (n, -1)).transpose(0, 1)


def largest_exponent(
    cell: Cell | OneStep | Recurrent,
    u: Tensor,
    *,
    start: int = 0,
    parts: Sequence[int] | None = None,
) -> Tensor:
    """Return the largest Lyapunov exponent along each sequence.

    Parameters
    ----------
    cell, u, start, parts
        As in `step_jacobians`.

    Returns
    -------
    (batch,)
        The exponents in nats per step; ``-inf`` if the vector was mapped to zero. The initial
        vector has equal components.

    Raises
    ------
    TypeError, ValueError
        As in `step_jacobians`.

    Examples
    --------
    >>> from longrnn import RNN
    >>> _ = torch.manual_seed(0)
    >>> exponent = largest_exponent(RNN(1, 32), torch.randn(200, 2, 1), start=100)
    >>> bool((exponent < 0).all())  # an untrained RNN forgets
    True
    """
    vector = None
    total = None
    for jacobian in step_jacobians(cell, u, start=start, parts=parts):
        if vector is None:
            batch, n, _ = jacobian.shape
            vector = jacobian.new_full((batch, n), n**-0.5)
            total = jacobian.new_zeros(batch)
        vector = (jacobian @ vector[:, :, None])[:, :, 0]
        length = torch.linalg.vector_norm(vector, dim=1)
        total = total + length.log()
        vector = vector / torch.where(length > 0, length, 1.0)[:, None]
    return total / (len(u) - start)


def singular_values(
    cell: Cell | OneStep | Recurrent,
    u: Tensor,
    *,
    parts: Sequence[int] | None = None,
    start: int = 0,
) -> Tensor:
    """Return the singular values of the Jacobian dx_T/dx_start along each sequence.

    Parameters
    ----------
    cell, u, parts, start
        As in `step_jacobians`. T - start must be small enough for float64: values below 1e-13 times
        the largest are rounding errors.

    Returns
    -------
    (batch, n)
        The singular values, descending.

    Raises
    ------
    TypeError, ValueError
        As in `step_jacobians`.
    """
    product = None
    for jacobian in step_jacobians(cell, u, parts=parts, start=start):
        if product is None:
            product = jacobian
        else:
            product = jacobian @ product
    return torch.linalg.svdvals(product)


def log_gain(cell: Cell | OneStep | Recurrent, u: Tensor, start: int) -> Tensor:
    """Return log10 of the spectral norm of dh_T/dh_start along each sequence.

    Parameters
    ----------
    cell, u, start
        As in `step_jacobians`.

    Returns
    -------
    (batch,)
        The logarithms, ``-inf`` for a norm of zero. h is the output tensor of the state. Its total
        derivative includes the dependence through the other state tensors in between.

    Raises
    ------
    TypeError, ValueError
        As in `step_jacobians`.

    Notes
    -----
    The product of the Jacobians is scaled after every step, and the logarithms of the scales are
    added.
    """
    cell = bare_cell(cell)
    readout = slice(cell.readout * cell.hidden_size, (cell.readout + 1) * cell.hidden_size)
    product = None
    total = 0.0
    for jacobian in step_jacobians(cell, u, start=start):
        if product is None:
            product = jacobian[..., readout]
        else:
            product = jacobian @ product
        scale = product.abs().amax((1, 2), keepdim=True)
        product = product / torch.where(scale > 0, scale, 1.0)
        total = total + scale[:, 0, 0].log10()
    return total + torch.linalg.matrix_norm(product[:, readout], 2).log10()
