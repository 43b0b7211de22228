r"""FastRNN: a weighted residual connection around the basic RNN.

A. Kusupati, M. Singh, K. Bhatia, A. Kumar, P. Jain, M. Varma, *FastGRNN: a fast, accurate, stable and tiny kilobyte sized
gated recurrent neural network*, NeurIPS 2018, section 3.1 there:

.. math::
    \tilde h_t &= \phi(W x_t + U h_{t-1} + b) \\
    h_t &= \alpha \tilde h_t + \beta h_{t-1}

None of the five texts gives the constants. The free parameters of alpha and beta pass through the logistic function; they start at
-3 and 3, so that beta = 1 - alpha and alpha is small, as the text advises. In the authors' program (github.com/microsoft/EdgeML,
``author``) the matrices start at N(0, 0.01) and the bias at 1.
"""

import math

import torch
from torch import Tensor, nn

from longrnn.cells._activation import ACTIVATIONS, phi
from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._keywords import Number


class FastRNN(Cell, name="fastrnn"):
    """FastRNN, two scalars more than the basic RNN."""

    title = "FastRNN"
    source = "Kusupati et al. 2018, section 3.1"
    shapes = {
        "U": "d d",  # recurrent weights
        "W": "d p",  # input weights
        "b": "d",  # bias
        "alpha_free": "",
        "beta_free": "",
    }
    hyper_parameters = {
        "phi": phi("tanh"),
        # alpha at the start, where beta is 1 - eta: iRNN's text names its FastRNNs by it
        "eta": Number(None, "(0, 1)"),
    }
    Weights = "U W b alpha beta phi"

    def prepare(self) -> None:
        self.balance = 3.0 if self.eta is None else math.log((1 - self.eta) / self.eta)
        self.phi = ACTIVATIONS[self.phi]

    @property
    def alpha(self) -> Tensor:
        return torch.sigmoid(self.alpha_free)

    @property
    def beta(self) -> Tensor:
        return torch.sigmoid(self.beta_free)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (h,)."""
        U, W, b, alpha, beta, phi = weights
        (h,) = state
        candidate = phi(u @ W.T + h @ U.T + b)
        return (alpha * candidate + beta * h,)

    def start_text(self) -> None:
        uniform_fan(self.U, self.W, self.b, fan=self.hidden_size)
        nn.init.constant_(self.alpha_free, -self.balance)
        nn.init.constant_(self.beta_free, self.balance)

    def start_author(self) -> None:
        self.start_text()
        for matrix in (self.U, self.W):
            nn.init.normal_(matrix, std=0.1)
        nn.init.ones_(self.b)
