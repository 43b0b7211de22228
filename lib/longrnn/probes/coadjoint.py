r"""The coadjoint method: training on a loss plus a penalty on the adjoint states.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.6. The
method minimizes the mean over sequences of

.. math:: F(y, \hat{y}) + \kappa \, G(\lambda_1, \dots, \lambda_T)

where :math:`\lambda_t = -\partial F / \partial x_t` are the adjoint states of the sequence (2.21):
total derivatives with respect to the output tensor of the state at time t. The weight
:math:`\kappa` is missing in (2.23) to (2.25); section 2.6.1 and appendix A3.2 put it before G.

>>> import torch
>>> from longrnn.cells import make_cell
>>> cell, output = make_cell("rnn", 1, 8), torch.nn.Linear(8, 2)
>>> u, labels = torch.randn(20, 4, 1), torch.tensor([0, 1, 1, 0])
>>> def losses(x):
...     return torch.nn.functional.cross_entropy(output(x), labels, reduction="none")
>>> coadjoint_loss(cell, u, losses, kappa=10.0).total.backward()
"""

import math
import re
from typing import NamedTuple

import torch
from torch import Tensor

from longrnn import kernels
from longrnn.cells import Cell, OneStep, Recurrent
from longrnn.cells._checks import check_is_tensor
from longrnn.probes import Diverged
from longrnn.probes._checks import Losses, bare_cell, checked_losses

KINKS = (
    # activations
    *("Relu", "LeakyRelu", "Rrelu", "PreluKernel", "Threshold"),
    *("Hardtanh", "Hardsigmoid", "Hardswish", "Hardshrink", "Softshrink"),
    # functions of one number
    *("Abs", "Sign", "Sgn", "Copysign", "Clamp"),
    *("Round", "Floor", "Ceil", "Trunc", "Frac", "Fmod", "Remainder"),
    # the largest of several numbers, or their order
    *("Max", "Min", "Fmax", "Fmin", "Amax", "Amin", "Aminmax", "Cummax", "Cummin"),
    *("Sort", "Topk", "Kthvalue", "Median", "Nanmedian", "Mode"),
)
"""Prefixes of autograd's names for functions whose first derivative jumps, or that jump themselves.

`_has_kink` decides about ELU, which has a parameter, and about selections by a condition.
"""


class PenalizedLoss(NamedTuple):
    """Loss F, penalty G and total F + kappa G of a mini-batch, as means over sequences.

    Only the total can be differentiated.
    """

    total: Tensor
    loss: Tensor
    penalty: Tensor


def scaled_variance(norms: Tensor) -> Tensor:
    r"""Return the penalty G: the variance over time of the adjoints' norms, times T.

    .. math:: G = \sum_{t=1}^T \Bigl[ \|\lambda_t\|_2 - \frac{1}{T} \sum_{i=1}^T \|\lambda_i\|_2
              \Bigr]^2 \tag{2.20}

    Parameters
    ----------
    norms : (time, batch)
        Norms of the adjoint states.

    Returns
    -------
    (batch,)
        G of each sequence.
    """
    return (norms - norms.mean(0)).square().sum(0)


