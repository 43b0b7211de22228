r"""The LSTM whose input and forget gates are scaled by a small time step, versions 1 and 2.

T. K. Rusch, S. Mishra, N. B. Erichson, M. W. Mahoney, *Long expressive memory for sequence modeling*, ICLR 2022, appendix D
and Table 11: the LSTM (15) with the gates

.. math::
    \hat f_n &= \Delta t \, f_n,       & \hat\imath_n &= \Delta t \, i_n && \text{(version 1)} \\
    \hat f_n &= (1 - \Delta t) \, f_n, & \hat\imath_n &= \Delta t \, i_n && \text{(version 2)}

======= ======================== ======== ==============================================
symbol  name                     shape    meaning
======= ======================== ======== ==============================================
u_n     ``u``                    (p,)     input
h_n     ``h``                    (d,)     hidden state, read out
c_n     ``c``                    (d,)     cell state
W       ``W``                    (4d, d)  recurrent weights, gates in the order i f g o
V       ``R``                    (4d, p)  input weights, same order
b       ``b``                    (4d,)    biases, same order
Delta t ``input_scale``          scalar   factor of the input gate
(above) ``forget_scale``         scalar   factor of the forget gate
======= ======================== ======== ==============================================

The text tunes Delta t and does not print it: the default is ours. Version 1 forgets the faster the smaller the step is.
The initialisation is that of `lib.cells.lstm`.
"""

from collections import namedtuple

import torch
from torch import Tensor

from lib.cells._cell import Cell, State
from lib.cells._init import named_starts, uniform_start
from lib.cells._keywords import Choice, Number

Weights = namedtuple("Weights", "W R b input_scale forget_scale")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (h, c), each (batch, d), `u` is (batch, p)."""
    W, R, b, input_scale, forget_scale = weights
    h, c = state
    i, f, g, o = (h @ W.T + u @ R.T + b).chunk(4, dim=-1)
    c = forget_scale * torch.sigmoid(f) * c + input_scale * torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return h, c


class DtLSTM(Cell, name="dt_lstm"):
    """The LSTM with scaled input and forget gates; the versions differ in the forget gate."""

    title = "dt-LSTM"
    source = "Rusch et al. 2022, appendix D"
    Weights, step = Weights, step
    hyper_parameters = {"dt": Number(0.1, "(0, 1)"), "version": Choice((2, 1))}
    shapes = {"W": "4d d", "R": "4d p", "b": "4d"}
    starts = named_starts(text=uniform_start("W", "R", "b"))
    states = 2

    def prepare(self) -> None:
        self.input_scale = self.dt
        self.forget_scale = self.dt if self.version == 1 else 1 - self.dt
