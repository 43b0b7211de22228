r"""The linear recurrent network: the basic RNN with the identity as its activation.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, definition 2.3:

.. math:: x_t = W x_{t-1} + R u_t + b_1 \tag{2.16}

The paper gives no initial weights.
"""

import torch
from torch import Tensor

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import PADDING
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class LinearRNNCore(Cell, name="linear_rnn"):
    """The linear RNN of definition 2.3."""

    title = "linear RNN"
    source = "Johnston 2024, (2.16)"
    shapes = {
        "W": "d d",  # recurrent weights
        "R": "d p",  # input weights
        "b": "d",  # bias b_1
    }
    Weights = "W R b"

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step, equation (2.16).

        Parameters
        ----------
        weights : tuple
            ``W`` (d, d), ``R`` (d, p) and ``b`` (d,).
        state : tuple of (batch, d)
            ``(x,)``, the memory state x_{t-1}, which is also the output.
        u : (batch, p)
            The input u_t.

        Returns
        -------
        tuple of (batch, d)
            ``(x,)``, the memory state x_t.
        """
        W, R, b = weights
        (x,) = state
        return (x @ W.T + u @ R.T + b,)  # (2.16)

    starts = {"padding": PADDING}


class LinearRNN(Recurrent, core=LinearRNNCore):
    """The linear RNN (Johnston 2024, definition 2.3).

    ::

        x_t = W x_{t-1} + R u_t + b

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
    see `Recurrent.forward`. The state is the tensor x, (num_layers * num_directions, batch,
    hidden_size).

    The layer runs step by step in Python, as it has no compiled engine. `torch.compile` unrolls
    this loop, and compiles again for every length of the sequences.

    Weights of the first layer, in ``layer.cells.l0``: ``W`` (d, d), ``R`` (d, p), ``b`` (d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import LinearRNN
    >>> rnn = LinearRNN(10, 20, num_layers=2)
    >>> output, x_n = rnn(torch.randn(5, 3, 10))
    >>> output.shape, x_n.shape
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


LinearRNNCell = one_step(LinearRNN)
