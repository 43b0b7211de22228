r"""The LSTM whose input and forget gates are scaled by a small time step, versions 1 and 2.

T. K. Rusch, S. Mishra, N. B. Erichson, M. W. Mahoney, *Long expressive memory for sequence modeling*, ICLR 2022, appendix D
and Table 11: the LSTM (15) with the gates

.. math::
    \hat f_n &= \Delta t \, f_n,       & \hat\imath_n &= \Delta t \, i_n && \text{(version 1)} \\
    \hat f_n &= (1 - \Delta t) \, f_n, & \hat\imath_n &= \Delta t \, i_n && \text{(version 2)}

The text tunes Delta t and does not print it: the default is ours. Version 1 forgets the faster the smaller the step is.
"""

import torch
from torch import Tensor

from longrnn.cells._cell import State
from longrnn.cells._keywords import Choice, Number
from longrnn.cells.lstm import LSTM


class DtLSTM(LSTM, name="dt_lstm"):
    """The LSTM with scaled input and forget gates; the versions differ in the forget gate."""

    title = "dt-LSTM"
    source = "Rusch et al. 2022, appendix D"
    hyper_parameters = {"dt": Number(0.1, "(0, 1)"), "version": Choice((2, 1))}
    Weights = "W R b input_scale forget_scale"

    def prepare(self) -> None:
        self.input_scale = self.dt
        self.forget_scale = self.dt if self.version == 1 else 1 - self.dt

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (h, c), the hidden state, which is read out, and the cell state."""
        W, R, b, input_scale, forget_scale = weights
        h, c = state
        i, f, g, o = (h @ W.T + u @ R.T + b).chunk(4, dim=-1)
        c = forget_scale * torch.sigmoid(f) * c + input_scale * torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c
