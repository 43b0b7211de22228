r"""FastRNN: a weighted residual connection around the basic RNN.

A. Kusupati, M. Singh, K. Bhatia, A. Kumar, P. Jain, M. Varma, *FastGRNN: a fast, accurate, stable and tiny kilobyte sized
gated recurrent neural network*, NeurIPS 2018, section 3.1 there:

.. math::
    \tilde h_t &= \phi(W x_t + U h_{t-1} + b) \\
    h_t &= \alpha \tilde h_t + \beta h_{t-1}

============ ============== ====== ==========================================
symbol       name           shape  meaning
============ ============== ====== ==========================================
x_t          ``u``          (p,)   input
h_t          ``h``          (d,)   state, read out
U            ``U``          (d, d) recurrent weights
W            ``W``          (d, p) input weights
b            ``b``          (d,)   bias
alpha, beta  ``alpha beta`` scalar trained weights, in (0, 1)
phi          ``phi``        name   relu, tanh or sigmoid
============ ============== ====== ==========================================

None of the five texts gives the constants. The free parameters of alpha and beta pass through the logistic function; they start at -3 and 3, so that beta = 1 - alpha
and alpha is small, as the text advises. The other weights start as in PyTorch's recurrent layers; in the authors' program
(github.com/microsoft/EdgeML, ``author``) the matrices start at N(0, 0.01) and the bias at 1.
"""

import math
from collections import namedtuple

import torch
from torch import Tensor, nn

from lib.cells._activation import ACTIVATIONS, phi
from lib.cells._cell import Cell, State
from lib.cells._init import named_starts, uniform_fan
from lib.cells._keywords import Number

Weights = namedtuple("Weights", "U W b alpha beta phi")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (h,) of (batch, d), `u` is (batch, p)."""
    U, W, b, alpha, beta, phi = weights
    (h,) = state
    candidate = phi(u @ W.T + h @ U.T + b)
    return (alpha * candidate + beta * h,)


def start_text(cell: Cell) -> None:
    uniform_fan(cell.U, cell.W, cell.b, fan=cell.hidden_size)
    nn.init.constant_(cell.alpha_free, -cell.balance)
    nn.init.constant_(cell.beta_free, cell.balance)


def start_author(cell: Cell) -> None:
    start_text(cell)
    for matrix in (cell.U, cell.W):
        nn.init.normal_(matrix, std=0.1)
    nn.init.ones_(cell.b)


class FastRNN(Cell, name="fastrnn"):
    """FastRNN, two scalars more than the basic RNN.

    `eta` is alpha at the start, where beta is 1 - eta; None for what the module's head says. iRNN's text names its FastRNNs by it.
    """

    title = "FastRNN"
    source = "Kusupati et al. 2018, section 3.1"
    Weights, step = Weights, step
    hyper_parameters = {"phi": phi("tanh"), "eta": Number(None, "(0, 1)")}
    shapes = {"U": "d d", "W": "d p", "b": "d", "alpha_free": "", "beta_free": ""}
    starts = named_starts(text=start_text, author=start_author)

    def prepare(self) -> None:
        self.balance = 3.0 if self.eta is None else math.log((1 - self.eta) / self.eta)
        self.phi = ACTIVATIONS[self.phi]

    @property
    def alpha(self) -> Tensor:
        return torch.sigmoid(self.alpha_free)

    @property
    def beta(self) -> Tensor:
        return torch.sigmoid(self.beta_free)
