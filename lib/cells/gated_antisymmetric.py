r"""The antisymmetric RNN with a gate.

B. Chang, M. Chen, E. Haber, E. Chi, *AntisymmetricRNN: a dynamical system view on recurrent neural networks*,
ICLR 2019, the form with a gating mechanism:

.. math::
    z_t &= \sigma((M - M^\top - \gamma I) x_{t-1} + R_z u_t + b_z) \\
    x_t &= x_{t-1} + \epsilon \, z_t \odot \tanh((M - M^\top - \gamma I) x_{t-1} + R_x u_t + b_x)

============ =========== ======= ===================================================
symbol       name        shape   meaning
============ =========== ======= ===================================================
u_t          ``u``       (p,)    input
x_t          ``x``       (d,)    state, read out
M            ``M``       (d, d)  free parameter
M - M' - gI  ``W``       (d, d)  shared by gate and candidate
R_z, R_x     ``R``       (2d, p) input weights, in the order z x
b_z, b_x     ``b``       (2d,)   biases, same order
epsilon      ``epsilon`` scalar  step size of the forward Euler method
gamma        ``gamma``   scalar  diffusion
============ =========== ======= ===================================================

Defaults and initialisation as in `lib.cells.antisymmetric`.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lib.cells._cell import Cell, State
from lib.cells._init import named_starts
from lib.cells.antisymmetric import start_text


class Weights(NamedTuple):
    W: Tensor
    R: Tensor
    b: Tensor
    epsilon: float


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (x,) of (batch, d), `u` is (batch, p)."""
    W, R, b, epsilon = weights
    (x,) = state
    from_state = x @ W.T
    from_u_z, from_u_x = (u @ R.T + b).chunk(2, dim=-1)
    z = torch.sigmoid(from_state + from_u_z)
    return (x + epsilon * z * torch.tanh(from_state + from_u_x),)


class GatedAntisymmetricRNN(Cell, name="gated_antisymmetric"):
    """The antisymmetric RNN with an input gate that shares its recurrent matrix.

    Parameters
    ----------
    input_size, hidden_size
        Features p and recurrent dimension d.
    epsilon
        Step size, in (0, 1].
    gamma
        Diffusion, at least 0.
    """

    title = "gated antisymmetric RNN"
    source = "Chang et al. 2019, gating mechanism"
    step = step
    starts = named_starts(text=start_text)

    def __init__(
        self, input_size: int, hidden_size: int, *, epsilon: float = 0.01, gamma: float = 0.01
    ) -> None:
        super().__init__(input_size, hidden_size)
        if not 0 < epsilon <= 1 or gamma < 0:
            raise ValueError(
                "gated_antisymmetric: expected 0 < epsilon <= 1 and gamma >= 0, "
                f"got {epsilon} and {gamma}"
            )
        self.epsilon = epsilon
        self.gamma = gamma
        self.M = nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.R = nn.Parameter(torch.empty(2 * hidden_size, input_size))
        self.b = nn.Parameter(torch.empty(2 * hidden_size))
        self.start("text")

    def weights(self) -> Weights:
        identity = torch.eye(self.hidden_size, dtype=self.M.dtype, device=self.M.device)
        return Weights(self.M - self.M.T - self.gamma * identity, self.R, self.b, self.epsilon)
