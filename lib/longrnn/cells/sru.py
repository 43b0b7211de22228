r"""SRU: the simple recurrent unit, stacked; the papers' baseline for speed.

T. Lei, Y. Zhang, S. I. Wang, H. Dai, Y. Artzi, *Simple recurrent units for highly parallelizable
recurrence*, EMNLP 2018, section 3, for layers l = 1..L with x^1_t = u_t and x^{l+1}_t = h^l_t:

.. math::
    f_t &= \sigma(W_f x_t + v_f \odot c_{t-1} + b_f) \\
    c_t &= f_t \odot c_{t-1} + (1 - f_t) \odot (W x_t) \\
    r_t &= \sigma(W_r x_t + v_r \odot c_{t-1} + b_r) \\
    h_t &= r_t \odot c_t + (1 - r_t) \odot \alpha x_t

with alpha = sqrt(1 + 2 exp(b)), which keeps the variance. Here b, the initial bias of r, is 0. If p
differs from d, the highway of the first layer carries skip x_t instead of x_t.

The output depends on the past through c alone. It is part of the state because it is read out, but
no step reads it. The papers that this repository reproduces give neither the equations nor the
constants. The initial weights follow the original: W from U(-sqrt(3/n), sqrt(3/n)) for n inputs, v
from U(-sqrt(3/d), sqrt(3/d)), b_f = b_r = 0. The authors' program (github.com/asappresearch/sru)
draws v from U(-sqrt(3/2), sqrt(3/2)), scales W_f and W_r by sqrt(1/2) and may start at another b.
Here SRU is compared in running time only, which none of this affects.
"""

import math
from collections import namedtuple
from typing import ClassVar

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._keywords import Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent

Layer = namedtuple("Layer", "W v b skip")


class SRUCore(Cell, name="sru"):
    """Stacked SRU layers."""

    title = "SRU"
    source = "Lei et al. 2018, section 3"
    hyper_parameters = {"layers": Number(1, "[1, 100]", whole=True)}
    Weights = "layers alpha"
    reads_output = False

    def prepare(self) -> None:
        self.readout = self.layers
        self.states = self.layers + 1
        self.alpha = math.sqrt(3)
        self.shapes = {
            "W": "each: 3d q",  # input weights, in the order f, none, r
            "v": "each: 2d",  # recurrent weights, one per neuron, in the order f r
            "b": "each: 2d",  # biases, in the order f r
        }
        self.skip = None
        if self.input_size != self.hidden_size:
            self.shapes["skip"] = "d p"

    def weights(self) -> tuple:
        """Return the first argument of `step`.

        Returns
        -------
        Weights
            ``layers``, a tuple with one `Layer` (W, v, b, skip) per layer, and the number
            ``alpha``.
        """
        skips = (self.skip,) + (None,) * (self.layers - 1)  # only the first layer may have one
        layers = tuple(map(Layer, self.W, self.v, self.b, skips))
        return self.Weights(layers, self.alpha)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step of all layers (section 3).

        Parameters
        ----------
        weights : tuple
            ``layers``: for each layer ``W`` (3d, p) or, above the first, (3d, d) in the order f,
            none, r, ``v`` and ``b`` (2d,) in the order f r, and ``skip``, (d, p) or None; and the
            number ``alpha``.
        state : tuple of (batch, d)
            (c^1, .., c^L, h^L) at t - 1; the last one is the output, which the step does not read.
        u : (batch, p)
            The input u_t.

        Returns
        -------
        tuple of (batch, d)
            (c^1, .., c^L, h^L) at t.
        """
        layers, alpha = weights
        states = []
        below = u
        for (W, v, b, skip), c in zip(layers, state[:-1], strict=True):
            v_f, v_r = v.chunk(2)
            b_f, b_r = b.chunk(2)
            from_below_f, candidate, from_below_r = (below @ W.T).chunk(3, dim=-1)
            f = torch.sigmoid(from_below_f + v_f * c + b_f)
            # r reads c_{t-1}, so its line comes before that of c.
            r = torch.sigmoid(from_below_r + v_r * c + b_r)
            c = f * c + (1 - f) * candidate
            carried = below
            if skip is not None:
                carried = below @ skip.T
            below = r * c + (1 - r) * alpha * carried  # h_t, the input of the layer above
            states.append(c)
        return (*states, below)

    def start_paper(self) -> None:
        for W in self.W:
            uniform_fan(W, fan=W.shape[1] / 3)
        uniform_fan(*self.v, fan=self.hidden_size / 3)
        for b in self.b:
            nn.init.zeros_(b)
        if self.skip is not None:
            uniform_fan(self.skip, fan=self.input_size / 3)


class SRU(Recurrent, core=SRUCore):
    """The simple recurrent unit (Lei et al. 2018, section 3).

    ::

        f_t = sigmoid(W_f x_t + v_f * c_{t-1} + b_f)
        r_t = sigmoid(W_r x_t + v_r * c_{t-1} + b_r)
        c_t = f_t * c_{t-1} + (1 - f_t) * (W x_t)
        h_t = r_t * c_t + (1 - r_t) * alpha x_t

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
    see `Recurrent.forward`. The state is the tuple (c, h): the memory and the output, which no
    step reads. Its tensors are (num_layers * num_directions, batch, hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``W.0`` (3d, p), ``v.0`` and ``b.0`` (2d,),
    and ``skip`` (d, p) if p differs from d.

    Examples
    --------
    >>> import torch
    >>> from longrnn import SRU
    >>> sru = SRU(10, 20, num_layers=2)
    >>> output, (c_n, h_n) = sru(torch.randn(5, 3, 10))
    >>> output.shape, c_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    fixed: ClassVar = {"layers": 1}

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


SRUCell = one_step(SRU)
