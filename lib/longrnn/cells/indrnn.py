r"""IndRNN: independently recurrent neurons, stacked.

S. Li, W. Li, C. Cook, C. Zhu, Y. Gao, *Independently recurrent neural network (IndRNN): building a longer and deeper RNN*,
CVPR 2018, section 3 there, for layers l = 1..L with h^0_t = x_t:

.. math:: h^l_t = \phi(W^l h^{l-1}_t + w^l \odot h^l_{t-1} + b^l)

Initialisation: w from U(0, 1), decaying memories of every length; W and b as in PyTorch's recurrent layers. Left out is what the
original adds to the recurrence, and no row asks for: batch normalisation between layers, and \|w\| held below about 2^(1/T) by
clipping after each update.
"""

from collections import namedtuple

from torch import Tensor, nn

from longrnn.cells._activation import ACTIVATIONS, phi
from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._keywords import Number

Layer = namedtuple("Layer", "W w b")


class IndRNN(Cell, name="indrnn"):
    """Stacked IndRNN layers."""

    title = "IndRNN"
    source = "Li et al. 2018, section 3"
    shapes = {
        "W": "each: d q",  # input weights
        "w": "each: d",  # recurrent weights, one per neuron (u there)
        "b": "each: d",  # bias
    }
    hyper_parameters = {"layers": Number(1, "[1, 100]", whole=True), "phi": phi("relu")}
    Weights = "layers phi"

    def prepare(self) -> None:
        self.phi = ACTIVATIONS[self.phi]
        self.states = self.layers
        self.readout = self.layers - 1

    def weights(self) -> tuple:
        return self.Weights(tuple(map(Layer, self.W, self.w, self.b)), self.phi)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step of all layers; `state` is (h^1, .., h^L), the last layer's is read out."""
        layers, phi = weights
        states, below = [], u
        for (W, w, b), h in zip(layers, state, strict=True):
            below = phi(below @ W.T + w * h + b)
            states.append(below)
        return tuple(states)

    def start_text(self) -> None:
        for w in self.w:
            nn.init.uniform_(w)
        uniform_fan(*self.W, *self.b, fan=self.hidden_size)
