r"""The linear recurrent network: the basic one with the identity for its activation.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, definition 2.3:

.. math:: x_t = W x_{t-1} + R u_t + b_1 \tag{2.16}

======= ====== ====== ==============================
symbol  name   shape  meaning
======= ====== ====== ==============================
u_t     ``u``  (p,)   input
x_t     ``x``  (d,)   memory state, read out
W       ``W``  (d, d) recurrent weights
R       ``R``  (d, p) input weights
b_1     ``b``  (d,)   bias
======= ====== ====== ==============================

The text gives no initialisation: PyTorch's for recurrent layers is used.
"""

from collections import namedtuple

from torch import Tensor

from lib.cells._cell import Cell, State
from lib.cells._init import PADDING, named_starts, uniform_start

Weights = namedtuple("Weights", "W R b")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (x,) of (batch, d), `u` is (batch, p)."""
    W, R, b = weights
    (x,) = state
    return (x @ W.T + u @ R.T + b,)  # (2.16)


class LinearRNN(Cell, name="linear_rnn"):
    """The linear RNN of definition 2.3."""

    title = "linear RNN"
    source = "Johnston 2024, (2.16)"
    Weights, step = Weights, step
    shapes = {"W": "d d", "R": "d p", "b": "d"}
    starts = named_starts(text=uniform_start("W", "R", "b"), padding=PADDING)
