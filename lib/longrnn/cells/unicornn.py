r"""UnICORNN: undamped independent controlled oscillators, stacked.

T. K. Rusch, S. Mishra, *UnICORNN: a recurrent model for learning very long time dependencies*,
ICML 2021, equation 6 (report and ICML paper), for layers l = 1..L with y^0_n = u_n:

.. math::
    z^l_n &= z^l_{n-1} - \Delta t \, \hat\sigma(c^l) \odot
             [\tanh(w^l \odot y^l_{n-1} + V^l y^{l-1}_n + b^l) + \alpha y^l_{n-1}] \\
    y^l_n &= y^l_{n-1} + \Delta t \, \hat\sigma(c^l) \odot z^l_n \tag{6}

With residual stacking (report, D.5, equations 102 and 103) the layers l > S read, instead of
:math:`V^l y^{l-1}_n`,

.. math:: x^l_n = \Lambda^l y^{l-S-1}_n + V^l y^{l-1}_n

The paper's equation 6 has the layer's input at time n-1, and its inverse (7) has the input at time
n. The step here uses time n; otherwise (7) would not invert it. The sigma-hat of the paper is the
logistic function. The default time step and alpha are those of Table 6 for psMNIST with 128 units.
The dissertation gives no values; its public program uses 0.03 and 0.9.

The initialization ``paper`` follows appendix A: V is Kaiming uniform with slope 8, as in
github.com/tk-rusch/unicornn. ``author`` is that of the dissertation's program: slope 0, which makes
V larger by sqrt(65).

Appendix A uses a smaller time step in the first layer for IMDB and EigenWorms. D.5 gives every
Lambda the shape (d, d). For the connection from the input (l = S + 1) this is possible only if
p = d, so it is (d, p) here. No paper gives the initialization of Lambda; here it is that of V.

Variational dropout (appendix A; Gal and Ghahramani 2016) multiplies the outputs of a layer by a
mask before the layers above read them. A sequence has the same mask at all time steps, scaled by
1 / (1 - rate). The masks are part of the weights passed to `step`, so that `step` stays a pure
function. The authors' program also masks the outputs of the last layer; here they are not masked.
Masks are drawn only in training mode, once per call: a sequence split over two calls gets two.
"""

import math
from collections import namedtuple
from collections.abc import Sequence
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longrnn.cells._cell import Cell, State
from longrnn.cells._keywords import Choice, Number, complete
from longrnn.cells._one_step import one_step
from longrnn.cells._packing import Segment
from longrnn.cells._recurrent import Recurrent

Layer = namedtuple("Layer", "w V b c")
SLOPE = 8
"""Slope of the Kaiming uniform distribution of V (appendix A)."""


class Weights(NamedTuple):
    """Weights of equations 6, 102 and 103.

    `layers`, `dt`, `skips` and `masks` have one entry per layer. An entry of `skips` or `masks` is
    None if the layer has no residual connection or no mask.
    """

    layers: tuple[Layer, ...]
    dt: tuple[float, ...]
    alpha: float
    skip: int
    skips: tuple[Tensor | None, ...]
    masks: tuple[Tensor | None, ...]


