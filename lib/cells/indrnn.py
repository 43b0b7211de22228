r"""IndRNN: independently recurrent neurons, stacked.

S. Li, W. Li, C. Cook, C. Zhu, Y. Gao, *Independently recurrent neural network (IndRNN): building a longer and deeper RNN*,
CVPR 2018, section 3 there, for layers l = 1..L with h^0_t = x_t:

.. math:: h^l_t = \phi(W^l h^{l-1}_t + w^l \odot h^l_{t-1} + b^l)

======= ======== =========== ==========================================
symbol  name     shape       meaning
======= ======== =========== ==========================================
x_t     ``u``    (p,)        input
h^l_t   ``h``    (d,)        states, the last layer's is read out
W^l     ``W``    (d, p or d) input weights
w^l     ``w``    (d,)        recurrent weights, one per neuron (u there)
b^l     ``b``    (d,)        bias
phi     ``phi``  function    relu, tanh or sigmoid
======= ======== =========== ==========================================

Initialisation: w from U(0, 1), decaying memories of every length; W and b as in PyTorch's recurrent layers. The original trains with \|w\| held below a bound of about 2^(1/T), by clipping after each update: `bound` clips the weights that
enter the equation, so one beyond it has no gradient until it returns. Batch normalisation, which the original puts
between layers, is not part of the recurrence and is left out.
"""

from collections import namedtuple
from collections.abc import Mapping

from torch import Tensor, nn

from lib.cells._activation import ACTIVATIONS, phi
from lib.cells._cell import Cell, State, per_layer
from lib.cells._init import named_starts, uniform_fan
from lib.cells._keywords import Number

Layer = namedtuple("Layer", "W w b")


LAYER = {"W": "d q", "w": "d", "b": "d"}
"""Shapes, with q for what the layer reads."""


Weights = namedtuple("Weights", "layers phi")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step of all layers; `state` is (h^1, .., h^L), each (batch, d), `u` is (batch, p)."""
    layers, phi = weights
    states, below = [], u
    for (W, w, b), h in zip(layers, state, strict=True):
        below = phi(below @ W.T + w * h + b)
        states.append(below)
    return tuple(states)


def start_text(cell: Cell) -> None:
    for w in cell.w:
        nn.init.uniform_(w)
    uniform_fan(*cell.W, *cell.b, fan=cell.hidden_size)


class IndRNN(Cell, name="indrnn"):
    """Stacked IndRNN layers; no recurrent weight is larger than `bound`, None for none."""

    title = "IndRNN"
    source = "Li et al. 2018, section 3"
    step = step
    hyper_parameters = {
        "layers": Number(1, "[1, inf)", whole=True),
        "bound": Number(None, "(0, inf)"),
        "phi": phi("relu"),
    }
    starts = named_starts(text=start_text)

    def prepare(self) -> None:
        self.phi = ACTIVATIONS[self.phi]
        self.states = self.layers
        self.readout = self.layers - 1

    @property
    def shapes(self) -> Mapping[str, tuple[str, ...]]:
        return {name: per_layer(shape, self.layers) for name, shape in LAYER.items()}

    def weights(self) -> Weights:
        recurrent = [w if self.bound is None else w.clamp(-self.bound, self.bound) for w in self.w]
        layers = tuple(Layer(*parts) for parts in zip(self.W, recurrent, self.b, strict=True))
        return Weights(layers, self.phi)
