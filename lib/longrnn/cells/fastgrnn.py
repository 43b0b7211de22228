r"""FastGRNN: one gate that shares its matrices with the candidate.

A. Kusupati, M. Singh, K. Bhatia, A. Kumar, P. Jain, M. Varma, *FastGRNN: a fast, accurate, stable and tiny kilobyte sized
gated recurrent neural network*, NeurIPS 2018, section 3.2 there:

.. math::
    z_t &= \sigma(W x_t + U h_{t-1} + b_z) \\
    \tilde h_t &= \tanh(W x_t + U h_{t-1} + b_h) \\
    h_t &= (\zeta (1 - z_t) + \nu) \odot \tilde h_t + z_t \odot h_{t-1}

None of the five texts gives the constants. The free parameters of zeta and nu pass through the logistic function and
start at 1 and -4, the defaults of the authors' own code (github.com/microsoft/EdgeML). The biases start at one, as there,
the matrices as in PyTorch's recurrent layers; in that program (``author``) at N(0, 0.01).
What the original compresses the cell with is left out: matrices of low rank, sparsity, quantisation, piecewise linear activations. The
"FastGRNN-LSQ" of iRNN's text has none of these.
"""

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan


class FastGRNN(Cell, name="fastgrnn"):
    """FastGRNN with full matrices."""

    title = "FastGRNN"
    source = "Kusupati et al. 2018, section 3.2"
    shapes = {
        "U": "d d",  # recurrent weights
        "W": "d p",  # input weights
        "b_z": "d",  # bias of the gate
        "b_h": "d",  # bias of the candidate
        "zeta_free": "",
        "nu_free": "",
    }
    Weights = "U W b_z b_h zeta nu"

    @property
    def zeta(self) -> Tensor:
        return torch.sigmoid(self.zeta_free)

    @property
    def nu(self) -> Tensor:
        return torch.sigmoid(self.nu_free)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (h,)."""
        U, W, b_z, b_h, zeta, nu = weights
        (h,) = state
        a = u @ W.T + h @ U.T
        z = torch.sigmoid(a + b_z)
        candidate = torch.tanh(a + b_h)
        return ((zeta * (1 - z) + nu) * candidate + z * h,)

    def start_text(self) -> None:
        uniform_fan(self.U, self.W, fan=self.hidden_size)
        for b in (self.b_z, self.b_h):
            nn.init.ones_(b)
        nn.init.constant_(self.zeta_free, 1)
        nn.init.constant_(self.nu_free, -4)

    def start_author(self) -> None:
        self.start_text()
        for matrix in (self.U, self.W):
            nn.init.normal_(matrix, std=0.1)
