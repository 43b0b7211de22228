r"""UnICORNN: undamped independent controlled oscillators, stacked.

T. K. Rusch, S. Mishra, *UnICORNN: a recurrent model for learning very long time dependencies*, ICML 2021,
equation 6 (report and ICML text), for layers l = 1..L with y^0_n = u_n:

.. math::
    z^l_n &= z^l_{n-1} - \Delta t \, \hat\sigma(c^l) \odot [\tanh(w^l \odot y^l_{n-1} + V^l y^{l-1}_n + b^l)
             + \alpha y^l_{n-1}] \\
    y^l_n &= y^l_{n-1} + \Delta t \, \hat\sigma(c^l) \odot z^l_n \tag{6}

With residual stacking (report, D.5, equations 102 and 103) the layers l > S read, in place of
:math:`V^l y^{l-1}_n`,

.. math:: x^l_n = \Lambda^l y^{l-S-1}_n + V^l y^{l-1}_n

Equation 6 prints the layer's input at n-1, the inverse (7) at n: the same step as (7) is used, without which (7)
would not invert it. The logistic function is the sigma-hat of the text. The time step and alpha are those of Table 6 for
psMNIST with 128 units; the dissertation names none, its public program has 0.03 and 0.9.

As weights start, ``text`` is appendix A, V Kaiming uniform with the slope 8 (so too github.com/tk-rusch/unicornn); ``author``, the
dissertation's program, has the slope 0, which makes V larger by sqrt(65).

Appendix A gives IMDB and EigenWorms a smaller time step in the first layer; D.5 gives every Lambda the shape
(d, d), which the connection that starts at the input (l = S + 1) can only have where p = d: it is (d, p) here. No
text initialises Lambda: it is drawn like V.

Variational dropout (appendix A; Gal and Ghahramani 2016) multiplies what a layer hands to those above by one mask per
sequence, the same at all times, scaled by 1 / (1 - rate). Masks belong to the weights that `step` gets, so that the
step stays pure. The authors' program masks the last layer too, here it is handed on whole. Only a run in
training mode draws them; a sequence run in two calls gets two.
"""

from collections import namedtuple
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._keywords import Choice, Number

Layer = namedtuple("Layer", "w V b c")


class Weights(NamedTuple):
    """Of equations 6, 102 and 103, with an entry per layer; None where a layer has no connection or no mask."""

    layers: tuple[Layer, ...]
    dt: tuple[float, ...]
    alpha: float
    skip: int
    skips: tuple[Tensor | None, ...]
    masks: tuple[Tensor | None, ...]


