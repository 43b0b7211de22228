r"""The inverse RNN: the LU RNN without the factors.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.9, after
definition 2.4:

.. math:: x_t = \tanh(W_t x_{t-1} + R u_t + b_1) \tag{2.28}

W_t is W for tau steps, then the inverse of W for tau steps, and so on (see
`longrnn.cells._interchange` for how the definition is read).

The paper says it is parametrized directly "with the inverse". It does not say which matrix is used
first; here it is the stored one. The inverse is computed once per run, and a singular W is an
error. The paper gives no initial weights. W starts orthogonal, so its inverse is its transpose. R
and b start as in PyTorch's recurrent layers.
"""

import torch
from torch import Tensor, nn

from longrnn.cells._activation import Activation
from longrnn.cells._cell import State
from longrnn.cells._checks import has_values
from longrnn.cells._init import ADDING, uniform_fan
from longrnn.cells._interchange import InterchangingCell, alternate
from longrnn.cells._modes import at_least_float32
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class SingularMatrixError(ArithmeticError, ValueError):
    """W has no inverse."""


class InverseRNNCore(InterchangingCell, name="inverse_rnn"):
    """The inverse RNN of section 2.9."""

    title = "inverse RNN"
    source = "Johnston 2024, section 2.9"
    shapes = {
        "W": "d d",  # recurrent weights, invertible
        "R": "d p",  # input weights
        "b": "d",  # bias b_1
    }
    Weights = "W inverse R b tau"

    def weights(self) -> tuple:
        """Return the weights and the inverse of W.

        Inside vmap and while tracing, values cannot be checked. There the states of a singular
        network become infinite or NaN instead.

        Returns
        -------
        Weights
            ``W`` and ``inverse`` (d, d), ``R`` (d, p), ``b`` (d,) and ``tau``, the number of steps
            between interchanges.

        Raises
        ------
        SingularMatrixError
            W has no inverse.
        """
        inverse, failure = torch.linalg.inv_ex(at_least_float32(self.W))
        if has_values(failure) and bool(failure):
            raise SingularMatrixError(
                "inverse_rnn: expected an invertible W, got a singular one; lower the learning "
                "rate, or use lu_rnn, whose pivots stay away from zero"
            )
        return self.Weights(self.W, inverse.to(self.W.dtype), self.R, self.b, self.tau)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor, phi: Activation = torch.tanh) -> State:
        """Take one step, equation (2.28).

        Parameters
        ----------
        weights : tuple
            ``W`` and ``inverse`` (d, d), ``R`` (d, p), ``b`` (d,) and ``tau``, see `weights`.
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
        W, inverse, R, b, tau = weights
        x, t = state
        product = alternate(t, tau, x @ W.T, x @ inverse.T)
        return phi(product + u @ R.T + b), t + 1  # (2.28)

    def start_paper(self) -> None:
        nn.init.orthogonal_(self.W)
        uniform_fan(self.R, self.b, fan=self.hidden_size)

    starts = ADDING


class InverseRNN(Recurrent, core=InverseRNNCore):
    """The inverse RNN: a matrix that alternates with its inverse (Johnston 2024, section 2.9).

    ::

        x_t = tanh(W_t x_{t-1} + R u_t + b)
        W_t = W for tau steps, then inv(W) for tau steps, ..

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

    Weights of the first layer, in ``layer.cells.l0``: ``W`` (d, d), ``R`` (d, p), ``b`` (d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import InverseRNN
    >>> rnn = InverseRNN(10, 20, num_layers=2)
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


InverseRNNCell = one_step(InverseRNN)
