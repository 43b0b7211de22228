r"""The gated recurrent unit.

K. Cho et al., *Learning phrase representations using RNN encoder-decoder*, 2014. The reset gate acts
after the recurrent product (the variant of v1 of that text and of cuDNN), with one bias per gate, as
Table 3.3 of the dissertation counts:

.. math::
    r_t, z_t &= \sigma(W_{r,z} h_{t-1} + R_{r,z} u_t + b_{r,z}) \\
    n_t &= \tanh(r_t \odot W_n h_{t-1} + R_n u_t + b_n) \\
    h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}

The start ``author`` is that of Keras, in which the dissertation's public program is written: W orthogonal as one matrix, R Glorot
uniform, zero biases. PyTorch's own layer has a second bias of n, which the reset gate multiplies and these equations lack.
"""

import torch
from torch import Tensor

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import keras_start


class GRU(Cell, name="gru"):
    """The GRU with one bias vector per gate."""

    title = "GRU"
    source = "Cho et al. 2014, (5)-(8)"
    shapes = {
        "W": "3d d",  # recurrent weights, gates in the order r z n
        "R": "3d p",  # input weights, same order
        "b": "3d",  # biases, same order
    }
    Weights = "W R b"

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (h,)."""
        W, R, b = weights
        (h,) = state
        from_state_r, from_state_z, from_state_n = (h @ W.T).chunk(3, dim=-1)
        from_input_r, from_input_z, from_input_n = (u @ R.T + b).chunk(3, dim=-1)
        r = torch.sigmoid(from_state_r + from_input_r)
        z = torch.sigmoid(from_state_z + from_input_z)
        n = torch.tanh(r * from_state_n + from_input_n)
        return ((1 - z) * n + z * h,)

    start_author = keras_start
