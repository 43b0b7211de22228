r"""Lyapunov exponents of a recurrent network along the trajectories that its inputs drive it through.

With the Jacobians :math:`J_t = \partial x_t / \partial x_{t-1}` of one sequence, the largest exponent over the steps
:math:`s + 1 .. T` is

.. math:: \chi_1 = \frac{1}{T - s} \log \| J_T J_{T-1} \cdots J_{s+1} v \|_2, \qquad \|v\|_2 = 1

for almost every v once T - s is large; in nats per step. Below zero nearby states approach each other and an adjoint
state shrinks by :math:`e^{\chi_1}` for every step that it is carried back; above zero both grow.

The vector is renormalised after every step and the logarithms of its lengths are added, so neither underflow nor
overflow ends the product. What is measured is a finite-time exponent of a driven system: it belongs to the inputs, too.

The incremental RNN's text draws what is left of a state in the last: in its Figures 3b, 8 and 9 :math:`\|\partial h_T / \partial h_1\|`,
and that of :math:`\partial h_T / \partial h_{T-1}`. These norms are spectral: the text does not say which.
"""

import copy
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from longrnn.cells import Cell
from longrnn.probes.slopes import Slopes


def step_jacobians(
    cell: Cell, u: Tensor, *, parts: Sequence[int] | None = None, start: int = 0
) -> Iterator[Tensor]:
    """Yield the Jacobians of the steps of `cell` along the sequences `u`, in float64.

    Parameters
    ----------
    cell
        Any cell whose step is elementary in its state; it is copied, not changed.
    u : (time, batch, input)
        The inputs; the first state is zero.
    parts
        Indices of the state tensors that count as the state; all by default. The step count of the LU RNN,
        which leads a life of its own, is left out by ``parts=(0,)``.
    start
        Steps run before the first Jacobian.

    Yields
    ------
    (batch, n, n)
        Derivative of the state after step t by that before it, t = start + 1 .. T; n is the number of parts times the
        recurrent dimension.

    Raises
    ------
    ValueError
        `start` leaves no step.
    """
    if not 0 <= start < len(u):
        raise ValueError(f"expected a start between 0 and {len(u) - 1}, got {start}")
    cell = copy.deepcopy(cell).double().requires_grad_(False)
    weights, state = cell.weights(), cell.initial_state(u.shape[1])
    chosen = tuple(range(len(state))) if parts is None else tuple(parts)
    n = len(chosen) * cell.hidden_size
    for t, u_t in enumerate(u.detach().double().unbind(0)):
        if t >= start:
            # Each sequence n times, once for every component of the state after, which alone is differentiated.
            copies = [part.repeat(n, 1) for part in state]
            varied = [copies[index].requires_grad_() for index in chosen]
            with torch.enable_grad(), Slopes():
                after = cell.step(weights, tuple(copies), u_t.repeat(n, 1))
                parted = torch.cat([after[index] for index in chosen], dim=1).unflatten(0, (n, -1))
                ends = parted.diagonal(dim1=0, dim2=2).sum()
            rows = torch.autograd.grad(ends, varied, allow_unused=True, materialize_grads=True)
            yield torch.cat(rows, dim=1).unflatten(0, (n, -1)).transpose(0, 1)
        with torch.no_grad():
            state = cell.step(weights, state, u_t)


def largest_exponent(cell: Cell, u: Tensor, *, start: int = 0, **parts: Sequence[int]) -> Tensor:
    """Return the largest Lyapunov exponent along each sequence, (batch,), in nats per step.

    Parameters are those of `step_jacobians`. The vector that is carried starts with equal components; an exponent of
    ``-inf`` says that it was mapped to zero.
    """
    vector = total = None
    for jacobian in step_jacobians(cell, u, start=start, **parts):
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
    cell: Cell, u: Tensor, *, parts: Sequence[int] | None = None, start: int = 0
) -> Tensor:
    """Return the singular values of the Jacobian of x_T by x_start along each sequence, (batch, n), descending.

    Parameters are those of `step_jacobians`. For stretches short enough for float64: values below 1e-13 of the largest are its rounding.
    """
    product = None
    for jacobian in step_jacobians(cell, u, parts=parts, start=start):
        product = jacobian if product is None else jacobian @ product
    return torch.linalg.svdvals(product)


def log_gain(cell: Cell, u: Tensor, start: int) -> Tensor:
    """Return log10 of the spectral norm of dh_T/dh_start along each of the sequences `u`, (batch,); zero is ``-inf``.

    Of several state tensors the one that is read out counts, and what passes through the others on the way. The product of the steps'
    Jacobians is scaled after every step, and the logarithms of the scales added.
    """
    read = slice(cell.readout * cell.hidden_size, (cell.readout + 1) * cell.hidden_size)
    product, total = None, 0.0
    for jacobian in step_jacobians(cell, u, start=start):
        product = jacobian[..., read] if product is None else jacobian @ product
        scale = product.abs().amax((1, 2), keepdim=True)
        product = product / torch.where(scale > 0, scale, 1.0)
        total = total + scale[:, 0, 0].log10()
    return total + torch.linalg.matrix_norm(product[:, read], 2).log10()
