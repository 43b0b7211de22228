r"""SRU: the simple recurrent unit, stacked; the texts' baseline for speed.

T. Lei, Y. Zhang, S. I. Wang, H. Dai, Y. Artzi, *Simple recurrent units for highly parallelizable recurrence*, EMNLP 2018,
section 3 there, for layers l = 1..L with x^1_t = u_t and x^{l+1}_t = h^l_t:

.. math::
    f_t &= \sigma(W_f x_t + v_f \odot c_{t-1} + b_f) \\
    c_t &= f_t \odot c_{t-1} + (1 - f_t) \odot (W x_t) \\
    r_t &= \sigma(W_r x_t + v_r \odot c_{t-1} + b_r) \\
    h_t &= r_t \odot c_t + (1 - r_t) \odot \alpha x_t

with alpha = sqrt(1 + 2 exp(b)), b the first bias of r, which keeps the variance; here b = 0. Where p differs from d, the first
layer's highway carries skip x_t in the place of x_t.

The output depends on its own past through c alone; it is part of the state because it is read out, and nothing reads it
back. None of the five texts gives its equations or constants. Initialisation, after the original: W from U(-sqrt(3/n), sqrt(3/n))
for n inputs, v from U(-sqrt(3/d), sqrt(3/d)), b_f = b_r = 0. The authors' program (github.com/asappresearch/sru) draws v from
U(-sqrt(3/2), sqrt(3/2)), scales W_f and W_r by sqrt(1/2) and may start at another b; none of it matters to time, for which SRU is here.
"""

import math
from collections import namedtuple

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._keywords import Number

Layer = namedtuple("Layer", "W v b skip")


class SRU(Cell, name="sru"):
    """Stacked SRU layers."""

    title = "SRU"
    source = "Lei et al. 2018, section 3"
    hyper_parameters = {"layers": Number(1, "[1, 100]", whole=True)}
    Weights = "layers alpha"

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
        skips = (self.skip, *(None,) * self.layers)
        return self.Weights(tuple(map(Layer, self.W, self.v, self.b, skips)), self.alpha)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step of all layers; `state` is (c^1, .., c^L, h^L), the last is read out."""
        layers, alpha = weights
        states, x = [], u
        for (W, v, b, skip), c in zip(layers, state[:-1], strict=True):
            v_f, v_r = v.chunk(2)
            b_f, b_r = b.chunk(2)
            from_x_f, candidate, from_x_r = (x @ W.T).chunk(3, dim=-1)
            f = torch.sigmoid(from_x_f + v_f * c + b_f)
            r = torch.sigmoid(from_x_r + v_r * c + b_r)  # reads c_{t-1}, so before the next line
            c = f * c + (1 - f) * candidate
            carried = x if skip is None else x @ skip.T
            x = r * c + (1 - r) * alpha * carried  # h_t
            states.append(c)
        return (*states, x)

    def start_text(self) -> None:
        for W in self.W:
            uniform_fan(W, fan=W.shape[1] / 3)
        uniform_fan(*self.v, fan=self.hidden_size / 3)
        for b in self.b:
            nn.init.zeros_(b)
        if self.skip is not None:
            uniform_fan(self.skip, fan=self.input_size / 3)
