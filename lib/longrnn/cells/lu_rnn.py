r"""The LU RNN: the basic RNN whose matrix, stored as its factors, alternates with its inverse.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, definition 2.4:

.. math:: x_t = \tanh(W_t x_{t-1} + R u_t + b_1) \tag{2.28}

W_t is W = L U for tau steps (10 in the paper's experiment), then the inverse of W for tau steps,
and so on (see `longrnn.cells._interchange` for how the definition is read). L is unit lower
triangular and U is upper triangular.

The step forms neither W nor its inverse. It multiplies by W with two triangular products, and by
the inverse with two triangular solves, O(d^2) each. The engine in `longrnn.kernels.cpu_lu_rnn`
forms both matrices once per run. The unit diagonal of L is the usual choice. With it the factors
have as many numbers as W.

A pivot near zero would make the inverse unbounded, which the paper does not discuss. The pivots are
:math:`\pm\sqrt{a^2 + \delta^2}` with the sign of a free parameter a (plus for zero). Their size is
at least delta, and the gradient is never switched off as it would be by clipping. When a changes
its sign, the pivot jumps by 2 delta.

The paper gives no initial weights. They are a = 1 and N(0, 1/(16 d)) off the diagonal, so that W
and its inverse are well conditioned; R and b are as in PyTorch's recurrent layers. The activation
is that of the experiments.
"""

import math

import torch
from torch import Tensor

from longrnn.cells._activation import Activation
from longrnn.cells._cell import State
from longrnn.cells._init import ADDING, uniform_fan
from longrnn.cells._interchange import InterchangingCell, alternate
from longrnn.cells._keywords import Number
from longrnn.cells._modes import at_least_float32
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


def multiply(L: Tensor, U: Tensor, x: Tensor) -> Tensor:
    """Multiply the rows of a matrix by L U.

    Parameters
    ----------
    L : (d, d)
        The unit lower triangular factor.
    U : (d, d)
        The upper triangular factor.
    x : (batch, d)
        The rows.

    Returns
    -------
    (batch, d)
        L U x for every row x.
    """
    return x @ U.T @ L.T


def solve(L: Tensor, U: Tensor, x: Tensor) -> Tensor:
    """Multiply the rows of a matrix by the inverse of L U, with two triangular solves.

    Parameters
    ----------
    L : (d, d)
        The unit lower triangular factor.
    U : (d, d)
        The upper triangular factor.
    x : (batch, d)
        The rows.

    Returns
    -------
    (batch, d)
        The solution v of L U v = x for every row x: first L y = x is solved, then U v = y.
    """
    L_T = at_least_float32(L).T
    U_T = at_least_float32(U).T
    x_32 = at_least_float32(x)
    y = torch.linalg.solve_triangular(L_T, x_32, upper=True, left=False, unitriangular=True)
    v = torch.linalg.solve_triangular(U_T, y, upper=False, left=False)
    return v.to(x.dtype)