def oscillate(
    layer: Layer, dt: float, alpha: float, y: Tensor, z: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    """One step of one layer driven by `x`; all (batch, d)."""
    w, _, b, c = layer
    h = dt * torch.sigmoid(c)
    z = z - h * (torch.tanh(w * y + x + b) + alpha * y)  # (6), second line
    y = y + h * z  # (6), first line
    return y, z


class UnICORNN(Cell, name="unicornn"):
    """Stacked UnICORNN layers; two in the dissertation's experiment."""

    title = "UnICORNN"
    source = "Rusch and Mishra 2021, (6)"
    hyper_parameters = {
        "layers": Number(2, "[1, 100]", whole=True),
        "dt": Number(0.482, "(0, 1)", each=True),  # time step, of every layer or of each
        "alpha": Number(12.53, "[0, inf)"),  # frequency
        "skip": Number(0, "[0, inf)", whole=True),  # S, layers that a residual connection skips
        "dropout": Number(0.0, "[0, 1)"),  # rate of the variational dropout between layers
        "train_c": Choice((True, False)),  # figure 3 of the report compares
        # Where an engine's way back takes the states from (see `longrnn.kernels.cpu_unicornn`), None for its own choice, and how
        # many steps lie between checkpoints of the reversible one: but for rounding the results are the same, the memory is not.
        "backward": Choice((None, "stored", "recovered", "reversible")),
        "checkpoint": Number(64, "[1, inf)", whole=True),
    }

    @classmethod
    def conflict(cls, given: SimpleNamespace, d: int | None) -> str:
        if isinstance(given.dt, tuple) and len(given.dt) != given.layers:
            return f"one dt, or one for each of the {given.layers} layers"
        if given.skip != 0 and not 2 <= given.skip < given.layers:
            return f"skip = 0 or 2 <= skip < layers = {given.layers}"
        return ""

    def prepare(self) -> None:
        if self.backward is not None:
            self.engine_options = {"backward": self.backward}
        if self.backward == "reversible":
            self.engine_options["checkpoint"] = self.checkpoint
        if isinstance(self.dt, tuple) and len(set(self.dt)) == 1:
            self.dt = self.dt[0]
        self.states = 2 * self.layers
        self.readout = 2 * (self.layers - 1)
        connections = self.layers - self.skip if self.skip else 0
        self.shapes = {
            "w": "each: d",  # recurrent weights, one per neuron
            "V": "each: d q",  # input weights
            "b": "each: d",  # bias
            "c": "each: d",  # control of the time step
            "skips": ("d p", *["d d"] * self.layers)[:connections],  # Lambda, of the layers l > S
        }

    def constrain(self) -> None:
        self.c.requires_grad_(self.train_c)

    def weights(self, masks: tuple[Tensor | None, ...] | None = None) -> Weights:
        """Return the weights, with the masks of a forward pass in training where there are any."""
        layers = tuple(map(Layer, self.w, self.V, self.b, self.c))
        none = (None,) * self.layers
        skips = (*none, *self.skips)[-self.layers :]
        return Weights(layers, self._dts, self.alpha, self.skip, skips, masks or none)

    @property
    def _dts(self) -> tuple[float, ...]:
        """Delta t of each layer."""
        return self.dt if isinstance(self.dt, tuple) else (self.dt,) * self.layers

    @staticmethod
    def step(weights: Weights, state: State, u: Tensor) -> State:
        """One step of all layers; `state` is (y^1, z^1, y^2, z^2, ..), positions and velocities, the last layer's y is read out."""
        layers, dts, alpha, skip, skips, masks = weights
        states, handed = [], [u]  # handed[k] is y^k_n, masked, and handed[0] the input
        for k, (layer, dt) in enumerate(zip(layers, dts, strict=True), start=1):
            x = handed[k - 1] @ layer.V.T
            if skips[k - 1] is not None:
                x = handed[k - skip - 1] @ skips[k - 1].T + x  # defined below (103)
            y, z = oscillate(layer, dt, alpha, *state[2 * k - 2 : 2 * k], x)
            states += [y, z]
            handed.append(y if masks[k - 1] is None else masks[k - 1] * y)
        return tuple(states)

    def start_text(self, slope: float = 8) -> None:
        for w in self.w:
            nn.init.uniform_(w)
        for b, c in zip(self.b, self.c, strict=True):
            nn.init.zeros_(b)
            nn.init.uniform_(c, -0.1, 0.1)
        for V in (*self.V, *self.skips):
            nn.init.kaiming_uniform_(V, a=slope)

    def start_author(self) -> None:
        self.start_text(slope=0)

    def run(self, u: Tensor, state: State, *, engine: str = "auto") -> tuple[Tensor, State]:
        """As `Cell.run`; in training with fresh masks where there is dropout."""
        drops = self.training and self.dropout > 0 and self.layers > 1
        weights = self.weights(self._draw_masks(u) if drops else None)
        return super().run(u, state, engine=engine, weights=weights)

    def _draw_masks(self, u: Tensor) -> tuple[Tensor | None, ...]:
        """Draw a mask (batch, d) for every layer but the last, whose output is read out whole."""
        keep = 1 - self.dropout
        shape = (u.shape[1], self.hidden_size)
        drawn = [u.new_empty(shape).bernoulli_(keep) / keep for _ in range(self.layers - 1)]
        return (*drawn, None)

    def time_steps(self, u: Tensor) -> tuple[Tensor, ...]:
        """Return the time step of every neuron, (d,) for each layer, whatever is read."""
        return tuple(dt * torch.sigmoid(c) for dt, c in zip(self._dts, self.c, strict=True))