def oscillate(
    layer: Layer, dt: float, alpha: float, y: Tensor, z: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Take one step of one layer, equation (6).

    Parameters
    ----------
    layer
        Weights of the layer; V is not used.
    dt, alpha
        Time step and frequency.
    y, z : (batch, d)
        Positions and velocities before the step.
    x : (batch, d)
        Input term V u.

    Returns
    -------
    y, z : (batch, d)
        Positions and velocities after the step.
    """
    w, _, b, c = layer
    h = dt * torch.sigmoid(c)
    z = z - h * (torch.tanh(w * y + x + b) + alpha * y)  # (6), second line
    y = y + h * z  # (6), first line
    return y, z


class UnICORNNCore(Cell, name="unicornn"):
    """Stacked UnICORNN layers; two in the dissertation's experiment."""

    # This cell has all layers in one step, so that one engine call runs them together, adjoints and
    # Jacobians cover the whole network, and equations (102) and (103) stand in one place. The class
    # `UnICORNN` below stacks cells of one layer each instead, as all layer classes do.

    title = "UnICORNN"
    source = "Rusch and Mishra 2021, (6)"
    hyper_parameters = {
        "layers": Number(2, "[1, 100]", whole=True),
        "dt": Number(0.482, "(0, 1)", each=True),  # time step, of every layer or of each
        "alpha": Number(12.53, "[0, inf)"),  # frequency
        "skip": Number(0, "[0, inf)", whole=True),  # S, layers that a residual connection skips
        "dropout": Number(0.0, "[0, 1)"),  # rate of the variational dropout between layers
        "train_c": Choice((True, False)),  # figure 3 of the report compares both
        # How the backward pass of an engine gets the states (None lets the engine choose, see
        # `longrnn.kernels.cpu_unicornn`), and the number of steps between checkpoints if they are
        # recomputed backward in time. This changes memory use, and results only by rounding.
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
        connections = 0
        if self.skip > 0:
            connections = self.layers - self.skip
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
        """Return the first argument of `step`.

        Parameters
        ----------
        masks : tuple of ((batch, d) or None), optional
            The dropout mask of each layer; no masks by default.

        Returns
        -------
        Weights
            The weights of equations 6, 102 and 103.
        """
        layers = tuple(map(Layer, self.w, self.V, self.b, self.c))
        skips = (None,) * (self.layers - len(self.skips)) + tuple(self.skips)
        if masks is None:
            masks = (None,) * self.layers
        return Weights(layers, self._dts, self.alpha, self.skip, skips, masks)

    def run_weights(self, batch: int) -> Weights:
        """Return the weights for one run; in training mode with new dropout masks."""
        if self.training and self.dropout > 0 and self.layers > 1:
            return self.weights(self._draw_masks(batch))
        return self.weights()

    def _draw_masks(self, batch: int) -> tuple[Tensor | None, ...]:
        """Draw a mask (batch, d) for every layer but the last, whose outputs are not masked."""
        # `torch.func.vmap` gives each mapped index its own masks, as it does for `nn.Dropout`.
        # It would refuse `bernoulli_` where no weight is mapped.
        ones = self.w[0].new_ones(batch, self.hidden_size)
        masks = [F.dropout(ones, self.dropout) for _ in range(self.layers - 1)]
        return (*masks, None)

    @property
    def _dts(self) -> tuple[float, ...]:
        """Delta t of each layer."""
        if isinstance(self.dt, tuple):
            return self.dt
        return (self.dt,) * self.layers

    @staticmethod
    def step(weights: Weights, state: State, u: Tensor) -> State:
        """Take one step of all layers, equation (6), with (102) and (103) if layers are skipped.

        Parameters
        ----------
        weights : Weights
            As from `weights`.
        state : tuple of (batch, d)
            (y^1, z^1, y^2, z^2, ..) at n - 1: positions and velocities. The last layer's y is the
            output.
        u : (batch, p)
            The input u_n.

        Returns
        -------
        tuple of (batch, d)
            (y^1, z^1, y^2, z^2, ..) at n.
        """
        layers, dts, alpha, skip, skips, masks = weights
        states = []
        passed = [u]  # passed[k] is y^k_n, masked, and passed[0] the input
        for k, (layer, dt) in enumerate(zip(layers, dts, strict=True), start=1):
            x = passed[k - 1] @ layer.V.T
            if skips[k - 1] is not None:
                x = passed[k - skip - 1] @ skips[k - 1].T + x  # defined below (103)
            y, z = oscillate(layer, dt, alpha, *state[2 * k - 2 : 2 * k], x)
            states += [y, z]
            if masks[k - 1] is not None:
                y = masks[k - 1] * y
            passed.append(y)
        return tuple(states)

    def start_paper(self, slope: float = SLOPE) -> None:
        for w in self.w:
            nn.init.uniform_(w)
        for b, c in zip(self.b, self.c, strict=True):
            nn.init.zeros_(b)
            nn.init.uniform_(c, -0.1, 0.1)
        for V in (*self.V, *self.skips):
            nn.init.kaiming_uniform_(V, a=slope)

    def start_author(self) -> None:
        self.start_paper(slope=0)

    def time_steps(self, u: Tensor) -> tuple[Tensor, ...]:
        """Return the time step of every neuron, Delta t times the logistic function of c.

        Parameters
        ----------
        u : (time, batch, p)
            Not used: the time steps don't depend on the input.

        Returns
        -------
        tuple of (d,)
            One tensor per layer.
        """
        return tuple(dt * torch.sigmoid(c) for dt, c in zip(self._dts, self.c, strict=True))


class UnICORNN(Recurrent, core=UnICORNNCore):
    """UnICORNN: undamped, independent oscillators (Rusch and Mishra 2021, equation 6).

    ::

        z_n = z_{n-1} - dt sigmoid(c) * (tanh(w * y_{n-1} + V u_n + b) + alpha y_{n-1})
        y_n = y_{n-1} + dt sigmoid(c) * z_n

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    dt
        Time step in (0, 1), one for all layers or one per layer.
    alpha
        Frequency, at least 0. Both defaults are those of Table 6 for psMNIST.
    skip
        S, the number of layers that a residual connection skips (report, D.5): 0 for no such
        connections, or at least 2.
    train_c
        Whether c, the control of the time step, is trained.
    backward
        How the backward pass gets the states: ``stored``, ``recovered``, ``reversible``, or None
        to let the engine choose. It changes memory use, not the result.
    checkpoint
        Steps between checkpoints of ``reversible``.
    bias
        Whether the cells have biases.
    batch_first
        Whether inputs and outputs are (batch, time, features).
    dropout
        Rate of the variational dropout between layers: one mask per sequence, the same at all time
        steps (appendix A).
    bidirectional
        Whether each layer also reads the sequences backward.
    device, dtype
        Device and dtype of the weights.

    Notes
    -----
    ``output, state = layer(input, state)`` takes and returns sequences as `torch.nn.LSTM` does;
    see `Recurrent.forward`. The state is the tuple (y, z): positions, which are the output, and
    velocities. Its tensors are (num_layers * num_directions, batch, hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``w.0``, ``b.0`` and ``c.0`` (d,), ``V.0``
    (d, p).

    Examples
    --------
    >>> import torch
    >>> from longrnn import UnICORNN
    >>> unicornn = UnICORNN(10, 20, num_layers=2)
    >>> output, (y_n, z_n) = unicornn(torch.randn(5, 3, 10))
    >>> output.shape, y_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    # Layers are stacked by `Stack`, one cell per layer, because `torch.nn.LSTM`'s interface has
    # states per layer, two directions and packed sequences, which `UnICORNNCore`'s own stack does
    # not have. So residual connections and dropout between layers are here once more.
    fixed: ClassVar = {"layers": 1}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dt: float | Sequence[float] = 0.482,
        alpha: float = 12.53,
        skip: int = 0,
        train_c: bool = True,
        backward: str | None = None,
        checkpoint: int = 64,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "dt": dt,
            "alpha": alpha,
            "skip": skip,
            "train_c": train_c,
            "backward": backward,
            "checkpoint": checkpoint,
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

    def _new_cell(self, layer: int, dtype: torch.dtype | None) -> UnICORNNCore:
        settings = self.fixed | self.hyper_parameters
        # The layer reads these two itself. Its cells have one layer each, and would not know them.
        names = ("skip", "dt")
        keywords = {name: self.core.hyper_parameters[name] for name in names}
        given = {name: settings.pop(name) for name in names}
        checked = complete(self._label, keywords, given)
        skip = checked["skip"]
        dts = checked["dt"]
        if isinstance(dts, tuple):
            if len(dts) != self.num_layers:
                raise ValueError(
                    f"{self._label}: expected one dt, or one for each of the {self.num_layers} "
                    f"layers, got {len(dts)}"
                )
            settings["dt"] = dts[layer]
        else:
            settings["dt"] = dts
        if skip != 0 and not 2 <= skip < self.num_layers:
            raise ValueError(
                f"{self._label}: expected skip = 0 or 2 <= skip < num_layers = {self.num_layers}, "
                f"got {skip}"
            )
        features = sum(self._features(layer))
        cell = self.core(features, self.hidden_size, dtype=dtype, label=self._label, **settings)
        self._scale_inputs(cell, layer)
        return cell

    def _features(self, layer: int) -> list[int]:
        """Return the sizes of a layer's inputs: the layer below, and the skip connection if any."""
        sources = [layer]
        skip = self.hyper_parameters["skip"]
        if skip and layer >= skip:
            sources.append(layer - skip)
        outputs = self.hidden_size * self.num_directions
        features = []
        for source in sources:
            if source == 0:
                features.append(self.input_size)
            else:
                features.append(outputs)
        return features

    def _input_of(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return y^{l-1} or, with a residual connection, y^{l-1} and y^{l-S-1} side by side.

        V and Lambda then lie side by side in one matrix: V y + Lambda y' is one product.
        """
        layer = len(outputs) - 1
        skip = self.hyper_parameters["skip"]
        if skip and layer >= skip:
            return torch.cat([outputs[layer], outputs[layer - skip]], dim=1)
        return outputs[layer]

    def _scale_inputs(self, cell: UnICORNNCore, layer: int) -> None:
        """Rescale V and Lambda, which are initialized as one matrix, as if each were by itself.

        The standard deviation depends on the number of columns, which is larger for one matrix.
        """
        features = self._features(layer)
        if len(features) == 1:
            return
        with torch.no_grad():
            for block in cell.V[0].split(features, dim=1):
                block.mul_(math.sqrt(sum(features) / block.shape[1]))

    def reset_parameters(self, start: str = "paper", *, time_steps: int | None = None) -> None:
        super().reset_parameters(start, time_steps=time_steps)
        for layer in range(self.num_layers):
            for cell in self._cells_of(layer):
                self._scale_inputs(cell, layer)

    def _drop(self, output: Tensor, segments: Sequence[Segment]) -> Tensor:
        """Multiply by one mask per sequence, the same at all time steps (appendix A)."""
        mask = F.dropout(output.new_ones(segments[0].batch, output.shape[1]), self.dropout)
        rows = [mask[:batch].repeat(steps, 1) for steps, batch in segments]
        return output * torch.cat(rows)


UnICORNNCell = one_step(UnICORNN)
