r"""Interventions on the backward pass that leave the forward pass unchanged.

The dissertation's tenet is that networks fail to learn long-term dependencies because their adjoint
states vanish. A correlation between adjoint norms and accuracy cannot show that, because whatever
makes adjoints vanish also makes the forward pass forget. Here the recurrence
:math:`x_t = f(x_{t-1}, u_t)` does not change, and only the adjoint that flows from
:math:`x_t` to :math:`x_{t-1}` is changed. With :math:`J_t = \partial x_t / \partial x_{t-1}` and
the loss :math:`F(x_T)`, ordinary backpropagation is :math:`\lambda_T = \nabla F`,
:math:`\lambda_{t-1} = J_t^\top \lambda_t`. The treatments replace it by

.. math::
    \text{scaled} \quad & \lambda_{t-1} = \gamma J_t^\top \lambda_t \\
    \text{renormalized} \quad & \lambda_{t-1} =
        \frac{\|\lambda_t\|}{\|J_t^\top \lambda_t\|} J_t^\top \lambda_t \\
    \text{random signs} \quad & \lambda_{t-1} = s_t \odot
        \frac{\|\lambda_t\|}{\|J_t^\top \lambda_t\|} J_t^\top \lambda_t, \quad s_t \in \{-1, 1\}^d

Norms are per sequence, over all tensors of the state. Scaling by :math:`\gamma = 10^{q / T}` adds
the dose q to the adjoint metric :math:`\log_{10} \|\lambda_0\| / \|\lambda_T\|`. This is the
dissertation's (3.4) with :math:`\lambda_0` instead of :math:`\lambda_1`, so that all T steps
count. Random signs keep the norm of every adjoint and destroy its direction. So they are a control
that has the metric of renormalized adjoints but no information. If the loss reads other states than
the last one, their adjoints are added as in ordinary backpropagation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

State = tuple[Tensor, ...]
Kind = Literal["plain", "scaled", "renormalized", "random_signs"]


@dataclass(frozen=True)
class AdjointTreatment:
    """What happens to the adjoint of the state between two time steps.

    Attributes
    ----------
    kind : {"plain", "scaled", "renormalized", "random_signs"}
        The treatment; ``plain`` is ordinary backpropagation.
    dose : float
        q of the treatment ``scaled``: over the whole sequence, adjoints are multiplied by 10^q.
    """

    kind: Kind = "plain"
    dose: float = 0.0


class AdjointPath:
    """The backward pass of several runs through one unrolled sequence, with treated adjoints.

    At every time step the backward pass first calls `store_norm` and, after the step's own backward
    pass, `treat`.

    Parameters
    ----------
    treatments : sequence of AdjointTreatment
        One for each run; the states of all runs are tensors (run, batch, hidden).
    time_steps : int
        Length T of the sequence.
    like : Tensor
        A tensor with the type and the device of the states.
    generator : torch.Generator
        Draws the random signs, in the backward pass.
    """

    def __init__(
        self,
        treatments: Sequence[AdjointTreatment],
        time_steps: int,
        like: Tensor,
        generator: torch.Generator,
    ) -> None:
        kinds = [treatment.kind for treatment in treatments]
        factors = [10 ** (treatment.dose / time_steps) for treatment in treatments]
        self.factors = like.new_tensor(factors)[:, None, None]
        self.keeps_norm = torch.tensor([kind in ("renormalized", "random_signs") for kind in kinds])
        self.keeps_norm = self.keeps_norm[:, None, None]
        self.random = torch.tensor([kind == "random_signs" for kind in kinds])
        self.generator = generator
        self.norm: Tensor | None = None
        """Norm of the adjoint of the later state, (run, batch, 1); set in the backward pass."""

    def store_norm(self, adjoints: Sequence[Tensor]) -> None:
        """Store the norm of the adjoint of the later state, before the step's backward pass.

        Parameters
        ----------
        adjoints : sequence of Tensor, each (run, batch, hidden)
            One tensor for each tensor of the state.
        """
        self.norm = _norm(adjoints)

    def treat(self, adjoints: Sequence[Tensor]) -> list[Tensor]:
        """Apply the treatments to the adjoint of the earlier state.

        Parameters
        ----------
        adjoints : sequence of Tensor, each (run, batch, hidden)
            The adjoint from ordinary backpropagation, one tensor for each tensor of the state.

        Returns
        -------
        list of Tensor, each (run, batch, hidden)
        """
        smallest = torch.finfo(adjoints[0].dtype).tiny
        restored = self.norm / _norm(adjoints).clamp_min(smallest)
        factors = torch.where(self.keeps_norm, restored, self.factors)
        treated = [part * factors for part in adjoints]
        if self.random.any():
            for part in treated:
                chosen = part[self.random]
                bits = torch.randint(0, 2, chosen.shape, generator=self.generator)
                part[self.random] = chosen * (2 * bits - 1).to(part.dtype)
        return treated


def _norm(adjoints: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm per sequence over all tensors of the state, (run, batch, 1)."""
    squares = [part.square().sum(dim=-1, keepdim=True) for part in adjoints]
    return torch.stack(squares).sum(dim=0).sqrt()


class _StoreNorm(torch.autograd.Function):
    """The identity; its backward pass stores the norm of the adjoint of a state."""

    @staticmethod
    def forward(ctx: Any, path: AdjointPath, *state: Tensor) -> State:
        ctx.path = path
        return tuple(part.view_as(part) for part in state)

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor) -> tuple:
        ctx.path.store_norm(adjoints)
        return None, *adjoints


class _Treat(torch.autograd.Function):
    """The identity; its backward pass treats the adjoint that flows to an earlier state."""

    @staticmethod
    def forward(ctx: Any, path: AdjointPath, *state: Tensor) -> State:
        ctx.path = path
        return tuple(part.view_as(part) for part in state)

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor) -> tuple:
        return None, *ctx.path.treat(adjoints)


def unroll_treated(
    step: Callable[[State, Tensor], State], state: State, inputs: Tensor, path: AdjointPath
) -> State:
    """Apply `step` to every input in turn, with treated adjoints.

    Parameters
    ----------
    step : callable
        The recurrence of all runs, ``step(state, u_t) -> state``.
    state : tuple of Tensor, each (run, batch, hidden)
        The state before the first input.
    inputs : Tensor, (time, run, batch, input)
        The input sequences.
    path : AdjointPath
        What happens to the adjoints between two time steps.

    Returns
    -------
    tuple of Tensor, each (run, batch, hidden)
        The state after the last input.
    """
    for u_t in inputs.unbind(0):
        state = _Treat.apply(path, *state)
        state = step(state, u_t)
        state = _StoreNorm.apply(path, *state)
    return state
