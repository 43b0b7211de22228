r"""The antisymmetric RNN.

B. Chang, M. Chen, E. Haber, E. Chi, *AntisymmetricRNN: a dynamical system view on recurrent neural
networks*, ICLR 2019, equation 9:

.. math:: x_t = x_{t-1} + \epsilon \tanh((M - M^\top - \gamma I) x_{t-1} + R u_t + b)

The dissertation names no step size and no diffusion. Both are 0.01 here, from the grid of the
original paper. The start ``paper`` draws M from N(0, 1/d) and R from N(0, 1/p). ``author``, the
dissertation's public program, gives M the standard deviation 0.01/d and R the standard deviation
1/p.
"""

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import normal_fan
from longrnn.cells._keywords import Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class AntisymmetricRNNCore(Cell, name="antisymmetric"):
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
        """Take one step, equation (9).

        Parameters
        ----------
        weights : tuple
            ``W`` (d, d) = M - M' - gamma I, ``R`` (d, p), ``b`` (d,) and the step size ``epsilon``.
        state : tuple of (batch, d)
            ``(x,)``, the state x_{t-1}, which is also the output.
        u : (batch, p)
            The input u_t.

        Returns
        -------
        tuple of (batch, d)
            ``(x,)``, the state x_t.
        """
        W, R, b, epsilon = weights
        (x,) = state
        return (x + epsilon * torch.tanh(x @ W.T + u @ R.T + b),)  # (9)

    def start_paper(self) -> None:
        normal_fan(self.M, fan=self.hidden_size)
        normal_fan(self.R, fan=self.input_size)
        nn.init.zeros_(self.b)

    def start_author(self) -> None:
        nn.init.normal_(self.M, std=0.01 / self.hidden_size)
        nn.init.normal_(self.R, std=1 / self.input_size)
        nn.init.zeros_(self.b)


class AntisymmetricRNN(Recurrent, core=AntisymmetricRNNCore):
    """The antisymmetric RNN (Chang et al. 2019, equation 9).

    ::

        x_t = x_{t-1} + epsilon tanh((M - M' - gamma I) x_{t-1} + R u_t + b)

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    epsilon
        Step size in (0, 1], from the paper's grid.
    gamma
        Diffusion, at least 0, from the paper's grid.
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

    Weights of the first layer, in ``layer.cells.l0``: ``M`` (d, d), ``R`` (d, p), ``b`` (d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import AntisymmetricRNN
    >>> rnn = AntisymmetricRNN(10, 20, num_layers=2)
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
        epsilon: float = 0.01,
        gamma: float = 0.01,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "epsilon": epsilon,
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


AntisymmetricRNNCell = one_step(AntisymmetricRNN)