class LURNNCore(InterchangingCell, name="lu_rnn"):
    """The LU RNN of definition 2.4."""

    title = "LU RNN"
    source = "Johnston 2024, (2.28)"
    shapes = {
        "factors": "d d",  # free parameters: L below the diagonal, U above it, pivots on it
        "R": "d p",  # input weights
        "b": "d",  # bias b_1
    }
    hyper_parameters = InterchangingCell.hyper_parameters | {
        "pivot": Number(1e-3, "(0, inf)"),  # delta, the smallest pivot
    }
    Weights = "L U R b tau"

    def weights(self) -> tuple:
        """Return the first argument of `step`.

        Returns
        -------
        Weights
            The factors ``L`` and ``U`` (d, d), ``R`` (d, p), ``b`` (d,) and ``tau``, the number of
            steps between interchanges.
        """
        free = self.factors.diagonal()
        size = torch.sqrt(free.square() + self.pivot**2)
        pivots = torch.where(free < 0, -size, size)
        L = self.factors.tril(-1) + torch.diag(torch.ones_like(free))
        U = self.factors.triu(1) + torch.diag(pivots)
        return self.Weights(L, U, self.R, self.b, self.tau)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor, phi: Activation = torch.tanh) -> State:
        """Take one step, equation (2.28).

        Parameters
        ----------
        weights : tuple
            ``L``, ``U``, ``R``, ``b`` and ``tau``, see `weights`.
        state : tuple of (batch, d)
            ``(x, t)``: the state x_{t-1}, which is also the output, and the number of steps before
            this one.
        u : (batch, p)
            The input u_t.
        phi : callable
            The activation.

        Returns
        -------
        tuple of (batch, d)
            ``(x, t + 1)``, with the state x_t.
        """
        L, U, R, b, tau = weights
        x, t = state
        product = alternate(t, tau, multiply(L, U, x), solve(L, U, x))
        return phi(product + u @ R.T + b), t + 1  # (2.28)

    def start_paper(self) -> None:
        self.factors.normal_().div_(4 * math.sqrt(self.hidden_size)).fill_diagonal_(1)
        uniform_fan(self.R, self.b, fan=self.hidden_size)

    starts = ADDING

    @torch.no_grad()
    def set_matrix(self, W: Tensor) -> None:
        """Set the factors to those of a matrix, without row exchanges.

        Parameters
        ----------
        W : (d, d)
            The matrix.

        Raises
        ------
        ValueError
            The matrix has another shape, or a pivot is smaller than `pivot`.
        """
        d = self.hidden_size
        if W.shape != (d, d):
            raise ValueError(f"lu_rnn: expected a matrix ({d}, {d}), got {tuple(W.shape)}")
        factors = W.double().clone()
        for k in range(d):
            if not factors[k, k].abs() >= self.pivot:
                raise ValueError(
                    f"lu_rnn: expected a matrix whose pivots are at least {self.pivot} in size, "
                    f"got {factors[k, k].item():.1e} in row {k}; reorder its rows or choose a "
                    "smaller pivot"
                )
            factors[k + 1 :, k] /= factors[k, k]
            factors[k + 1 :, k + 1 :] -= torch.outer(factors[k + 1 :, k], factors[k, k + 1 :])
        pivots = factors.diagonal().clone()
        size = torch.sqrt(pivots.square() - self.pivot**2)
        # The smallest pivot has the free parameter 0, which would lose its sign.
        size = size.clamp_min(torch.finfo(self.factors.dtype).tiny)
        free = pivots.sign() * size
        self.factors.copy_(factors.diagonal_scatter(free))


class LURNN(Recurrent, core=LURNNCore):
    """The LU RNN: a matrix as its factors alternates with its inverse (Johnston 2024, (2.28)).

    ::

        x_t = tanh(W_t x_{t-1} + R u_t + b)
        W_t = L U for tau steps, then inv(L U) for tau steps, ..

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    tau
        Steps between interchanges of the matrix and its inverse.
    activation
        ``tanh`` or ``relu``; ReLU runs the reference only.
    pivot
        Smallest pivot of U, positive.
    bias
        Whether the cells have biases.
    batch_first
        Whether inputs and outputs are (batch, time, features).
    dropout
        Dropout probability in training, for the outputs of all layers but the last.
    bidirectional
        Whether each layer also reads the sequences backward.
    device, dtype
        Device and dtype of the weights.

    Notes
    -----
    ``output, state = layer(input, state)`` takes and returns sequences as `torch.nn.LSTM` does;
    see `Recurrent.forward`. The state is the tuple (x, t): the memory state, which is the output,
    and the number of steps done. Its tensors are (num_layers * num_directions, batch,
    hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``factors`` (d, d), ``R`` (d, p), ``b``
    (d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import LURNN
    >>> rnn = LURNN(10, 20, num_layers=2)
    >>> output, (x_n, t_n) = rnn(torch.randn(5, 3, 10))
    >>> output.shape, x_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        tau: int = 10,
        activation: str = "tanh",
        pivot: float = 0.001,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "tau": tau,
            "activation": activation,
            "pivot": pivot,
        }
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            hyper_parameters,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )


LURNNCell = one_step(LURNN)
