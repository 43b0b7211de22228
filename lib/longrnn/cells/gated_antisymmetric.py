r"""The antisymmetric RNN with a gate.

B. Chang, M. Chen, E. Haber, E. Chi, *AntisymmetricRNN: a dynamical system view on recurrent neural networks*,
ICLR 2019, the form with a gating mechanism, whose gate and candidate share a matrix:

.. math::
    z_t &= \sigma((M - M^\top - \gamma I) x_{t-1} + R_z u_t + b_z) \\
    x_t &= x_{t-1} + \epsilon \, z_t \odot \tanh((M - M^\top - \gamma I) x_{t-1} + R_x u_t + b_x)

Defaults and initialisation as in `longrnn.cells.antisymmetric`.
"""

import torch
from torch import Tensor

from longrnn.cells._cell import State
from longrnn.cells.antisymmetric import AntisymmetricRNN


class GatedAntisymmetricRNN(AntisymmetricRNN, name="gated_antisymmetric"):
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
        """One step; `state` is (x,)."""
        W, R, b, epsilon = weights
        (x,) = state
        from_state = x @ W.T
        from_u_z, from_u_x = (u @ R.T + b).chunk(2, dim=-1)
        z = torch.sigmoid(from_state + from_u_z)
        return (x + epsilon * z * torch.tanh(from_state + from_u_x),)
