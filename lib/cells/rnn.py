r"""The basic recurrent network.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, definition 2.1:

.. math:: x_t = \tanh(W x_{t-1} + R u_t + b_1) \tag{2.1}

======= ====== ====== ==============================
symbol  name   shape  meaning
======= ====== ====== ==============================
u_t     ``u``  (p,)   input
x_t     ``x``  (d,)   memory state, read out
W       ``W``  (d, d) recurrent weights
R       ``R``  (d, p) input weights
b_1     ``b``  (d,)   bias
======= ====== ====== ==============================

The text leaves the activation open; the experiment's is tanh, and ReLU a choice that the reference alone runs. It gives no initialisation: PyTorch's is used
(``text``), or that of Keras, in which the author's public program is written (``author``: W orthogonal, R Glorot uniform,
b zero).
"""

from collections import namedtuple

import torch
from torch import Tensor

from lib.cells._activation import RECTIFIED, Activation
from lib.cells._cell import Cell, State
from lib.cells._init import ADDING, PADDING, keras_start, named_starts, uniform_start
from lib.cells._keywords import Choice

Weights = namedtuple("Weights", "W R b")


def step(weights: Weights, state: State, u: Tensor, phi: Activation = torch.tanh) -> State:
    """One step; `state` is (x,) of (batch, d), `u` is (batch, p)."""
    W, R, b = weights
    (x,) = state
    return (phi(x @ W.T + u @ R.T + b),)  # (2.1)


def relu_step(weights: Weights, state: State, u: Tensor) -> State:
    """As `step`, with ReLU in the place of tanh."""
    return step(weights, state, u, torch.relu)


class RNN(Cell, name="rnn"):
    """The basic RNN of definition 2.1; `activation` is tanh or relu."""

    title = "basic RNN"
    source = "Johnston 2024, (2.1)"
    Weights, step = Weights, step
    hyper_parameters = {"activation": Choice(("tanh", "relu"))}
    shapes = {"W": "d d", "R": "d p", "b": "d"}
    starts = named_starts(
        text=uniform_start("W", "R", "b"), author=keras_start, padding=PADDING, **ADDING
    )

    def prepare(self) -> None:
        if self.activation == "relu":
            self.step, self.engine_options = relu_step, RECTIFIED
