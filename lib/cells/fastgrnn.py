r"""FastGRNN: one gate that shares its matrices with the candidate.

A. Kusupati, M. Singh, K. Bhatia, A. Kumar, P. Jain, M. Varma, *FastGRNN: a fast, accurate, stable and tiny kilobyte sized
gated recurrent neural network*, NeurIPS 2018, section 3.2 there:

.. math::
    z_t &= \sigma(W x_t + U h_{t-1} + b_z) \\
    \tilde h_t &= \tanh(W x_t + U h_{t-1} + b_h) \\
    h_t &= (\zeta (1 - z_t) + \nu) \odot \tilde h_t + z_t \odot h_{t-1} \\
    W &= W_1 W_2^\top, \qquad U = U_1 U_2^\top

============ ============= ======= ================================================
symbol       name          shape   meaning
============ ============= ======= ================================================
x_t          ``u``         (p,)    input
h_t          ``h``         (d,)    state, read out
U            ``U``         (d, d)  recurrent weights, U_1 U_2' where a rank is given
W            ``W``         (d, p)  input weights, W_1 W_2' where a rank is given
b_z, b_h     ``b_z b_h``   (d,)    biases of gate and candidate
zeta, nu     ``zeta nu``   scalar  trained weights, in (0, 1)
============ ============= ======= ================================================

None of the five texts gives the constants. The free parameters of zeta and nu pass through the logistic function and
start at 1 and -4, the defaults of the authors' own code (github.com/microsoft/EdgeML). The biases start at one, as there,
the matrices as in PyTorch's recurrent layers, their factors at N(0, 1/(3 rank)) and N(0, 1/d): entries of the product have
the variance 1/(3d) of a full matrix's; in that program (``author``) matrices and factors start at N(0, 0.01).
The original's sparsity, quantisation and piecewise linear activations compress a trained cell; they do not change its equations and are left out.
"""

import math
from collections import namedtuple
from collections.abc import Mapping
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from lib.cells._cell import Cell, State
from lib.cells._init import named_starts, uniform_fan
from lib.cells._keywords import Number

Weights = namedtuple("Weights", "U W b_z b_h zeta nu")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (h,) of (batch, d), `u` is (batch, p)."""
    U, W, b_z, b_h, zeta, nu = weights
    (h,) = state
    a = u @ W.T + h @ U.T
    z = torch.sigmoid(a + b_z)
    candidate = torch.tanh(a + b_h)
    return ((zeta * (1 - z) + nu) * candidate + z * h,)


def start_text(cell: Cell) -> None:
    d = cell.hidden_size
    for factors in (cell.U, cell.W):
        if len(factors) == 1:
            uniform_fan(factors[0], fan=d)
        else:
            left, right = factors
            left.normal_().div_(math.sqrt(3 * left.shape[1]))
            right.normal_().div_(math.sqrt(d))
    for b in (cell.b_z, cell.b_h):
        nn.init.ones_(b)
    nn.init.constant_(cell.zeta_free, 1)
    nn.init.constant_(cell.nu_free, -4)


def start_author(cell: Cell) -> None:
    start_text(cell)
    for factor in (*cell.U, *cell.W):
        nn.init.normal_(factor, std=0.1)


class FastGRNN(Cell, name="fastgrnn"):
    """FastGRNN, its matrices full or of the ranks `rank_U` and `rank_W`."""

    title = "FastGRNN"
    source = "Kusupati et al. 2018, section 3.2"
    step = step
    hyper_parameters = {
        "rank_U": Number(None, "[1, inf)", whole=True),
        "rank_W": Number(None, "[1, inf)", whole=True),
    }
    starts = named_starts(text=start_text, author=start_author)

    @classmethod
    def conflict(cls, given: SimpleNamespace, p: int | None, d: int | None) -> str:
        U, W = d or math.inf, min(d or math.inf, p or math.inf)
        fits = (given.rank_U or 1) <= U and (given.rank_W or 1) <= W
        return "" if fits else f"1 <= rank_U <= {U} and 1 <= rank_W <= {W} (or None)"

    @property
    def shapes(self) -> Mapping[str, str | tuple[str, ...]]:
        """A matrix is one weight, or the two factors of a product of the given rank."""
        U, W = self.rank_U, self.rank_W
        return {
            "U": ("d d",) if U is None else (f"d {U}", f"d {U}"),
            "W": ("d p",) if W is None else (f"d {W}", f"p {W}"),
            "b_z": "d",
            "b_h": "d",
            "zeta_free": "",
            "nu_free": "",
        }

    @property
    def zeta(self) -> Tensor:
        return torch.sigmoid(self.zeta_free)

    @property
    def nu(self) -> Tensor:
        return torch.sigmoid(self.nu_free)

    def weights(self) -> Weights:
        return Weights(_product(self.U), _product(self.W), self.b_z, self.b_h, self.zeta, self.nu)


def _product(factors: nn.ParameterList) -> Tensor:
    return factors[0] if len(factors) == 1 else factors[0] @ factors[1].T
