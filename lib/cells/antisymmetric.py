r"""The antisymmetric RNN.

B. Chang, M. Chen, E. Haber, E. Chi, *AntisymmetricRNN: a dynamical system view on recurrent neural
networks*, ICLR 2019, equation 9 there:

.. math:: x_t = x_{t-1} + \epsilon \tanh((M - M^\top - \gamma I) x_{t-1} + R u_t + b)

============ =========== ====== ===================================================
symbol       name        shape  meaning
============ =========== ====== ===================================================
u_t          ``u``       (p,)   input
x_t          ``x``       (d,)   state, read out
M            ``M``       (d, d) free parameter, d^2 numbers as Table 3.3 counts
M - M' - gI  ``W``       (d, d) antisymmetric up to the diffusion
R            ``R``       (d, p) input weights
b            ``b``       (d,)   bias
epsilon      ``epsilon`` scalar step size of the forward Euler method
gamma        ``gamma``   scalar diffusion, makes the Euler step stable
============ =========== ====== ===================================================

The dissertation names no step size and diffusion: both are 0.01, from the grid of the original paper. As weights start,
``text`` draws M from N(0, 1/d) and R from N(0, 1/p); ``author``, the dissertation's public program, gives M the standard
deviation 0.01/d and R 1/p.
"""

import math
from collections import namedtuple

import torch
from torch import Tensor, nn

from lib.cells._cell import Cell, State
from lib.cells._init import named_starts
from lib.cells._keywords import Number

Weights = namedtuple("Weights", "W R b epsilon")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (x,) of (batch, d), `u` is (batch, p)."""
    W, R, b, epsilon = weights
    (x,) = state
    return (x + epsilon * torch.tanh(x @ W.T + u @ R.T + b),)


def start_text(cell: Cell) -> None:
    cell.M.normal_().div_(math.sqrt(cell.hidden_size))
    cell.R.normal_().div_(math.sqrt(cell.input_size))
    nn.init.zeros_(cell.b)


def start_author(cell: Cell) -> None:
    nn.init.normal_(cell.M, std=0.01 / cell.hidden_size)
    nn.init.normal_(cell.R, std=1 / cell.input_size)
    nn.init.zeros_(cell.b)


class AntisymmetricRNN(Cell, name="antisymmetric"):
    """The antisymmetric RNN, without gates."""

    title = "antisymmetric RNN"
    source = "Chang et al. 2019, (9)"
    Weights, step = Weights, step
    hyper_parameters = {"epsilon": Number(0.01, "(0, 1]"), "gamma": Number(0.01, "[0, inf)")}
    shapes = {"M": "d d", "R": "d p", "b": "d"}
    starts = named_starts(text=start_text, author=start_author)

    @property
    def W(self) -> Tensor:
        identity = torch.eye(self.hidden_size, dtype=self.M.dtype, device=self.M.device)
        return self.M - self.M.T - self.gamma * identity
