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
of Table 3.3. B_0 stays where B starts and S starts at zero: the dynamic trivialisation with K = infinity of M. Lezcano-Casado,
*Trivializations for gradient-based optimization on manifolds*, NeurIPS 2019. The exponential RNN of 2019, and the dissertation's
public program, have the static one, B_0 = I: the same matrices can be reached, by another gradient.

As weights start, ``text`` lets B_0 hold rotations by angles from U(-pi, pi), after Henaff, Szlam and LeCun (2016), R is
Kaiming normal and b zero. ``original`` (github.com/Lezcano/expRNN) is the Cayley initialisation, angles -tan(theta / 2) with
theta from U(0, pi/2), and b from U(-0.01, 0.01); ``author``, the dissertation's public program, has R from N(0, 1/p^2) besides.
With b = 0 the modReLU is the identity, but automatic differentiation takes its slope at 0 for 0: an input of zeros then
makes the adjoint exactly zero.
"""

import math
from collections import namedtuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from lib.cells._cell import Cell, State
from lib.cells._init import named_starts, rotations
from lib.cells._keywords import Choice

Weights = namedtuple("Weights", "B R b")


def modrelu(a: Tensor, b: Tensor) -> Tensor:
    """Return sign(a) max(|a| + b, 0), elementwise."""
    return torch.sign(a) * torch.relu(a.abs() + b)


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (x,) of (batch, d), `u` is (batch, p)."""
    B, R, b = weights
    (x,) = state
    return (modrelu(x @ B.T + u @ R.T, b),)


def start_text(cell: Cell) -> None:
    angles = cell.R.new_empty(cell.hidden_size // 2).uniform_(-math.pi, math.pi)
    _set_rotations(cell, angles)
    nn.init.kaiming_normal_(cell.R)
    nn.init.zeros_(cell.b)


def _set_rotations(cell: Cell, angles: Tensor) -> None:
    if cell.trivialization == "dynamic":
        cell.B = rotations(angles, cell.hidden_size)
    else:  # S = A - A' for the lower triangle A that is stored
        A = cell.parametrizations.B.original.zero_()
        A.diagonal(-1)[::2] = angles


def start_original(cell: Cell) -> None:
    theta = cell.R.new_empty(cell.hidden_size // 2).uniform_(0, math.pi / 2)
    _set_rotations(cell, -torch.tan(theta / 2))
    nn.init.kaiming_normal_(cell.R)
    nn.init.uniform_(cell.b, -0.01, 0.01)


def start_author(cell: Cell) -> None:
    start_original(cell)
    nn.init.normal_(cell.R, std=1 / cell.input_size)


class ExponentialRNN(Cell, name="exponential"):
    """The exponential RNN; its matrix is orthogonal at every step of training.

    With the `trivialization` ``dynamic`` B_0 is the matrix at the start, with ``static`` it is I.
    """

    title = "exponential RNN"
    source = "Lezcano-Casado and Martinez-Rubio 2019, section 4"
    Weights, step = Weights, step
    hyper_parameters = {"trivialization": Choice(("dynamic", "static"))}
    shapes = {"B": "d d", "R": "d p", "b": "d"}
    starts = named_starts(text=start_text, author=start_author, original=start_original)

    def constrain(self) -> None:
        dynamic = self.trivialization == "dynamic"
        parametrizations.orthogonal(
            self, "B", orthogonal_map="matrix_exp", use_trivialization=dynamic
        )
