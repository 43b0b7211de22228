r"""The antisymmetric RNN.

B. Chang, M. Chen, E. Haber, E. Chi, *AntisymmetricRNN: a dynamical system view on recurrent neural
networks*, ICLR 2019, equation 9 there:

.. math:: x_t = x_{t-1} + \epsilon \tanh((M - M^\top - \gamma I) x_{t-1} + R u_t + b)

The dissertation names no step size and diffusion: both are 0.01, from the grid of the original paper. As weights start,
``text`` draws M from N(0, 1/d) and R from N(0, 1/p); ``author``, the dissertation's public program, gives M the standard
deviation 0.01/d and R 1/p.
"""

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import normal
from longrnn.cells._keywords import Number


class AntisymmetricRNN(Cell, name="antisymmetric"):
    """The antisymmetric RNN, without gates."""

    title = "antisymmetric RNN"
    source = "Chang et al. 2019, (9)"
    shapes = {
        "M": "d d",  # free parameter, d^2 numbers as Table 3.3 counts
        "R": "d p",  # input weights
        "b": "d",  # bias
    }
    hyper_parameters = {
        "epsilon": Number(0.01, "(0, 1]"),  # step size of the forward Euler method
        "gamma": Number(0.01, "[0, inf)"),  # diffusion, makes the Euler step stable
    }
    Weights = "W R b epsilon"

    @property
    def W(self) -> Tensor:
        """M - M' - gamma I, (d, d): antisymmetric up to the diffusion."""
        identity = torch.eye(self.hidden_size, dtype=self.M.dtype, device=self.M.device)
        return self.M - self.M.T - self.gamma * identity

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (x,)."""
        W, R, b, epsilon = weights
        (x,) = state
        return (x + epsilon * torch.tanh(x @ W.T + u @ R.T + b),)

    def start_text(self) -> None:
        normal(self.M, over=self.hidden_size)
        normal(self.R, over=self.input_size)
        nn.init.zeros_(self.b)

    def start_author(self) -> None:
        nn.init.normal_(self.M, std=0.01 / self.hidden_size)
        nn.init.normal_(self.R, std=1 / self.input_size)
        nn.init.zeros_(self.b)
