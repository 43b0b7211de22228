r"""The LU RNN: the basic RNN whose matrix, stored as its factors, takes turns with its inverse.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, definition 2.4:

.. math:: x_t = \tanh(W_t x_{t-1} + R u_t + b_1) \tag{2.28}

with W_t = W = L U for tau steps, 10 in the text's experiment, then its inverse for as many, and so on (see `longrnn.cells._interchange`
for the reading); L and U are unit lower and upper triangular.

Neither W nor its inverse is formed here: W x is two triangular products, the inverse's is two triangular solves, O(d^2)
each. (`longrnn.kernels.cpu_rnn` forms both once per sequence, the inverse by solves.) The unit diagonal of L is the usual choice and makes the factors as many numbers as W has.

A pivot near zero would make the inverse unbounded, which the text does not discuss. The pivots are
:math:`\pm\sqrt{a^2 + \delta^2}` for free parameters a of either sign (plus for zero): never smaller than delta, the
gradient never switched off as by clipping. A change of sign jumps by 2 delta.

The text gives no initialisation: a = 1 and N(0, 1/(16 d)) off the diagonal, so that W and its inverse are well
conditioned; R and b as in PyTorch's recurrent layers. The activation is that of the experiments.
"""

import math

import torch
from torch import Tensor

from longrnn.cells._activation import Activation, rectify
from longrnn.cells._cell import Cell, State
from longrnn.cells._init import ADDING, uniform_fan
from longrnn.cells._interchange import CHOICES, alternate
from longrnn.cells._keywords import Number


def multiply(L: Tensor, U: Tensor, x: Tensor) -> Tensor:
    """Return L U x for the rows x of (batch, d)."""
    return x @ U.T @ L.T


def solve(L: Tensor, U: Tensor, x: Tensor) -> Tensor:
    """Return the inverse of L U times x for the rows x of (batch, d), by two triangular solves."""
    x = torch.linalg.solve_triangular(L.T, x, upper=True, left=False, unitriangular=True)
    return torch.linalg.solve_triangular(U.T, x, upper=False, left=False)


class LURNN(Cell, name="lu_rnn"):
    """The LU RNN of definition 2.4."""

    title = "LU RNN"
    source = "Johnston 2024, (2.28)"
    shapes = {
        "factors": "d d",  # free parameter: L below the diagonal, U above, pivots' on it
        "R": "d p",  # input weights
        "b": "d",  # bias b_1
    }
    hyper_parameters = CHOICES | {"pivot": Number(1e-3, "(0, inf)")}  # delta, the smallest pivot
    Weights = "L U R b tau"
    states = 2
    prepare = rectify

    def weights(self) -> tuple:
        free = self.factors.diagonal()
        size = torch.sqrt(free.square() + self.pivot**2)
        pivots = torch.where(free < 0, -size, size)
        L = self.factors.tril(-1) + torch.diag(torch.ones_like(free))
        U = self.factors.triu(1) + torch.diag(pivots)
        return self.Weights(L, U, self.R, self.b, self.tau)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor, phi: Activation = torch.tanh) -> State:
        """One step; `state` is (x, t), t the steps done."""
        L, U, R, b, tau = weights
        x, t = state
        product = alternate(t, tau, multiply(L, U, x), solve(L, U, x))
        return phi(product + u @ R.T + b), t + 1  # (2.28)

    def start_text(self) -> None:
        self.factors.normal_().div_(4 * math.sqrt(self.hidden_size)).fill_diagonal_(1)
        uniform_fan(self.R, self.b, fan=self.hidden_size)

    starts = ADDING

    @torch.no_grad()
    def set_matrix(self, W: Tensor) -> None:
        """Let the factors be those of W, (d, d), without exchanges of rows; raises `ValueError` where a pivot is smaller than `pivot`."""
        d = self.hidden_size
        if W.shape != (d, d):
            raise ValueError(f"lu_rnn: expected a matrix ({d}, {d}), got {tuple(W.shape)}")
        factors = W.double().clone()
        for k in range(d):
            if not factors[k, k].abs() >= self.pivot:
                raise ValueError(
                    f"lu_rnn: expected a matrix whose pivots are at least {self.pivot} in size, got "
                    f"{factors[k, k].item():.1e} in row {k}; reorder its rows or choose a smaller pivot"
                )
            factors[k + 1 :, k] /= factors[k, k]
            factors[k + 1 :, k + 1 :] -= torch.outer(factors[k + 1 :, k], factors[k, k + 1 :])
        pivots = factors.diagonal().clone()
        free = pivots.sign() * torch.sqrt(pivots.square() - self.pivot**2)
        self.factors.copy_(factors.diagonal_scatter(free))
