r"""FastRNN: a weighted residual connection around the basic RNN.

A. Kusupati, M. Singh, K. Bhatia, A. Kumar, P. Jain, M. Varma, *FastGRNN: a fast, accurate, stable
and tiny kilobyte sized gated recurrent neural network*, NeurIPS 2018, section 3.1:

.. math::
    \tilde h_t &= \phi(W x_t + U h_{t-1} + b) \\
    h_t &= \alpha \tilde h_t + \beta h_{t-1}

The papers that this repository reproduces don't give the constants. The free parameters of alpha
and beta pass through the logistic function. They start at -3 and 3, so that beta = 1 - alpha and
alpha is small, as the paper advises. In the authors' program (github.com/microsoft/EdgeML,
``author``) the matrices start at N(0, 0.01) and the bias at 1.
"""

import math

import torch
from torch import Tensor, nn

from longrnn.cells._activation import ACTIVATIONS, activation_choice
from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._keywords import Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class FastRNNCore(Cell, name="fastrnn"):
    """FastRNN: two scalars more than the basic RNN."""

    title = "FastRNN"
    source = "Kusupati et al. 2018, section 3.1"
    shapes = {
        "U": "d d",  # recurrent weights
        "W": "d p",  # input weights
        "b": "d",  # bias
        "alpha_free": "",
        "beta_free": "",
    }
    hyper_parameters = {
        "phi": activation_choice("tanh"),
        # alpha at the start, where beta is 1 - eta; iRNN's paper names its FastRNNs by it
        "eta": Number(None, "(0, 1)"),
    }
    Weights = "U W b alpha beta phi"

    def prepare(self) -> None:
        self.balance = 3.0
        if self.eta is not None:
            self.balance = math.log((1 - self.eta) / self.eta)
        self.phi = ACTIVATIONS[self.phi]

    @property
    def alpha(self) -> Tensor:
        """Weight of the candidate."""
        return torch.sigmoid(self.alpha_free)

    @property
    def beta(self) -> Tensor:
        """Weight of the previous state."""
        return torch.sigmoid(self.beta_free)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step (section 3.1).

        Parameters
        ----------
        weights : tuple
            ``U`` (d, d), ``W`` (d, p), ``b`` (d,), the scalar tensors ``alpha`` and ``beta`` in (0,
            1), and the activation ``phi``.
        state : tuple of (batch, d)
            ``(h,)``, the state h_{t-1}, which is also the output.
        u : (batch, p)
            The input x_t.

        Returns
        -------
        tuple of (batch, d)
            ``(h,)``, the state h_t.
        """
        U, W, b, alpha, beta, phi = weights
        (h,) = state
        candidate = phi(u @ W.T + h @ U.T + b)
        return (alpha * candidate + beta * h,)

    def start_paper(self) -> None:
        uniform_fan(self.U, self.W, self.b, fan=self.hidden_size)
        nn.init.constant_(self.alpha_free, -self.balance)
        nn.init.constant_(self.beta_free, self.balance)

    def start_author(self) -> None:
        self.start_paper()
        for matrix in (self.U, self.W):
            nn.init.normal_(matrix, std=0.1)
        nn.init.ones_(self.b)


class FastRNN(Recurrent, core=FastRNNCore):
    """FastRNN (Kusupati et al. 2018, section 3.1).

    ::

        h_t = alpha phi(W x_t + U h_{t-1} + b) + beta h_{t-1}

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    phi
        ``tanh``, ``relu`` or ``sigmoid``.
    eta
        Initial alpha, where beta is 1 - eta; None is the authors' 0.047.
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

    Weights of the first layer, in ``layer.cells.l0``: ``U`` (d, d), ``W`` (d, p), ``b`` (d,),
    ``alpha_free`` and ``beta_free`` (). FSDP refuses the last two, which are scalars; see the notes
    of `Recurrent`.

    Examples
    --------
    >>> import torch
    >>> from longrnn import FastRNN
    >>> fastrnn = FastRNN(10, 20, num_layers=2)
    >>> output, h_n = fastrnn(torch.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        phi: str = "tanh",
        eta: float | None = None,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "phi": phi,
            "eta": eta,
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


FastRNNCell = one_step(FastRNN)
