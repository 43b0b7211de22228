"""The penalised loss that any training loop can minimise, by double backward or by Algorithm 2."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lib import kernels
from lib.cells import Cell
from lib.probes import Diverged
from lib.probes.coadjoint.penalties import OfNorms, Penalty, find_penalty

Losses = Callable[[Tensor], Tensor]

KINKS = ("Relu", "Threshold", "Abs", "Sign", "Clamp", "Hardtanh", "Maximum", "Minimum")
"""Beginnings of autograd's names for functions whose first derivative jumps."""


@dataclass(frozen=True)
class Penalised:
    """A mini-batch's penalised loss, means over its sequences.

    Attributes
    ----------
    total : ()
        F + kappa G, to be differentiated.
    loss, penalty : ()
        F and G alone, for the record; without a graph.
    last : (batch, hidden)
        The state that was read out, x_T; without a graph.
    """

    total: Tensor
    loss: Tensor
    penalty: Tensor
    last: Tensor

    def backward(self, parameters: Iterable[nn.Parameter] = ()) -> None:
        """Differentiate `total`; the `parameters` are checked afterwards.

        Raises
        ------
        Diverged
            A gradient is not finite.
        """
        self.total.backward()
        for i, parameter in enumerate(parameters):
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                raise Diverged(
                    f"the gradient of parameter {i}, {tuple(parameter.shape)}, is not finite after the "
                    "backward pass of the penalised loss; lower the learning rate or kappa"
                )


def coadjoint_loss(
    cell: Cell,
    u: Tensor,
    losses: Losses,
    penalty: str | Penalty = "scaled_variance",
    *,
    kappa: float,
    engine: str = "auto",
) -> Penalised:
    """Return loss + kappa * G(adjoints) of a mini-batch u, (time, batch, input), ready to be differentiated.

    Parameters
    ----------
    cell
        Any cell whose step can be differentiated twice.
    losses
        Maps the last state that is read out, (batch, hidden), to the loss of each sequence, (batch,). The
        output layer belongs to it and gets its gradient too.
    penalty
        A name of `penalty_names`, or a function from adjoints (time, batch, hidden) to (batch,).
    kappa
        Weight of the penalty, not negative. With 0 this is backpropagation; G is measured all the same.
    engine
        ``"auto"``, or a name of `engine_names`: ``"reference"`` is double backward through the reference
        unrolling, the others Algorithm 2.

    Raises
    ------
    ValueError
        Kappa is negative or not finite, the cell's step has kinks, the engine cannot run the cell, or the
        losses have another shape than (batch,).
    Diverged
        The loss or the penalty is not finite.
    """
    kappa = float(kappa)
    if not (math.isfinite(kappa) and kappa >= 0):
        raise ValueError(f"expected kappa, the penalty's weight, to be 0 or positive, got {kappa}")
    G = find_penalty(penalty)
    last, F, cost = _measured(cell, u, losses, G, engine, differentiable=kappa > 0)
    loss, cost = F.mean(), cost.mean()
    total = loss + kappa * cost if kappa else loss
    if not torch.isfinite(total):
        raise Diverged(
            f"the penalised loss is not finite: F = {loss.item():g}, G = {cost.item():g}, kappa = {kappa:g}"
        )
    return Penalised(total, loss.detach(), cost.detach(), last.detach())


def engine_names(cell: Cell) -> list[str]:
    """Return the engines that can differentiate the adjoints of `cell`, double backward first."""
    return kernels.engine_names(f"{cell.name}/adjoints")


def _measured(
    cell: Cell, u: Tensor, losses: Losses, G: Penalty, engine: str, *, differentiable: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the last state, the losses and G of the adjoints, whose graph is kept if `differentiable`."""
    what, cost = "adjoints", G
    if isinstance(G, OfNorms) and G.order == 2:
        what, cost = "adjoint_norms", G.function
    fast = kernels.select(f"{cell.name}/{what}", engine, u, cell.engine_options)
    if fast is None:
        x, F, adjoints = _double_backward(cell, u, losses, differentiable)
        return x, F, G(adjoints)
    outputs, state = cell(u)
    # The final state, not the last of the outputs: its gradient needs no array over all times.
    x = state[cell.readout]
    F = _checked(losses(x), u)
    (slope,) = torch.autograd.grad(F.sum(), x, create_graph=differentiable, retain_graph=True)
    with torch.set_grad_enabled(differentiable):
        return x, F, cost(fast(cell.weights().W, outputs, -slope))


def _double_backward(
    cell: Cell, u: Tensor, losses: Losses, differentiable: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the last state, the losses and the adjoints of any cell, by its reference unrolling."""
    if differentiable:
        _refuse_kinks(cell)
    cell._check(u)
    weights, state = cell.weights(), cell.initial_state(u.shape[1])
    x = []
    for u_t in u.unbind(0):
        state = cell.step(weights, state, u_t)
        # Parts of one state must not count as functions of each other (h_t of c_t, say): what is
        # differentiated is a view that only the next step reads.
        state = tuple(part.view_as(part) for part in state)
        x.append(state[cell.readout])
    F = _checked(losses(x[-1]), u)
    slopes = torch.autograd.grad(
        F.sum(), x, create_graph=differentiable, retain_graph=True, materialize_grads=True
    )
    return x[-1], F, -torch.stack(slopes)


def _checked(F: Tensor, u: Tensor) -> Tensor:
    if F.shape != u.shape[1:2]:
        raise ValueError(
            f"expected one loss a sequence, ({u.shape[1]},), got {tuple(F.shape)}; "
            "use reduction='none'"
        )
    return F


def _refuse_kinks(cell: Cell) -> None:
    """Raise `ValueError` if the first derivative of the cell's step jumps somewhere."""
    with torch.no_grad():  # how the weights came about is not differentiated twice by the state
        weights, state = cell.weights(), cell.initial_state(1)
    state = tuple(part.requires_grad_() for part in state)
    u = state[0].new_zeros(1, cell.input_size)
    with torch.enable_grad():
        after = cell.step(weights, state, u)
    todo, seen = [part.grad_fn for part in after], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name().startswith(KINKS):
            raise ValueError(
                f"{cell.name} cannot be trained by the coadjoint method: its step contains "
                f"{node.name().removesuffix('Backward0').lower()}, whose derivative jumps, and the method "
                "needs a second derivative; choose a smooth activation such as tanh"
            )
        todo.extend(after for after, _ in node.next_functions)
