r"""The Lipschitz RNN, forward Euler form.

N. B. Erichson, O. Azencot, A. Queiruga, L. Hodgkinson, M. W. Mahoney, *Lipschitz recurrent neural
networks*, ICLR 2021, equations 3, 4 and 7 there:

.. math::
    x_t &= x_{t-1} + \epsilon \, [A x_{t-1} + \tanh(W x_{t-1} + R u_t + b)] \\
    A &= (1 - \beta)(M_A + M_A^\top) + \beta (M_A - M_A^\top) - \gamma I \\
    W &= (1 - \beta)(M_W + M_W^\top) + \beta (M_W - M_W^\top) - \gamma I

The dissertation names no hyper-parameters: epsilon 0.03, beta 0.75 and gamma 0.001 are the original
authors' for pixel-by-pixel MNIST. As weights start, ``text`` draws M_A and M_W from N(0, (0.1 / d)^2) and R from N(0, 1/p).
``author``, the dissertation's public program, draws M_A and M_W from N(0, (0.1 / 128)^2) at every width and R by Glorot.
"""

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import normal
from longrnn.cells._keywords import Number


class LipschitzRNN(Cell, name="lipschitz"):
    """The Lipschitz RNN discretised by forward Euler."""

    title = "Lipschitz RNN"
    source = "Erichson et al. 2021, (3), (4), (7)"
    shapes = {
        "M_A": "d d",  # free parameters, 2 d^2 numbers as Table 3.3 counts
        "M_W": "d d",
        "R": "d p",  # input weights
        "b": "d",  # bias
    }
    hyper_parameters = {
        "epsilon": Number(0.03, "(0, 1]"),  # step size
        "beta": Number(0.75, "[0.5, 1]"),  # weight of the skew part, 1 is skew
        "gamma": Number(0.001, "[0, inf)"),  # diffusion
    }
    Weights = "A W R b epsilon"

    @property
    def A(self) -> Tensor:
        return self._symmetric_skew(self.M_A)

    @property
    def W(self) -> Tensor:
        return self._symmetric_skew(self.M_W)

    def _symmetric_skew(self, M: Tensor) -> Tensor:
        """Return (1 - beta)(M + M') + beta (M - M') - gamma I."""
        identity = torch.eye(len(M), dtype=M.dtype, device=M.device)
        return (1 - self.beta) * (M + M.T) + self.beta * (M - M.T) - self.gamma * identity

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (x,)."""
        A, W, R, b, epsilon = weights
        (x,) = state
        return (x + epsilon * (x @ A.T + torch.tanh(x @ W.T + u @ R.T + b)),)

    def start_text(self) -> None:
        for M in (self.M_A, self.M_W):
            M.normal_().mul_(0.1).div_(self.hidden_size)
        normal(self.R, over=self.input_size)
        nn.init.zeros_(self.b)

    def start_author(self) -> None:
        for M in (self.M_A, self.M_W):
            nn.init.normal_(M, std=0.1 / 128)
        nn.init.xavier_uniform_(self.R)
        nn.init.zeros_(self.b)
