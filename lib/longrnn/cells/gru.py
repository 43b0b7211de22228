r"""The gated recurrent unit.

K. Cho et al., *Learning phrase representations using RNN encoder-decoder*, 2014. The reset gate
acts after the recurrent product, as in version 1 of that paper and in cuDNN. There is one bias per
gate, as Table 3.3 of the dissertation counts:

.. math::
    r_t, z_t &= \sigma(W_{r,z} h_{t-1} + R_{r,z} u_t + b_{r,z}) \\
    n_t &= \tanh(r_t \odot W_n h_{t-1} + R_n u_t + b_n) \\
    h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}

The start ``author`` is that of Keras, in which the dissertation's public program is written: W
orthogonal as one matrix, R Glorot uniform, biases zero. PyTorch's own layer has a second bias in n,
which the reset gate multiplies. These equations do not have it, so the weights of a `torch.nn.GRU`
cannot be copied.
"""

import torch
from torch import Tensor

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import keras_start
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class GRUCore(Cell, name="gru"):
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
        """Take one step.

        Parameters
        ----------
        weights : tuple
            ``W`` (3d, d), ``R`` (3d, p) and ``b`` (3d,), with the gates in the order r z n.
        state : tuple of (batch, d)
            ``(h,)``, the state h_{t-1}, which is also the output.
        u : (batch, p)
            The input u_t.

        Returns
        -------
        tuple of (batch, d)
            ``(h,)``, the state h_t.
        """
        W, R, b = weights
        (h,) = state
        from_state_r, from_state_z, from_state_n = (h @ W.T).chunk(3, dim=-1)
        from_u_r, from_u_z, from_u_n = (u @ R.T + b).chunk(3, dim=-1)
        r = torch.sigmoid(from_state_r + from_u_r)
        z = torch.sigmoid(from_state_z + from_u_z)
        n = torch.tanh(r * from_state_n + from_u_n)
        return ((1 - z) * n + z * h,)

    start_author = keras_start


class GRU(Recurrent, core=GRUCore):
    """The GRU with one bias vector per gate (Cho et al. 2014, (5)-(8)).

    ::

        r_t, z_t = sigmoid(W h_{t-1} + R u_t + b)            (a block of W, R and b each)
        n_t = tanh(r_t * (W_n h_{t-1}) + R_n u_t + b_n)
        h_t = (1 - z_t) * n_t + z_t * h_{t-1}

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    bias
        Whether the cells have biases.
    batch_first
        Whether inputs and outputs are (batch, time, features).
    dropout
        Dropout probability in training, for the outputs of all layers but the last.
    bidirectional
        Whether each layer also reads the sequences backward.
    device, dtype
        Device and dtype of the weights.

    Notes
    -----
    ``output, state = layer(input, state)`` takes and returns sequences as `torch.nn.LSTM` does;
    see `Recurrent.forward`. The state is the tensor h, (num_layers * num_directions, batch,
    hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``W`` (3d, d), ``R`` (3d, p), ``b`` (3d,),
    gates in the order r z n.

    Examples
    --------
    >>> import torch
    >>> from longrnn import GRU
    >>> gru = GRU(10, 20, num_layers=2)
    >>> output, h_n = gru(torch.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            {},
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )


GRUCell = one_step(GRU)
