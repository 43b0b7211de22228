r"""The antisymmetric RNN with a gate.

B. Chang, M. Chen, E. Haber, E. Chi, *AntisymmetricRNN: a dynamical system view on recurrent neural networks*,
ICLR 2019, the form with a gating mechanism:

.. math::
    z_t &= \sigma((M - M^\top - \gamma I) x_{t-1} + R_z u_t + b_z) \\
    x_t &= x_{t-1} + \epsilon \, z_t \odot \tanh((M - M^\top - \gamma I) x_{t-1} + R_x u_t + b_x)

============ =========== ======= ===================================================
symbol       name        shape   meaning
============ =========== ======= ===================================================
u_t          ``u``       (p,)    input
x_t          ``x``       (d,)    state, read out
M            ``M``       (d, d)  free parameter
M - M' - gI  ``W``       (d, d)  shared by gate and candidate
R_z, R_x     ``R``       (2d, p) input weights, in the order z x
b_z, b_x     ``b``       (2d,)   biases, same order
epsilon      ``epsilon`` scalar  step size of the forward Euler method
gamma        ``gamma``   scalar  diffusion
============ =========== ======= ===================================================

Defaults and initialisation as in `lib.cells.antisymmetric`.
"""

from collections import namedtuple

import torch
from torch import Tensor

from lib.cells._cell import State
from lib.cells._init import named_starts
from lib.cells.antisymmetric import AntisymmetricRNN, start_text

Weights = namedtuple("Weights", "W R b epsilon")


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step; `state` is (x,) of (batch, d), `u` is (batch, p)."""
    W, R, b, epsilon = weights
    (x,) = state
    from_state = x @ W.T
    from_u_z, from_u_x = (u @ R.T + b).chunk(2, dim=-1)
    z = torch.sigmoid(from_state + from_u_z)
    return (x + epsilon * z * torch.tanh(from_state + from_u_x),)


class GatedAntisymmetricRNN(AntisymmetricRNN, name="gated_antisymmetric"):
    """The antisymmetric RNN with an input gate that shares its recurrent matrix."""

    title = "gated antisymmetric RNN"
    source = "Chang et al. 2019, gating mechanism"
    Weights, step = Weights, step
    shapes = {"M": "d d", "R": "2d p", "b": "2d"}
    starts = named_starts(text=start_text)
