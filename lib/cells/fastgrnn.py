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
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lib.cells._cell import Cell, State
from lib.cells._init import named_starts, uniform_fan


class Weights(NamedTuple):
    U: Tensor
    W: Tensor
    b_z: Tensor
    b_h: Tensor
    zeta: Tensor
    nu: Tensor


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
    """FastGRNN, full or of low rank.

    Parameters
    ----------
    input_size, hidden_size
        Features p and recurrent dimension d.
    rank_U, rank_W
        Ranks of U and W, in 1..d and 1..min(d, p); None for a full matrix.
    """

    title = "FastGRNN"
    source = "Kusupati et al. 2018, section 3.2"
    step = step
    starts = named_starts(text=start_text, author=start_author)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        rank_U: int | None = None,
        rank_W: int | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        d, p = hidden_size, input_size
        if not all(
            rank is None or 1 <= rank <= most for rank, most in ((rank_U, d), (rank_W, min(d, p)))
        ):
            raise ValueError(
                f"fastgrnn: expected 1 <= rank_U <= {d} and 1 <= rank_W <= {min(d, p)} (or None), "
                f"got {rank_U} and {rank_W}"
            )
        self.U = _factors(d, d, rank_U)
        self.W = _factors(d, p, rank_W)
        self.b_z = nn.Parameter(torch.empty(d))
        self.b_h = nn.Parameter(torch.empty(d))
        self.zeta_free = nn.Parameter(torch.empty(()))
        self.nu_free = nn.Parameter(torch.empty(()))
        self.start("text")

    @property
    def zeta(self) -> Tensor:
        return torch.sigmoid(self.zeta_free)

    @property
    def nu(self) -> Tensor:
        return torch.sigmoid(self.nu_free)

    def weights(self) -> Weights:
        return Weights(_product(self.U), _product(self.W), self.b_z, self.b_h, self.zeta, self.nu)


def _factors(rows: int, columns: int, rank: int | None) -> nn.ParameterList:
    """Return a matrix as one parameter, or as the two factors of a product of the given rank."""
    shapes = [(rows, columns)] if rank is None else [(rows, rank), (columns, rank)]
    return nn.ParameterList(torch.empty(shape) for shape in shapes)


def _product(factors: nn.ParameterList) -> Tensor:
    return factors[0] if len(factors) == 1 else factors[0] @ factors[1].T
