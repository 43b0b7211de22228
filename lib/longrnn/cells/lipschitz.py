r"""The Lipschitz RNN, forward Euler form.

N. B. Erichson, O. Azencot, A. Queiruga, L. Hodgkinson, M. W. Mahoney, *Lipschitz recurrent neural
networks*, ICLR 2021, equations 3, 4 and 7:

.. math::
    x_t &= x_{t-1} + \epsilon \, [A x_{t-1} + \tanh(W x_{t-1} + R u_t + b)] \\
    A &= (1 - \beta)(M_A + M_A^\top) + \beta (M_A - M_A^\top) - \gamma I \\
    W &= (1 - \beta)(M_W + M_W^\top) + \beta (M_W - M_W^\top) - \gamma I

The dissertation names no hyperparameters. The defaults epsilon = 0.03, beta = 0.75 and
gamma = 0.001 are the original authors' for pixel-by-pixel MNIST. The start ``paper`` draws M_A and
M_W from N(0, (0.1 / d)^2) and R from N(0, 1/p). ``author``, the dissertation's public program,
draws M_A and M_W from N(0, (0.1 / 128)^2) at every width and R Glorot uniform.
"""

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import normal_fan
from longrnn.cells._keywords import Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class LipschitzRNNCore(Cell, name="lipschitz"):
    """The Lipschitz RNN discretized by forward Euler."""

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
        "beta": Number(0.75, "[0.5, 1]"),  # weight of the skew-symmetric part, 1 is skew-symmetric
        "gamma": Number(0.001, "[0, inf)"),  # diffusion
    }
    Weights = "A W R b epsilon"

    @property
    def A(self) -> Tensor:
        """The matrix of the linear part, (d, d)."""
        return self._symmetric_skew(self.M_A)

    @property
    def W(self) -> Tensor:
        """The matrix inside tanh, (d, d)."""
        return self._symmetric_skew(self.M_W)

    def _symmetric_skew(self, M: Tensor) -> Tensor:
        """Return (1 - beta)(M + M') + beta (M - M') - gamma I."""
        identity = torch.eye(len(M), dtype=M.dtype, device=M.device)
        return (1 - self.beta) * (M + M.T) + self.beta * (M - M.T) - self.gamma * identity

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step, the forward Euler form of (3).

        Parameters
        ----------
        weights : tuple
            ``A`` and ``W`` (d, d), the matrices of (4), ``R`` (d, p), ``b`` (d,) and the step size
            ``epsilon``.
        state : tuple of (batch, d)
            ``(x,)``, the state x_{t-1}, which is also the output.
        u : (batch, p)
            The input u_t.

        Returns
        -------
        tuple of (batch, d)
            ``(x,)``, the state x_t.
        """
        A, W, R, b, epsilon = weights
        (x,) = state
        return (x + epsilon * (x @ A.T + torch.tanh(x @ W.T + u @ R.T + b)),)

    def start_paper(self) -> None:
        for M in (self.M_A, self.M_W):
            M.normal_().mul_(0.1).div_(self.hidden_size)
        normal_fan(self.R, fan=self.input_size)
        nn.init.zeros_(self.b)

    def start_author(self) -> None:
        for M in (self.M_A, self.M_W):
            nn.init.normal_(M, std=0.1 / 128)
        nn.init.xavier_uniform_(self.R)
        nn.init.zeros_(self.b)


class LipschitzRNN(Recurrent, core=LipschitzRNNCore):
    """The Lipschitz RNN, forward Euler form (Erichson et al. 2021, (3), (4), (7)).

    ::

        x_t = x_{t-1} + epsilon (A x_{t-1} + tanh(W x_{t-1} + R u_t + b))
        A = (1 - beta) (M_A + M_A') + beta (M_A - M_A') - gamma I,    and W from M_W in the same way

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    epsilon
        Step size in (0, 1].
    beta
        Weight of the skew-symmetric part, in [0.5, 1].
    gamma
        Diffusion, at least 0. All three defaults are the authors' for pixel-by-pixel MNIST.
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
    see `Recurrent.forward`. The state is the tensor x, (num_layers * num_directions, batch,
    hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``M_A`` and ``M_W`` (d, d), ``R`` (d, p),
    ``b`` (d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import LipschitzRNN
    >>> rnn = LipschitzRNN(10, 20, num_layers=2)
    >>> output, x_n = rnn(torch.randn(5, 3, 10))
    >>> output.shape, x_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        epsilon: float = 0.03,
        beta: float = 0.75,
        gamma: float = 0.001,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "epsilon": epsilon,
            "beta": beta,
            "gamma": gamma,
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


LipschitzRNNCell = one_step(LipschitzRNN)
