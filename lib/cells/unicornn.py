r"""UnICORNN: undamped independent controlled oscillators, stacked.

T. K. Rusch, S. Mishra, *UnICORNN: a recurrent model for learning very long time dependencies*, ICML 2021,
equation 6 (report and ICML text), for layers l = 1..L with y^0_n = u_n:

.. math::
    z^l_n &= z^l_{n-1} - \Delta t \, \hat\sigma(c^l) \odot [\tanh(w^l \odot y^l_{n-1} + V^l y^{l-1}_n + b^l)
             + \alpha y^l_{n-1}] \\
    y^l_n &= y^l_{n-1} + \Delta t \, \hat\sigma(c^l) \odot z^l_n \tag{6}

=========== ========= ============ ===========================================================
symbol      name      shape        meaning
=========== ========= ============ ===========================================================
u_n         ``u``     (p,)         input
y^l_n       ``y``     (d,)         positions, the last layer's are read out
z^l_n       ``z``     (d,)         velocities
w^l         ``w``     (d,)         recurrent weights, one per neuron
V^l         ``V``     (d, p or d)  input weights
b^l, c^l    ``b c``   (d,)         bias; control of the time step
Delta t     ``dt``    scalar       time step, in (0, 1)
alpha       ``alpha`` scalar       frequency, at least 0
=========== ========= ============ ===========================================================

Equation 6 prints the layer's input at n-1, the inverse (7) at n: the same step as (7) is used, without which (7)
would not invert it. The logistic function is the sigma-hat of the text. Initialisation: appendix A. The time step and
alpha are those of Table 6 for psMNIST with 128 units; the dissertation names none.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lib.cells._cell import Cell, State


class Layer(NamedTuple):
    w: Tensor
    V: Tensor
    b: Tensor
    c: Tensor


class Weights(NamedTuple):
    layers: tuple[Layer, ...]
    dt: float
    alpha: float


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step of all layers; `state` is (y^1, z^1, y^2, z^2, ..), each (batch, d), `u` is (batch, p)."""
    layers, dt, alpha = weights
    states, below = [], u
    for (w, V, b, c), y, z in zip(layers, state[::2], state[1::2], strict=True):
        h = dt * torch.sigmoid(c)
        z = z - h * (torch.tanh(w * y + below @ V.T + b) + alpha * y)  # (6), second line
        y = y + h * z  # (6), first line
        states += [y, z]
        below = y
    return tuple(states)


class UnICORNN(Cell, name="unicornn"):
    """Stacked UnICORNN layers; two in the dissertation's experiment.

    Parameters
    ----------
    input_size, hidden_size
        Features p and neurons d of each layer.
    layers
        Number of layers L.
    dt
        Time step, in (0, 1).
    alpha
        Frequency, at least 0.
    """

    title = "UnICORNN"
    source = "Rusch and Mishra 2021, (6)"
    step = step

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        layers: int = 2,
        dt: float = 0.482,
        alpha: float = 12.53,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if layers < 1 or not 0 < dt < 1 or alpha < 0:
            raise ValueError(
                "unicornn: expected layers >= 1, 0 < dt < 1 and alpha >= 0, "
                f"got {layers}, {dt} and {alpha}"
            )
        self.layers = layers
        self.dt = dt
        self.alpha = alpha
        self.states = 2 * layers
        self.readout = 2 * (layers - 1)
        d = hidden_size
        sizes = [input_size] + [d] * (layers - 1)
        self.w = nn.ParameterList(torch.rand(d) for _ in sizes)
        self.V = nn.ParameterList(torch.empty(d, size) for size in sizes)
        self.b = nn.ParameterList(torch.zeros(d) for _ in sizes)
        self.c = nn.ParameterList(torch.empty(d).uniform_(-0.1, 0.1) for _ in sizes)
        for V in self.V:
            nn.init.kaiming_uniform_(V, a=8, mode="fan_in")

    def weights(self) -> Weights:
        layers = tuple(Layer(*parts) for parts in zip(self.w, self.V, self.b, self.c, strict=True))
        return Weights(layers, self.dt, self.alpha)