def coadjoint_loss(
    cell: Cell | OneStep | Recurrent,
    u: Tensor,
    losses: Losses,
    *,
    kappa: float,
    engine: str = "auto",
) -> PenalizedLoss:
    """Compute the differentiable loss F + kappa G of a mini-batch (equation 2.20).

    Parameters
    ----------
    cell
        A cell whose step has a continuous first derivative (see `check_no_kinks`), as a cell, a
        one-step cell such as `longrnn.LEMCell`, or a layer such as `longrnn.LEM` that has one layer
        and one direction.
    u : (time, batch, input)
        The sequences, in the dtype of the cell.
    losses
        Maps the cell's last output, (batch, hidden), to the loss of each sequence, (batch,). It
        includes the output layer, which gets gradients as well.
    kappa
        Weight of the penalty, at least 0. With 0 this is ordinary training; G is still computed.
    engine
        ``auto``, or an engine of ``<cell>/adjoints``: ``reference`` is double backward through the
        plain PyTorch loop, the others implement Algorithm 2.

    Returns
    -------
    PenalizedLoss

    Raises
    ------
    TypeError
        `cell` is neither a cell nor a layer, or `u` is not a tensor.
    ValueError
        The layer has several cells or takes inputs batch first, the sequences don't fit the cell,
        kappa is negative or not finite, the cell's step has a discontinuous derivative, the engine
        cannot run the cell, or the losses don't have the shape (batch,) or no derivative with
        respect to the output.
    Diverged
        The loss or the penalty is not finite.

    Notes
    -----
    All weights of the cell may be frozen. Gradients may be disabled, as in evaluation; then the
    total has no graph.

    Call it outside of autocast, which would round the derivatives of most cells to 16 bits.
    """
    cell = bare_cell(cell)
    check_is_tensor(cell.label, u)
    kappa = float(kappa)
    if not (math.isfinite(kappa) and kappa >= 0):
        raise ValueError(f"expected kappa, the penalty's weight, to be 0 or positive, got {kappa}")
    # The adjoints are gradients, which evaluation usually disables.
    with torch.inference_mode(False):
        if u.is_inference():  # autograd does not save such tensors, but it saves copies
            u = u.clone()
        F, norms = _losses_and_norms(cell, u, losses, engine, differentiable=kappa > 0)
    loss = F.mean()
    penalty = scaled_variance(norms).mean()
    total = loss
    if kappa > 0:
        total = loss + kappa * penalty
    if not torch.isfinite(total):
        raise Diverged(
            f"the penalized loss is not finite: F = {loss.item():g}, G = {penalty.item():g}, "
            f"kappa = {kappa:g}"
        )
    return PenalizedLoss(total, loss.detach(), penalty.detach())


def _losses_and_norms(
    cell: Cell, u: Tensor, losses: Losses, engine: str, *, differentiable: bool
) -> tuple[Tensor, Tensor]:
    """Return the losses, (batch,), and the adjoints' norms, (time, batch).

    The norms have a graph if `differentiable`.
    """
    engine = cell.engine_for(engine)
    adjoint_engine = kernels.select(f"{cell.name}/adjoints", engine, u, cell.engine_options)
    if adjoint_engine is None:
        F, adjoints = _double_backward(cell, u, losses, differentiable)
        return F, torch.linalg.vector_norm(adjoints, dim=2)
    outputs, state = cell(u)
    # The final state, not outputs[-1], whose gradient would be an array over all time steps.
    x = state[cell.readout]
    if not x.requires_grad:  # all weights are frozen
        x.requires_grad_()
    F = checked_losses(losses, x)
    (slope,) = torch.autograd.grad(F.sum(), x, create_graph=differentiable, retain_graph=True)
    with torch.set_grad_enabled(differentiable):
        return F, adjoint_engine(cell.weights().W, outputs, -slope)


def _double_backward(
    cell: Cell, u: Tensor, losses: Losses, differentiable: bool
) -> tuple[Tensor, Tensor]:
    """Return the losses and the adjoints of any cell, with its plain PyTorch loop."""
    if differentiable:
        check_no_kinks(cell)
    cell.check_input(u)
    weights = cell.run_weights(u.shape[1])
    state = cell.initial_state(u.shape[1])
    x = []
    for u_t in u.unbind(0):
        state = cell.step(weights, state, u_t)
        # One state tensor may be computed from another, h_t from c_t for example. Derivatives with
        # respect to one must not include this. So we use views that only the next step reads.
        state = tuple(part.view_as(part) for part in state)
        if not state[cell.readout].requires_grad:  # all weights are frozen
            state[cell.readout].requires_grad_()
        x.append(state[cell.readout])
    F = checked_losses(losses, x[-1])
    slopes = torch.autograd.grad(
        F.sum(), x, create_graph=differentiable, retain_graph=True, materialize_grads=True
    )
    return F, -torch.stack(slopes)


