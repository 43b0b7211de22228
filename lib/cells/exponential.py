r"""The exponential RNN: an orthogonal recurrence by the matrix exponential.

M. Lezcano-Casado, D. Martinez-Rubio, *Cheap orthogonal constraints in neural networks*, ICML 2019,
section 4 there:

.. math::
    x_t &= \sigma_b(B x_{t-1} + R u_t), \qquad B = B_0 \exp(S), \; S = -S^\top \\
    \sigma_b(a) &= \operatorname{sign}(a) \, \max(|a| + b, 0) \quad \text{(modReLU)}

======= ====== ======= ==============================================================
symbol  name   shape   meaning
======= ====== ======= ==============================================================
u_t     ``u``  (p,)    input
x_t     ``x``  (d,)    state, read out
B       ``B``  (d, d)  orthogonal recurrent matrix
R       ``R``  (d, p)  input weights
b       ``b``  (d,)    bias of the modReLU
======= ====== ======= ==============================================================

PyTorch's own parametrisation stores d^2 numbers of which the d(d-1)/2 below the diagonal form S: the count
of Table 3.3. B_0 holds rotations by angles from U(-pi, pi), R is Kaiming normal, b starts at zero.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from lib.cells._cell import Cell, State
from lib.cells._init import rotations


class Weights(NamedTuple):
    B: Tensor
    R: Tensor
    b: Tensor


def modrelu(a: Tensor, b: Tensor) -> Tensor:
    """Return sign(a) max(|a| + b, 0), elementwise."""
    return torch.sign(a) * torch.relu(a.abs() + b)


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (x,) of (batch, d), `u` is (batch, p)."""
    B, R, b = weights
    (x,) = state
    return (modrelu(x @ B.T + u @ R.T, b),)


class ExponentialRNN(Cell, name="exponential"):
    """The exponential RNN; its matrix is orthogonal at every step of training."""

    title = "exponential RNN"
    source = "Lezcano-Casado and Martinez-Rubio 2019, section 4"
    step = step

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.B = nn.Parameter(torch.empty(hidden_size, hidden_size))
        parametrizations.orthogonal(self, "B", orthogonal_map="matrix_exp")
        with torch.no_grad():
            self.B = rotations(hidden_size)
        self.R = nn.Parameter(torch.empty(hidden_size, input_size))
        nn.init.kaiming_normal_(self.R)
        self.b = nn.Parameter(torch.zeros(hidden_size))

    def weights(self) -> Weights:
        return Weights(self.B, self.R, self.b)
