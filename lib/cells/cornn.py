r"""coRNN: coupled, controlled, damped oscillators.

T. K. Rusch, S. Mishra, *Coupled oscillatory recurrent neural network (coRNN)*, ICLR 2021, equation 3:

.. math::
    y_n &= y_{n-1} + \Delta t \, z_n \\
    z_n &= z_{n-1} + \Delta t \, \tanh(W y_{n-1} + \mathcal{W} z_{n-1} + V u_n + b)
           - \Delta t \, \gamma y_{n-1} - \Delta t \, \epsilon z_{\bar n} \tag{3}

where n-bar is n - 1 (damping explicit) or n (implicit, solved for z_n).

============= ============ ====== ===========================================
symbol        name         shape  meaning
============= ============ ====== ===========================================
u_n           ``u``        (p,)   input
y_n           ``y``        (d,)   positions, read out
z_n           ``z``        (d,)   velocities
W, script W   ``W W_z``    (d, d) weights on positions and on velocities
V             ``V``        (d, p) input weights
b             ``b``        (d,)   bias
Delta t       ``dt``       scalar time step
gamma         ``gamma``    scalar frequency
epsilon       ``epsilon``  scalar damping
============= ============ ====== ===========================================

None of the five texts gives the constants: the defaults are those of the authors' own code for sequential MNIST with
256 units (github.com/tk-rusch/coRNN, sMNIST). As weights start, ``text`` is PyTorch's for recurrent layers,
U(-1/sqrt(d), 1/sqrt(d)); that program (``author``) holds them in one linear layer of n = p + 2d inputs, U(-1/sqrt(n), 1/sqrt(n)).
"""

from collections import namedtuple

import torch
from torch import Tensor

from lib.cells._cell import Cell, State
from lib.cells._init import named_starts, uniform_fan, uniform_start
from lib.cells._keywords import FLAG, Number

Weights = namedtuple("Weights", "W W_z V b dt gamma epsilon implicit")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (y, z), each (batch, d), `u` is (batch, p)."""
    W, W_z, V, b, dt, gamma, epsilon, implicit = weights
    y, z = state
    force = torch.tanh(y @ W.T + z @ W_z.T + u @ V.T + b) - gamma * y
    moved = z + dt * force
    z = moved / (1 + dt * epsilon) if implicit else moved - dt * epsilon * z  # (3), second line
    y = y + dt * z  # (3), first line
    return y, z


def start_author(cell: Cell) -> None:
    uniform_fan(cell.W, cell.W_z, cell.V, cell.b, fan=cell.input_size + 2 * cell.hidden_size)


class CoRNN(Cell, name="cornn"):
    """The coupled oscillatory RNN; `implicit` takes the damping at the new velocity."""

    title = "coRNN"
    source = "Rusch and Mishra 2021 (ICLR), (3)"
    Weights, step = Weights, step
    hyper_parameters = {
        "dt": Number(0.042, "(0, 1)"),
        "gamma": Number(2.7, "(0, inf)"),
        "epsilon": Number(4.7, "(0, inf)"),
        "implicit": FLAG,
    }
    shapes = {"W": "d d", "W_z": "d d", "V": "d p", "b": "d"}
    starts = named_starts(text=uniform_start("W", "W_z", "V", "b"), author=start_author)
    states = 2
