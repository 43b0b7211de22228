r"""IndRNN: independently recurrent neurons, stacked.

S. Li, W. Li, C. Cook, C. Zhu, Y. Gao, *Independently recurrent neural network (IndRNN): building a
longer and deeper RNN*, CVPR 2018, section 3, for layers l = 1..L with h^0_t = x_t:

.. math:: h^l_t = \phi(W^l h^{l-1}_t + w^l \odot h^l_{t-1} + b^l)

Initial weights: w from U(0, 1), decaying memories of every length; W and b as in PyTorch's
recurrent layers. Two additions of the original are left out, since no experiment here needs them:
batch normalization between layers, and clipping \|w\| to about 2^(1/T) after each update.
"""

from collections import namedtuple
from typing import ClassVar

import torch
from torch import Tensor, nn

from longrnn.cells._activation import ACTIVATIONS, activation_choice
from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._keywords import Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent

Layer = namedtuple("Layer", "W w b")


class IndRNNCore(Cell, name="indrnn"):
    """Stacked IndRNN layers."""

    title = "IndRNN"
    source = "Li et al. 2018, section 3"
    shapes = {
        "W": "each: d q",  # input weights
        "w": "each: d",  # recurrent weights, one per neuron (u in the paper)
        "b": "each: d",  # bias
    }
    hyper_parameters = {
        "layers": Number(1, "[1, 100]", whole=True),
        "phi": activation_choice("relu"),
    }
    Weights = "layers phi"

    def prepare(self) -> None:
        self.phi = ACTIVATIONS[self.phi]
        self.states = self.layers
        self.readout = self.layers - 1

    def weights(self) -> tuple:
        """Return the first argument of `step`.

        Returns
        -------
        Weights
            ``layers``, a tuple with one `Layer` (W, w, b) per layer, and the activation ``phi``.
        """
        layers = tuple(map(Layer, self.W, self.w, self.b))
        return self.Weights(layers, self.phi)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step of all layers (section 3).

        Parameters
        ----------
        weights : tuple
            ``layers``: for each layer ``W`` (d, p) or, above the first, (d, d), ``w`` (d,) and
            ``b`` (d,); and the activation ``phi``.
        state : tuple of (batch, d)
            (h^1, .., h^L) at t - 1; the last one is the output.
        u : (batch, p)
            The input x_t.

        Returns
        -------
        tuple of (batch, d)
            (h^1, .., h^L) at t.
        """
        layers, phi = weights
        states = []
        below = u
        for (W, w, b), h in zip(layers, state, strict=True):
            below = phi(below @ W.T + w * h + b)
            states.append(below)
        return tuple(states)

    def start_paper(self) -> None:
        for w in self.w:
            nn.init.uniform_(w)
        uniform_fan(*self.W, *self.b, fan=self.hidden_size)


class IndRNN(Recurrent, core=IndRNNCore):
    """IndRNN: independently recurrent neurons (Li et al. 2018, section 3).

    ::

        h_t = phi(W x_t + w * h_{t-1} + b)

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    phi
        ``relu``, ``tanh`` or ``sigmoid``.
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

    Weights of the first layer, in ``layer.cells.l0``: ``W.0`` (d, p), ``w.0`` and ``b.0`` (d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import IndRNN
    >>> indrnn = IndRNN(10, 20, num_layers=2)
    >>> output, h_n = indrnn(torch.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    fixed: ClassVar = {"layers": 1}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        phi: str = "relu",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "phi": phi,
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


IndRNNCell = one_step(IndRNN)
