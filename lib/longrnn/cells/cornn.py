r"""coRNN: coupled, controlled, damped oscillators.

T. K. Rusch, S. Mishra, *Coupled oscillatory recurrent neural network (coRNN)*, ICLR 2021, equation 3:

.. math::
    y_n &= y_{n-1} + \Delta t \, z_n \\
    z_n &= z_{n-1} + \Delta t \, \tanh(W y_{n-1} + \mathcal{W} z_{n-1} + V u_n + b)
           - \Delta t \, \gamma y_{n-1} - \Delta t \, \epsilon z_{\bar n} \tag{3}

where n-bar is n - 1 here, as in the authors' program; the text also has n, which is solved for z_n.

None of the five texts gives the constants: the defaults are those of the authors' own code for sequential MNIST with
256 units (github.com/tk-rusch/coRNN, sMNIST). That program (``author``) holds all weights in one linear layer of n = p + 2d inputs,
U(-1/sqrt(n), 1/sqrt(n)).
"""

import torch
from torch import Tensor

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._keywords import Number


class CoRNN(Cell, name="cornn"):
    """The coupled oscillatory RNN."""

    title = "coRNN"
    source = "Rusch and Mishra 2021 (ICLR), (3)"
    shapes = {
        "W": "d d",  # weights on positions
        "W_z": "d d",  # weights on velocities, script W
        "V": "d p",  # input weights
        "b": "d",  # bias
    }
    hyper_parameters = {
        "dt": Number(0.042, "(0, 1)"),  # time step
        "gamma": Number(2.7, "(0, inf)"),  # frequency
        "epsilon": Number(4.7, "(0, inf)"),  # damping
    }
    Weights = "W W_z V b dt gamma epsilon"
    states = 2

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (y, z), positions, which are read out, and velocities."""
        W, W_z, V, b, dt, gamma, epsilon = weights
        y, z = state
        force = torch.tanh(y @ W.T + z @ W_z.T + u @ V.T + b) - gamma * y
        z = z + dt * force - dt * epsilon * z  # (3), second line
        y = y + dt * z  # (3), first line
        return y, z

    def start_author(self) -> None:
        fan = self.input_size + 2 * self.hidden_size
        uniform_fan(self.W, self.W_z, self.V, self.b, fan=fan)
