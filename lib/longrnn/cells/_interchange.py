"""Shared by the LU RNN and the inverse RNN: a matrix that alternates with its inverse.

Definition 2.4 of the dissertation interchanges W with its inverse "whenever t mod tau = 0". The
text before it says that the two alternate "every tau time steps" and preserve norms "every 2 tau".
So steps 1..tau use W, the next tau steps use the inverse, and so on.

The step therefore depends on t. To keep the step a pure function, t is part of the state, with one
count per sequence and neuron, like any other state tensor. So a sequence can be split anywhere, and
the sequences of a batch may be at different times. Both products are computed at every step, and
one is selected.
"""

import torch
from torch import Tensor

from longrnn.cells._activation import TANH_OR_RELU
from longrnn.cells._keywords import Number

HYPER_PARAMETERS = {
    "tau": Number(10, "[1, inf)", whole=True),  # steps between interchanges
    "activation": TANH_OR_RELU,
}


def alternate(t: Tensor, tau: int, by_matrix: Tensor, by_inverse: Tensor) -> Tensor:
    """Select the product with W or with its inverse, by the number of steps so far.

    Parameters
    ----------
    t : (batch, d)
        Number of time steps before this one.
    tau
        Number of consecutive steps with the same matrix.
    by_matrix, by_inverse : (batch, d)
        Products of the state with W and with its inverse.

    Returns
    -------
    (batch, d)
        `by_matrix` in the first tau steps, `by_inverse` in the next tau steps, and so on.
    """
    return torch.where(t.remainder(2 * tau) < tau, by_matrix, by_inverse)
