r"""The basic recurrent network.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, definition 2.1:

.. math:: x_t = \tanh(W x_{t-1} + R u_t + b_1) \tag{2.1}

The text leaves the activation open; the experiment's is tanh, and ReLU a choice that the reference alone runs. It gives no
initialisation: ``author`` is that of Keras, in which the author's public program is written (W orthogonal, R Glorot uniform, b zero).
"""

import torch
from torch import Tensor

from longrnn.cells._activation import TANH_OR_RELU, Activation, rectify
from longrnn.cells._cell import Cell, State
from longrnn.cells._init import ADDING, PADDING, keras_start


class RNN(Cell, name="rnn"):
    """The basic RNN of definition 2.1."""

    title = "basic RNN"
    source = "Johnston 2024, (2.1)"
    shapes = {
        "W": "d d",  # recurrent weights
        "R": "d p",  # input weights
        "b": "d",  # bias b_1
    }
    hyper_parameters = {"activation": TANH_OR_RELU}
    Weights = "W R b"
    prepare = rectify

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor, phi: Activation = torch.tanh) -> State:
        """One step; `state` is (x,)."""
        W, R, b = weights
        (x,) = state
        return (phi(x @ W.T + u @ R.T + b),)  # (2.1)

    start_author = keras_start
    starts = {"padding": PADDING, **ADDING}
