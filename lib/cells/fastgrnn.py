r"""FastGRNN: one gate that shares its matrices with the candidate.

A. Kusupati, M. Singh, K. Bhatia, A. Kumar, P. Jain, M. Varma, *FastGRNN: a fast, accurate, stable and tiny kilobyte sized
gated recurrent neural network*, NeurIPS 2018, section 3.2 there:

.. math::
    z_t &= \sigma(W x_t + U h_{t-1} + b_z) \\
    \tilde h_t &= \tanh(W x_t + U h_{t-1} + b_h) \\
    h_t &= (\zeta (1 - z_t) + \nu) \odot \tilde h_t + z_t \odot h_{t-1} \\
    W &= W_1 W_2^\top, \qquad U = U_1 U_2^\top

None of the five texts gives the constants. The free parameters of zeta and nu pass through the logistic function and
start at 1 and -4, the defaults of the authors' own code (github.com/microsoft/EdgeML). The biases start at one, as there,
the matrices as in PyTorch's recurrent layers, their factors at N(0, 1/(3 rank)) and N(0, 1/d): entries of the product have
the variance 1/(3d) of a full matrix's; in that program (``author``) matrices and factors start at N(0, 0.01).
The original's sparsity, quantisation and piecewise linear activations compress a trained cell; they do not change its equations and are left out.
"""

import math
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from lib.cells._cell import Cell, State
from lib.cells._init import normal, uniform_fan
from lib.cells._keywords import Number


class FastGRNN(Cell, name="fastgrnn"):
    """FastGRNN, its matrices full or products of two factors."""

    title = "FastGRNN"
    source = "Kusupati et al. 2018, section 3.2"
    hyper_parameters = {
        "rank_U": Number(None, "[1, inf)", whole=True),  # None for a full matrix
        "rank_W": Number(None, "[1, inf)", whole=True),
    }
    Weights = "U W b_z b_h zeta nu"

    @classmethod
    def conflict(cls, given: SimpleNamespace, p: int | None, d: int | None) -> str:
        U, W = d or math.inf, min(d or math.inf, p or math.inf)
        fits = (given.rank_U or 1) <= U and (given.rank_W or 1) <= W
        return "" if fits else f"1 <= rank_U <= {U} and 1 <= rank_W <= {W} (or None)"

    def prepare(self) -> None:
        self.shapes = {
            # recurrent and input weights, or their factors
            "U": ("d d",) if self.rank_U is None else ("d rank_U", "d rank_U"),
            "W": ("d p",) if self.rank_W is None else ("d rank_W", "p rank_W"),
            "b_z": "d",  # biases of gate and candidate
            "b_h": "d",
            "zeta_free": "",
            "nu_free": "",
        }

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (h,)."""
        U, W, b_z, b_h, zeta, nu = weights
        (h,) = state
        a = u @ W.T + h @ U.T
        z = torch.sigmoid(a + b_z)
        candidate = torch.tanh(a + b_h)
        return ((zeta * (1 - z) + nu) * candidate + z * h,)

    def weights(self) -> tuple:
        U, W = (
            factors[0] if len(factors) == 1 else factors[0] @ factors[1].T
            for factors in (self.U, self.W)
        )
        zeta, nu = torch.sigmoid(self.zeta_free), torch.sigmoid(self.nu_free)
        return self.Weights(U, W, self.b_z, self.b_h, zeta, nu)

    def start_text(self) -> None:
        for factors in (self.U, self.W):
            if len(factors) == 1:
                uniform_fan(factors[0], fan=self.hidden_size)
            else:
                normal(factors[0], over=3 * factors[0].shape[1])
                normal(factors[1], over=self.hidden_size)
        for b in (self.b_z, self.b_h):
            nn.init.ones_(b)
        nn.init.constant_(self.zeta_free, 1)
        nn.init.constant_(self.nu_free, -4)

    def start_author(self) -> None:
        self.start_text()
        for factor in (*self.U, *self.W):
            nn.init.normal_(factor, std=0.1)
