r"""The long short-term memory with a forget gate.

S. Hochreiter, J. Schmidhuber, *Long short-term memory*, Neural Computation 1997, and F. Gers, J.
Schmidhuber, F. Cummins, *Learning to forget*, 2000 (forget gate). One bias per gate, as Table 3.3
of the dissertation counts:

.. math::
    i_t, f_t, o_t &= \sigma(W_{i,f,o} h_{t-1} + R_{i,f,o} u_t + b_{i,f,o}) \\
    g_t &= \tanh(W_g h_{t-1} + R_g u_t + b_g) \\
    c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
    h_t &= o_t \odot \tanh(c_t)

The start ``author`` is that of Keras, in which the dissertation's public program is written: W
orthogonal as one matrix, R Glorot uniform, biases zero except one for the forget gate.

`torch.nn.LSTM` has two bias vectors per gate, and adds them. Here b is their sum. Both of PyTorch's
are drawn like b, so its sum has twice the variance at the start, and an optimizer such as Adam
moves it twice as far.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._from_torch import CopiesTorch
from longrnn.cells._init import ADDING, PADDING, keras_start
from longrnn.cells._one_step import one_step


class LSTMCore(Cell, name="lstm"):
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
        """Take one step.

        Parameters
        ----------
        weights : tuple
            ``W`` (4d, d), ``R`` (4d, p) and ``b`` (4d,), with the gates in the order i f g o.
        state : tuple of (batch, d)
            ``(h, c)`` at t - 1: the hidden state, which is the output, and the cell state.
        u : (batch, p)
            The input u_t.

        Returns
        -------
        tuple of (batch, d)
            ``(h, c)`` at t.
        """
        W, R, b = weights
        h, c = state
        i, f, g, o = (h @ W.T + u @ R.T + b).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c

    start_author = keras_start
    starts = {"padding": PADDING, **ADDING}


class LSTM(CopiesTorch, core=LSTMCore):
    """The LSTM with one bias vector per gate (Hochreiter and Schmidhuber 1997; Gers et al. 2000).

    ::

        i_t, f_t, o_t = sigmoid(W h_{t-1} + R u_t + b)       (a block of W, R and b each)
        g_t = tanh(W_g h_{t-1} + R_g u_t + b_g)
        c_t = f_t * c_{t-1} + i_t * g_t
        h_t = o_t * tanh(c_t)

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
    proj_size
        Must be 0: unlike `torch.nn.LSTM`, this layer has no projections.
    device, dtype
        Device and dtype of the weights.

    Notes
    -----
    ``output, state = layer(input, state)`` takes and returns sequences as `torch.nn.LSTM` does;
    see `Recurrent.forward`. The state is the tuple (h, c): the hidden state, which is the output,
    and the cell state. Its tensors are (num_layers * num_directions, batch, hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``W`` (4d, d), ``R`` (4d, p), ``b`` (4d,),
    gates in the order i f g o.

    Examples
    --------
    >>> import torch
    >>> from longrnn import LSTM
    >>> lstm = LSTM(10, 20, num_layers=2)
    >>> output, (h_n, c_n) = lstm(torch.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    torch_class = nn.LSTM
    torch_names: ClassVar = {"proj_size": "proj_size"}

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
        proj_size: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if proj_size != 0:
            raise ValueError(
                f"LSTM: expected proj_size=0, because projections are not implemented, "
                f"got {proj_size!r}; put nn.Linear({hidden_size}, {proj_size}) after the layer "
                "or use torch.nn.LSTM"
            )
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


LSTMCell = one_step(LSTM)
