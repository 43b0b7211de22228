r"""The LSTM whose input and forget gates are scaled by a small time step, versions 1 and 2.

T. K. Rusch, S. Mishra, N. B. Erichson, M. W. Mahoney, *Long expressive memory for sequence
modeling*, ICLR 2022, appendix D and Table 11: the LSTM (15) with the gates

.. math::
    \hat f_n &= \Delta t \, f_n,       & \hat\imath_n &= \Delta t \, i_n && \text{(version 1)} \\
    \hat f_n &= (1 - \Delta t) \, f_n, & \hat\imath_n &= \Delta t \, i_n && \text{(version 2)}

The paper tunes Delta t but does not report its value, so the default is ours. In version 1 a
smaller step means faster forgetting.
"""

import torch
from torch import Tensor

from longrnn.cells._cell import State
from longrnn.cells._keywords import Choice, Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent
from longrnn.cells.lstm import LSTMCore


class DtLSTMCore(LSTMCore, name="dt_lstm"):
    """The LSTM with scaled input and forget gates; the versions differ in the forget gate."""

    title = "dt-LSTM"
    source = "Rusch et al. 2022, appendix D"
    hyper_parameters = {"dt": Number(0.1, "(0, 1)"), "version": Choice((2, 1))}
    Weights = "W R b input_scale forget_scale"

    @property
    def input_scale(self) -> float:
        """The factor of the input gate."""
        return self.dt

    @property
    def forget_scale(self) -> float:
        """The factor of the forget gate."""
        if self.version == 1:
            return self.dt
        return 1 - self.dt

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step: (15) with the scaled gates of appendix D.

        Parameters
        ----------
        weights : tuple
            ``W`` (4d, d), ``R`` (4d, p) and ``b`` (4d,) with the gates in the order i f g o, and
            the numbers ``input_scale`` and ``forget_scale``, which multiply the gates i and f.
        state : tuple of (batch, d)
            ``(h, c)`` before the step: the hidden state, which is the output, and the cell state.
        u : (batch, p)
            The input u_n.

        Returns
        -------
        tuple of (batch, d)
            ``(h, c)`` after the step.
        """
        W, R, b, input_scale, forget_scale = weights
        h, c = state
        i, f, g, o = (h @ W.T + u @ R.T + b).chunk(4, dim=-1)
        c = forget_scale * torch.sigmoid(f) * c + input_scale * torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class DtLSTM(Recurrent, core=DtLSTMCore):
    """The LSTM with input and forget gates scaled by a time step (Rusch et al. 2022, D).

    ::

        c_t = (1 - dt) f_t * c_{t-1} + dt i_t * g_t          (version 2; the LSTM's gates)
        c_t = dt f_t * c_{t-1} + dt i_t * g_t                (version 1)
        h_t = o_t * tanh(c_t)

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    dt
        Time step in (0, 1). The paper tunes it and prints no value; the default is ours.
    version
        1 or 2, as in the equations.
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
    see `Recurrent.forward`. The state is the tuple (h, c): the hidden state, which is the output,
    and the cell state. Its tensors are (num_layers * num_directions, batch, hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``W`` (4d, d), ``R`` (4d, p), ``b`` (4d,),
    gates in the order i f g o.

    Examples
    --------
    >>> import torch
    >>> from longrnn import DtLSTM
    >>> lstm = DtLSTM(10, 20, num_layers=2)
    >>> output, (h_n, c_n) = lstm(torch.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dt: float = 0.1,
        version: int = 2,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "dt": dt,
            "version": version,
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


DtLSTMCell = one_step(DtLSTM)
