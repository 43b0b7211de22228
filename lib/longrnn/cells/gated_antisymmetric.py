r"""The antisymmetric RNN with a gate.

B. Chang, M. Chen, E. Haber, E. Chi, *AntisymmetricRNN: a dynamical system view on recurrent neural
networks*, ICLR 2019, the form with a gating mechanism, whose gate and candidate share a matrix:

.. math::
    z_t &= \sigma((M - M^\top - \gamma I) x_{t-1} + R_z u_t + b_z) \\
    x_t &= x_{t-1} + \epsilon \, z_t \odot \tanh((M - M^\top - \gamma I) x_{t-1} + R_x u_t + b_x)

Defaults and initial weights are those of `longrnn.cells.antisymmetric`.
"""

import torch
from torch import Tensor

from longrnn.cells._cell import State
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent
from longrnn.cells.antisymmetric import AntisymmetricRNNCore


class GatedAntisymmetricRNNCore(AntisymmetricRNNCore, name="gated_antisymmetric"):
    """The antisymmetric RNN with an input gate."""

    title = "gated antisymmetric RNN"
    source = "Chang et al. 2019, gating mechanism"
    shapes = {
        "M": "d d",  # free parameter
        "R": "2d p",  # input weights, in the order z x
        "b": "2d",  # biases, same order
    }

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step of the form with a gating mechanism.

        Parameters
        ----------
        weights : tuple
            ``W`` (d, d) = M - M' - gamma I, ``R`` (2d, p) and ``b`` (2d,) in the order z x, and the
            step size ``epsilon``.
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
        from_state = x @ W.T
        from_u_z, from_u_x = (u @ R.T + b).chunk(2, dim=-1)
        z = torch.sigmoid(from_state + from_u_z)
        return (x + epsilon * z * torch.tanh(from_state + from_u_x),)


class GatedAntisymmetricRNN(Recurrent, core=GatedAntisymmetricRNNCore):
    """The antisymmetric RNN with an input gate (Chang et al. 2019, gating mechanism).

    ::

        A = M - M' - gamma I
        z_t = sigmoid(A x_{t-1} + R_z u_t + b_z)
        x_t = x_{t-1} + epsilon z_t * tanh(A x_{t-1} + R_x u_t + b_x)

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

    Weights of the first layer, in ``layer.cells.l0``: ``M`` (d, d), ``R`` (2d, p), ``b`` (2d,), in
    the order z x.

    Examples
    --------
    >>> import torch
    >>> from longrnn import GatedAntisymmetricRNN
    >>> rnn = GatedAntisymmetricRNN(10, 20, num_layers=2)
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


GatedAntisymmetricRNNCell = one_step(GatedAntisymmetricRNN)
