"""What the LU RNN and the inverse RNN share: a matrix and its inverse take turns.

Definition 2.4 of the dissertation interchanges W with its inverse "whenever t mod tau = 0". Read with the text before
it, which has the two alternate "every tau time steps" and preserve norms "every 2 tau": the steps 1..tau use W, the next
tau its inverse, and so on. The step then depends on t. To stay pure it keeps t in the state, one count per sequence and
neuron like any other state: sequences may be cut anywhere and continued, in chunks too, and a batch may mix sequences that
stand at different times. Both products are formed at every step and one is taken.
"""

import torch
from torch import Tensor

from longrnn.cells._activation import TANH_OR_RELU
from longrnn.cells._keywords import Number

CHOICES = {
    "tau": Number(10, "[1, inf)", whole=True),  # steps between interchanges
    "activation": TANH_OR_RELU,
}


def alternate(t: Tensor, tau: int, by_matrix: Tensor, by_inverse: Tensor) -> Tensor:
    """Return `by_matrix` where the step after `t` steps uses W, and `by_inverse` elsewhere; all (batch, d)."""
    return torch.where(t.remainder(2 * tau) < tau, by_matrix, by_inverse)
