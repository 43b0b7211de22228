r"""The inverse RNN: the LU RNN without the factors.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.9, after definition 2.4:

.. math:: x_t = \tanh(W_t x_{t-1} + R u_t + b_1) \tag{2.28}

with W_t = W for tau steps, then its inverse for as many, and so on (see `lib.cells._interchange` for the reading).

======= ======= ====== =================================================
symbol  name    shape  meaning
======= ======= ====== =================================================
u_t     ``u``   (p,)   input
x_t     ``x``   (d,)   memory state, read out
t       ``t``   (d,)   steps done, the second part of the state
W       ``W``   (d, d) recurrent weights, invertible
R       ``R``   (d, p) input weights
b_1     ``b``   (d,)   bias
tau     ``tau`` scalar steps between interchanges
======= ======= ====== =================================================

The text says it is parametrised directly "with the inverse": which of the two is stored only decides which comes
first, here the one stored. The inverse is computed once per sequence; a singular W is refused. The text gives no
initialisation: W starts orthogonal, its inverse then being its transpose; R and b as in PyTorch's recurrent layers.
"""

from collections import namedtuple

import torch
from torch import Tensor, nn

from lib.cells._activation import RECTIFIED, Activation
from lib.cells._cell import Cell, State
from lib.cells._init import ADDING, named_starts, uniform_fan
from lib.cells._interchange import alternate
from lib.cells._keywords import Choice, Number


class SingularMatrixError(ArithmeticError, ValueError):
    """W has no inverse."""


Weights = namedtuple("Weights", "W inverse R b tau")


def step(weights: Weights, state: State, u: Tensor, phi: Activation = torch.tanh) -> State:
    """One step; `state` is (x, t), each (batch, d), `u` is (batch, p)."""
    W, inverse, R, b, tau = weights
    x, t = state
    product = alternate(t, tau, x @ W.T, x @ inverse.T)
    return phi(product + u @ R.T + b), t + 1  # (2.28)


def relu_step(weights: Weights, state: State, u: Tensor) -> State:
    """As `step`, with ReLU in the place of tanh."""
    return step(weights, state, u, torch.relu)


def start_text(cell: Cell) -> None:
    nn.init.orthogonal_(cell.W)
    uniform_fan(cell.R, cell.b, fan=cell.hidden_size)


class InverseRNN(Cell, name="inverse_rnn"):
    """The inverse RNN of section 2.9; `activation` is tanh or relu."""

    title = "inverse RNN"
    source = "Johnston 2024, section 2.9"
    Weights, step = Weights, step
    hyper_parameters = {
        "tau": Number(10, "[1, inf)", whole=True),
        "activation": Choice(("tanh", "relu")),
    }
    shapes = {"W": "d d", "R": "d p", "b": "d"}
    starts = named_starts(text=start_text, **ADDING)
    states = 2

    def prepare(self) -> None:
        if self.activation == "relu":
            self.step, self.engine_options = relu_step, RECTIFIED

    def weights(self) -> Weights:
        """Return the weights and the inverse; raises `SingularMatrixError` where W has none.

        Networks that are mapped side by side cannot be looked at: a singular one's states are not finite.
        """
        inverse, failure = torch.linalg.inv_ex(self.W)
        try:
            singular = bool(failure)
        except RuntimeError:
            singular = False
        if singular:
            raise SingularMatrixError(
                "inverse_rnn: expected an invertible W, got a singular one; lower the learning rate, or use lu_rnn, "
                "whose pivots stay away from zero"
            )
        return Weights(self.W, inverse, self.R, self.b, self.tau)
