r"""coRNN: coupled, controlled, damped oscillators.

T. K. Rusch, S. Mishra, *Coupled oscillatory recurrent neural network (coRNN)*, ICLR 2021,
equation 3:

.. math::
    y_n &= y_{n-1} + \Delta t \, z_n \\
    z_n &= z_{n-1} + \Delta t \, \tanh(W y_{n-1} + \mathcal{W} z_{n-1} + V u_n + b)
           - \Delta t \, \gamma y_{n-1} - \Delta t \, \epsilon z_{\bar n} \tag{3}

where n-bar is n - 1 here, as in the authors' program. The paper also allows n-bar = n, which is
solved for z_n.

The papers that this repository reproduces don't give the constants. The defaults are those of the
authors' program for sequential MNIST with 256 units (github.com/tk-rusch/coRNN, sMNIST). That
program (``author``) holds all weights in one linear layer of n = p + 2d inputs, drawn from
U(-1/sqrt(n), 1/sqrt(n)).
"""

import torch
from torch import Tensor

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._keywords import Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class CoRNNCore(Cell, name="cornn"):
    """The coupled oscillatory RNN."""

    title = "coRNN"
    source = "Rusch and Mishra 2021 (ICLR), (3)"
    shapes = {
        "W": "d d",  # weights on positions
        "W_z": "d d",  # weights on velocities, script W
        "V": "d p",  # input weights
        "b": "d",  # bias
    }
    hyper_parameters = {
        "dt": Number(0.042, "(0, 1)"),  # time step
        "gamma": Number(2.7, "(0, inf)"),  # frequency
        "epsilon": Number(4.7, "(0, inf)"),  # damping
    }
    Weights = "W W_z V b dt gamma epsilon"
    states = 2

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step, equation (3).

        Parameters
        ----------
        weights : tuple
            ``W`` and ``W_z`` (d, d), ``V`` (d, p), ``b`` (d,), and the numbers ``dt``, ``gamma``
            and ``epsilon``.
        state : tuple of (batch, d)
            ``(y, z)`` at n - 1: positions, which are the output, and velocities.
        u : (batch, p)
            The input u_n.

        Returns
        -------
        tuple of (batch, d)
            ``(y, z)`` at n.
        """
        W, W_z, V, b, dt, gamma, epsilon = weights
        y, z = state
        force = torch.tanh(y @ W.T + z @ W_z.T + u @ V.T + b) - gamma * y
        z = z + dt * force - dt * epsilon * z  # (3), second line
        y = y + dt * z  # (3), first line
        return y, z

    def start_author(self) -> None:
        fan = self.input_size + 2 * self.hidden_size
        uniform_fan(self.W, self.W_z, self.V, self.b, fan=fan)


class CoRNN(Recurrent, core=CoRNNCore):
    """coRNN: coupled, damped oscillators (Rusch and Mishra 2021, equation 3).

    ::

        z_n = z_{n-1} + dt tanh(W y_{n-1} + W_z z_{n-1} + V u_n + b)
                  - dt gamma y_{n-1} - dt epsilon z_{n-1}
        y_n = y_{n-1} + dt z_n

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    dt
        Time step in (0, 1).
    gamma
        Frequency, positive.
    epsilon
        Damping, positive. All three defaults are the authors' for sequential MNIST.
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
    see `Recurrent.forward`. The state is the tuple (y, z): positions, which are the output, and
    velocities. Its tensors are (num_layers * num_directions, batch, hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``W`` and ``W_z`` (d, d), ``V`` (d, p),
    ``b`` (d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import CoRNN
    >>> cornn = CoRNN(10, 20, num_layers=2)
    >>> output, (y_n, z_n) = cornn(torch.randn(5, 3, 10))
    >>> output.shape, y_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dt: float = 0.042,
        gamma: float = 2.7,
        epsilon: float = 4.7,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "dt": dt,
            "gamma": gamma,
            "epsilon": epsilon,
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


CoRNNCell = one_step(CoRNN)
