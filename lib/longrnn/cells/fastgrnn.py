r"""FastGRNN: one gate that shares its matrices with the candidate.

A. Kusupati, M. Singh, K. Bhatia, A. Kumar, P. Jain, M. Varma, *FastGRNN: a fast, accurate, stable
and tiny kilobyte sized gated recurrent neural network*, NeurIPS 2018, section 3.2:

.. math::
    z_t &= \sigma(W x_t + U h_{t-1} + b_z) \\
    \tilde h_t &= \tanh(W x_t + U h_{t-1} + b_h) \\
    h_t &= (\zeta (1 - z_t) + \nu) \odot \tilde h_t + z_t \odot h_{t-1}

The papers that this repository reproduces don't give the constants. The free parameters of zeta and
nu pass through the logistic function and start at 1 and -4, the defaults of the authors' program
(github.com/microsoft/EdgeML). The biases start at one, as they do there, and the matrices as in
PyTorch's recurrent layers. In that program (``author``) the matrices start at N(0, 0.01).

The original compresses the cell by low rank, sparsity, quantization and piecewise linear
activations. None of these is included; the "FastGRNN-LSQ" of iRNN's paper has none of them either.
"""

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class FastGRNNCore(Cell, name="fastgrnn"):
    """FastGRNN with full matrices."""

    title = "FastGRNN"
    source = "Kusupati et al. 2018, section 3.2"
    shapes = {
        "U": "d d",  # recurrent weights
        "W": "d p",  # input weights
        "b_z": "d",  # bias of the gate
        "b_h": "d",  # bias of the candidate
        "zeta_free": "",
        "nu_free": "",
    }
    Weights = "U W b_z b_h zeta nu"
    biases = ("b_z", "b_h")

    @property
    def zeta(self) -> Tensor:
        """Weight of the candidate if the gate is closed (z = 0), in addition to nu."""
        return torch.sigmoid(self.zeta_free)

    @property
    def nu(self) -> Tensor:
        """Weight of the candidate at any value of the gate."""
        return torch.sigmoid(self.nu_free)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step (section 3.2).

        Parameters
        ----------
        weights : tuple
            ``U`` (d, d), ``W`` (d, p), ``b_z`` and ``b_h`` (d,), and the scalar tensors ``zeta``
            and ``nu`` in (0, 1).
        state : tuple of (batch, d)
            ``(h,)``, the state h_{t-1}, which is also the output.
        u : (batch, p)
            The input x_t.

        Returns
        -------
        tuple of (batch, d)
            ``(h,)``, the state h_t.
        """
        U, W, b_z, b_h, zeta, nu = weights
        (h,) = state
        a = u @ W.T + h @ U.T
        z = torch.sigmoid(a + b_z)
        candidate = torch.tanh(a + b_h)
        return ((zeta * (1 - z) + nu) * candidate + z * h,)

    def start_paper(self) -> None:
        uniform_fan(self.U, self.W, fan=self.hidden_size)
        for b in (self.b_z, self.b_h):
            nn.init.ones_(b)
        nn.init.constant_(self.zeta_free, 1)
        nn.init.constant_(self.nu_free, -4)

    def start_author(self) -> None:
        self.start_paper()
        for matrix in (self.U, self.W):
            nn.init.normal_(matrix, std=0.1)


class FastGRNN(Recurrent, core=FastGRNNCore):
    """FastGRNN with full matrices (Kusupati et al. 2018, section 3.2).

    ::

        z_t = sigmoid(W x_t + U h_{t-1} + b_z)
        h_t = (zeta (1 - z_t) + nu) * tanh(W x_t + U h_{t-1} + b_h) + z_t * h_{t-1}

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

    Weights of the first layer, in ``layer.cells.l0``: ``U`` (d, d), ``W`` (d, p), ``b_z`` and
    ``b_h`` (d,), ``zeta_free`` and ``nu_free`` (). FSDP refuses the last two, which are scalars;
    see the notes of `Recurrent`.

    Examples
    --------
    >>> import torch
    >>> from longrnn import FastGRNN
    >>> fastgrnn = FastGRNN(10, 20, num_layers=2)
    >>> output, h_n = fastgrnn(torch.randn(5, 3, 10))
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


FastGRNNCell = one_step(FastGRNN)