def check_no_kinks(cell: Cell) -> None:
    """Check that the first derivative of a cell's step with respect to the state is continuous.

    Parameters
    ----------
    cell
        The cell to check.

    Raises
    ------
    ValueError
        The step contains a function such as ReLU.

    Notes
    -----
    The gradient of the penalty contains the second derivative of the step. That one may jump: the
    penalty is then continuous, and its gradient is right wherever it exists. But if the first
    derivative jumps, as ReLU's does, so does the penalty, and no gradient shows this.

    The check goes through the functions that autograd recorded. Of functions with a continuous
    derivative that are made of others without one, it knows softsign, x / (1 + abs(x)).
    """
    with torch.no_grad():  # parametrizations of the weights don't matter here
        weights = cell.weights()
        state = list(cell.initial_state(_STATES))
    generator = torch.Generator().manual_seed(0)
    for index, part in enumerate(state):
        if index not in cell.counters:
            values = 3 * torch.randn(part.shape, generator=generator)
            part = values.to(part)
        state[index] = part.detach().requires_grad_()
    u = state[0].new_zeros(_STATES, cell.input_size)
    with torch.enable_grad():
        after = cell.step(weights, tuple(state), u)
    todo = [part.grad_fn for part in after]
    seen = set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if _is_softsign(node):
            todo.append(node.next_functions[0][0])  # x, but not abs(x)
            continue
        if _has_kink(node):
            raise ValueError(
                f"{cell.name} cannot be trained by the coadjoint method: its step contains "
                f"{_function_name(node)}, whose derivative jumps, so the penalty would jump; "
                "choose an activation with a continuous derivative, such as tanh"
            )
        todo.extend(before for before, _ in node.next_functions)


_STATES = 32
"""Number of random states at which `check_no_kinks` looks for conditions that depend on them."""


def _has_kink(node: torch.autograd.graph.Node) -> bool:
    """Return whether the first derivative of a function that autograd recorded jumps."""
    name = node.name()
    if name.startswith("EluBackward"):  # also SELU; CELU is smooth
        return node._saved_alpha * node._saved_input_scale != 1
    if name.startswith("WhereBackward"):
        return _differs_between_states(node._saved_condition)
    if name.startswith("MaskedFillBackward"):
        return _differs_between_states(node._saved_mask)
    return name.startswith(KINKS)


def _is_softsign(node: torch.autograd.graph.Node) -> bool:
    """Return whether a function that autograd recorded is the division of x / (1 + abs(x))."""
    if not node.name().startswith("DivBackward"):
        return False
    x, denominator = (before for before, _ in node.next_functions)
    if denominator is None or not denominator.name().startswith("AddBackward"):
        return False
    absolute, constant = (before for before, _ in denominator.next_functions)
    is_absolute = absolute is not None and absolute.name().startswith("AbsBackward")
    return is_absolute and constant is None and absolute.next_functions[0][0] is x


def _differs_between_states(condition: Tensor) -> bool:
    """Return whether a condition depends on the state, and not only on the time or the neuron."""
    return len(condition) == _STATES and bool((condition != condition[:1]).any())


def _function_name(node: torch.autograd.graph.Node) -> str:
    """Return the name of a function that autograd recorded: ``leaky_relu`` for LeakyReluBackward0.

    An ELU has its parameter in its name, because it is smooth if that is 1.
    """
    function = node.name().partition("Backward")[0].removesuffix("Kernel").removesuffix("WithNoise")
    name = re.sub("(?<=[a-z])(?=[A-Z])", "_", function).lower()
    if name == "elu":
        return f"elu with alpha={node._saved_alpha * node._saved_input_scale:g}"
    return name


def soft_orthogonality(W: Tensor) -> Tensor:
    r"""Return the penalty for weights that are not orthogonal, a squared distance.

    .. math:: \|W'W - I\|_2^2 + \|WW' - I\|_2^2

    Parameters
    ----------
    W : (..., hidden, hidden)
        Recurrent weights of one network, or of several along leading axes.

    Returns
    -------
    (...)
        One number per network.

    Notes
    -----
    L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, Table 2.1
    (experiments 2.2 and 2.3). The paper does not say which matrix norm it means. Here it is the
    Frobenius norm, for which the two terms are equal if the matrix is square. The paper does not
    give the penalty's weight either.
    """
    identity = torch.eye(W.shape[-1], dtype=W.dtype, device=W.device)
    from_columns = (W.mT @ W - identity).square().sum((-2, -1))
    from_rows = (W @ W.mT - identity).square().sum((-2, -1))
    return from_columns + from_rows
