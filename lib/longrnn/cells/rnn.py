r"""The basic recurrent network.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, definition 2.1:

.. math:: x_t = \tanh(W x_{t-1} + R u_t + b_1) \tag{2.1}

The paper leaves the activation open; its experiments use tanh. ReLU is a choice here, which only
the reference runs. The paper gives no initial weights. ``author`` are those of Keras, in which the
author's public program is written: W orthogonal, R Glorot uniform, b zero.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from longrnn.cells._activation import TANH_OR_RELU, Activation, use_activation
from longrnn.cells._cell import Cell, State
from longrnn.cells._from_torch import CopiesTorch
from longrnn.cells._init import ADDING, PADDING, keras_start
from longrnn.cells._one_step import one_step


class RNNCore(Cell, name="rnn"):
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
    prepare = use_activation

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor, phi: Activation = torch.tanh) -> State:
        """Take one step, equation (2.1).

        Parameters
        ----------
        weights : tuple
            ``W`` (d, d), ``R`` (d, p) and ``b`` (d,).
        state : tuple of (batch, d)
            ``(x,)``, the state x_{t-1}, which is also the output.
        u : (batch, p)
            The input u_t.
        phi : callable
            The activation.

        Returns
        -------
        tuple of (batch, d)
            ``(x,)``, the state x_t.
        """
        W, R, b = weights
        (x,) = state
        return (phi(x @ W.T + u @ R.T + b),)  # (2.1)

    start_author = keras_start
    starts = {"padding": PADDING, **ADDING}


class RNN(CopiesTorch, core=RNNCore):
    """The basic RNN (Johnston 2024, definition 2.1).

    ::

        x_t = tanh(W x_{t-1} + R u_t + b)

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    activation
        ``tanh`` or ``relu``; ReLU runs the reference only.
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

    Weights of the first layer, in ``layer.cells.l0``: ``W`` (d, d), ``R`` (d, p), ``b`` (d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import RNN
    >>> rnn = RNN(10, 20, num_layers=2)
    >>> output, x_n = rnn(torch.randn(5, 3, 10))
    >>> output.shape, x_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    torch_class = nn.RNN
    torch_names: ClassVar = {"activation": "nonlinearity"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        activation: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "activation": activation,
        }
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            hyper_parameters,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )


RNNCell = one_step(RNN)
