r"""SRU: the simple recurrent unit, stacked; the texts' baseline for speed.

T. Lei, Y. Zhang, S. I. Wang, H. Dai, Y. Artzi, *Simple recurrent units for highly parallelizable recurrence*, EMNLP 2018,
section 3 there, for layers l = 1..L with x^1_t = u_t and x^{l+1}_t = h^l_t:

.. math::
    f_t &= \sigma(W_f x_t + v_f \odot c_{t-1} + b_f) \\
    c_t &= f_t \odot c_{t-1} + (1 - f_t) \odot (W x_t) \\
    r_t &= \sigma(W_r x_t + v_r \odot c_{t-1} + b_r) \\
    h_t &= r_t \odot c_t + (1 - r_t) \odot \alpha x_t

========= ========= ============ ================================================================
symbol    name      shape        meaning
========= ========= ============ ================================================================
x_t       ``u``     (p,) or (d,) the layer's input
c_t       ``c``     (d,)         states, one per layer
h_t       ``h``     (d,)         output; the last layer's is read out
W         ``W``     (3d, p or d) input weights, in the order f, none, r
v_f, v_r  ``v``     (2d,)        recurrent weights, one per neuron, in the order f r
b_f, b_r  ``b``     (2d,)        biases, in the order f r
(x_t)     ``skip``  (d, p)       what the highway carries where p differs from d: skip x_t
alpha     ``alpha`` scalar       sqrt(1 + 2 exp(b)), b the first bias of r: keeps the variance
========= ========= ============ ================================================================

The output depends on its own past through c alone; it is part of the state because it is read out, and nothing reads it
back. None of the five texts gives its equations or constants. Initialisation, after the original: W from U(-sqrt(3/n), sqrt(3/n)) for n inputs, v from U(-sqrt(3/d), sqrt(3/d)), b_f = 0 and
b_r = b, the `highway_bias`. The authors' program (github.com/asappresearch/sru, ``author``) draws v from
U(-sqrt(3/2), sqrt(3/2)) and scales W_f and W_r by sqrt(1/2).
"""

import math
from collections import namedtuple
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from lib.cells._cell import Cell, State, per_layer
from lib.cells._init import named_starts, uniform_fan
from lib.cells._keywords import Number

Layer = namedtuple("Layer", "W v b skip")


Weights = namedtuple("Weights", "layers alpha")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step of all layers; `state` is (c^1, .., c^L, h^L), each (batch, d), `u` is (batch, p)."""
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


def start_text(cell: Cell) -> None:
    d = cell.hidden_size
    for W in cell.W:
        uniform_fan(W, fan=W.shape[1] / 3)
    uniform_fan(*cell.v, fan=d / 3)
    for b in cell.b:
        nn.init.zeros_(b[:d])
        nn.init.constant_(b[d:], cell.highway_bias)
    if cell.skip is not None:
        uniform_fan(cell.skip, fan=cell.input_size / 3)


def start_author(cell: Cell) -> None:
    start_text(cell)
    uniform_fan(*cell.v, fan=2 / 3)
    for W in cell.W:
        f, _, r = W.chunk(3)
        for gate in (f, r):
            gate.mul_(math.sqrt(0.5))


class SRU(Cell, name="sru"):
    """Stacked SRU layers: the more negative `highway_bias`, the value of b_r at the start, the more the highway carries at first."""

    title = "SRU"
    source = "Lei et al. 2018, section 3"
    step = step
    hyper_parameters = {
        "layers": Number(1, "[1, inf)", whole=True),
        "highway_bias": Number(0.0, "(-inf, inf)"),
    }
    starts = named_starts(text=start_text, author=start_author)

    def prepare(self) -> None:
        self.skip = None
        self.readout = self.layers
        self.states = self.layers + 1
        self.alpha = math.sqrt(1 + 2 * math.exp(self.highway_bias))

    @property
    def shapes(self) -> Mapping[str, str | tuple[str, ...]]:
        shapes = {"W": "3d q", "v": "2d", "b": "2d"}
        layered = {name: per_layer(shape, self.layers) for name, shape in shapes.items()}
        return layered if self.input_size == self.hidden_size else layered | {"skip": "d p"}

    def weights(self) -> Weights:
        skips = (self.skip,) + (None,) * (len(self.W) - 1)
        layers = tuple(Layer(*parts) for parts in zip(self.W, self.v, self.b, skips, strict=True))
        return Weights(layers, self.alpha)
