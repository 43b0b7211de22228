r"""The long short-term memory with a forget gate.

S. Hochreiter, J. Schmidhuber, *Long short-term memory*, Neural Computation 1997, and F. Gers,
J. Schmidhuber, F. Cummins, *Learning to forget*, 2000 (forget gate). One bias per gate, as Table 3.3
of the dissertation counts:

.. math::
    i_t, f_t, o_t &= \sigma(W_{i,f,o} h_{t-1} + R_{i,f,o} u_t + b_{i,f,o}) \\
    g_t &= \tanh(W_g h_{t-1} + R_g u_t + b_g) \\
    c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
    h_t &= o_t \odot \tanh(c_t)

The start ``author`` is that of Keras, in which the dissertation's public program is written: W orthogonal as one matrix, R Glorot
uniform, zero biases, but one for the forget gate. Programs that take PyTorch's own layer have two bias vectors per gate; no row starts so.
"""

import torch
from torch import Tensor

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import ADDING, PADDING, keras_start


class LSTM(Cell, name="lstm"):
    """The LSTM with one bias vector per gate."""

    title = "LSTM"
    source = "Hochreiter and Schmidhuber 1997; Gers et al. 2000"
    shapes = {
        "W": "4d d",  # recurrent weights, gates in the order i f g o
        "R": "4d p",  # input weights, same order
        "b": "4d",  # biases, same order
    }
    Weights = "W R b"
    states = 2

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (h, c), the hidden state, which is read out, and the cell state."""
        W, R, b = weights
        h, c = state
        i, f, g, o = (h @ W.T + u @ R.T + b).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c

    start_author = keras_start
    starts = {"padding": PADDING, **ADDING}
