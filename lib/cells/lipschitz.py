r"""The Lipschitz RNN, forward Euler form.

N. B. Erichson, O. Azencot, A. Queiruga, L. Hodgkinson, M. W. Mahoney, *Lipschitz recurrent neural
networks*, ICLR 2021, equations 3, 4 and 7 there:

.. math::
    x_t &= x_{t-1} + \epsilon \, [A x_{t-1} + \tanh(W x_{t-1} + R u_t + b)] \\
    A &= (1 - \beta)(M_A + M_A^\top) + \beta (M_A - M_A^\top) - \gamma I \\
    W &= (1 - \beta)(M_W + M_W^\top) + \beta (M_W - M_W^\top) - \gamma I

============ =========== ====== =====================================================
symbol       name        shape  meaning
============ =========== ====== =====================================================
u_t          ``u``       (p,)   input
x_t          ``x``       (d,)   state, read out
M_A, M_W     ``M_A M_W`` (d, d) free parameters, 2 d^2 numbers as Table 3.3 counts
A, W         ``A W``     (d, d) symmetric and skew parts weighted by beta
R            ``R``       (d, p) input weights
b            ``b``       (d,)   bias
epsilon      ``epsilon`` scalar step size
beta         ``beta``    scalar in [1/2, 1], 1 is skew
gamma        ``gamma``   scalar diffusion
============ =========== ====== =====================================================

The dissertation names no hyper-parameters: epsilon 0.03, beta 0.75 and gamma 0.001 are the original
authors' for pixel-by-pixel MNIST. As weights start, ``text`` draws M_A and M_W from N(0, (0.1 / d)^2) and R from N(0, 1/p).
``author``, the dissertation's public program, draws M_A and M_W from N(0, (0.1 / 128)^2) at every width and R by Glorot;
``original`` (github.com/erichson/LipschitzRNN) R and b from U(-1/sqrt(p), 1/sqrt(p)), PyTorch's for a linear layer.
"""

import math
from collections import namedtuple

import torch
from torch import Tensor, nn

from lib.cells._cell import Cell, State
from lib.cells._init import named_starts, uniform_fan
from lib.cells._keywords import Number

Weights = namedtuple("Weights", "A W R b epsilon")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (x,) of (batch, d), `u` is (batch, p)."""
    A, W, R, b, epsilon = weights
    (x,) = state
    return (x + epsilon * (x @ A.T + torch.tanh(x @ W.T + u @ R.T + b)),)


def symmetric_skew(M: Tensor, beta: float, gamma: float) -> Tensor:
    """Return (1 - beta)(M + M') + beta (M - M') - gamma I for a (d, d) matrix M."""
    identity = torch.eye(len(M), dtype=M.dtype, device=M.device)
    return (1 - beta) * (M + M.T) + beta * (M - M.T) - gamma * identity


def start_text(cell: Cell) -> None:
    for M in (cell.M_A, cell.M_W):
        M.normal_().mul_(0.1).div_(cell.hidden_size)
    cell.R.normal_().div_(math.sqrt(cell.input_size))
    nn.init.zeros_(cell.b)


def start_author(cell: Cell) -> None:
    for M in (cell.M_A, cell.M_W):
        nn.init.normal_(M, std=0.1 / 128)
    nn.init.xavier_uniform_(cell.R)
    nn.init.zeros_(cell.b)


def start_original(cell: Cell) -> None:
    for M in (cell.M_A, cell.M_W):
        nn.init.normal_(M, std=0.1 / cell.hidden_size)
    uniform_fan(cell.R, cell.b, fan=cell.input_size)


class LipschitzRNN(Cell, name="lipschitz"):
    """The Lipschitz RNN discretised by forward Euler."""

    title = "Lipschitz RNN"
    source = "Erichson et al. 2021, (3), (4), (7)"
    Weights, step = Weights, step
    hyper_parameters = {
        "epsilon": Number(0.03, "(0, 1]"),
        "beta": Number(0.75, "[0.5, 1]"),
        "gamma": Number(0.001, "[0, inf)"),
    }
    shapes = {"M_A": "d d", "M_W": "d d", "R": "d p", "b": "d"}
    starts = named_starts(text=start_text, author=start_author, original=start_original)

    @property
    def A(self) -> Tensor:
        return symmetric_skew(self.M_A, self.beta, self.gamma)

    @property
    def W(self) -> Tensor:
        return symmetric_skew(self.M_W, self.beta, self.gamma)
