r"""The inverse RNN: the LU RNN without the factors.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.9, after definition 2.4:

.. math:: x_t = \tanh(W_t x_{t-1} + R u_t + b_1) \tag{2.28}

with W_t = W for tau steps, then its inverse for as many, and so on (see `longrnn.cells._interchange` for the reading).

The text says it is parametrised directly "with the inverse": which of the two is stored only decides which comes
first, here the one stored. The inverse is computed once per sequence; a singular W is refused. The text gives no
initialisation: W starts orthogonal, its inverse then being its transpose; R and b as in PyTorch's recurrent layers.
"""

import torch
from torch import Tensor, nn

from longrnn.cells._activation import Activation, rectify
from longrnn.cells._cell import Cell, State
from longrnn.cells._init import ADDING, uniform_fan
from longrnn.cells._interchange import CHOICES, alternate


class SingularMatrixError(ArithmeticError, ValueError):
    """W has no inverse."""


class InverseRNN(Cell, name="inverse_rnn"):
    """The inverse RNN of section 2.9."""

    title = "inverse RNN"
    source = "Johnston 2024, section 2.9"
    shapes = {
        "W": "d d",  # recurrent weights, invertible
        "R": "d p",  # input weights
        "b": "d",  # bias b_1
    }
    hyper_parameters = CHOICES
    Weights = "W inverse R b tau"
    states = 2
    prepare = rectify

    def weights(self) -> tuple:
        """Return the weights and the inverse; raises `SingularMatrixError` where W has none.

        Networks that are mapped side by side cannot be looked at: a singular one's states are not finite.
        """
        inverse, failure = torch.linalg.inv_ex(self.W)
        try:
            singular = bool(failure)
        except RuntimeError:
            singular = False
        if singular:
            raise SingularMatrixError(
                "inverse_rnn: expected an invertible W, got a singular one; lower the learning rate, or use lu_rnn, "
                "whose pivots stay away from zero"
            )
        return self.Weights(self.W, inverse, self.R, self.b, self.tau)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor, phi: Activation = torch.tanh) -> State:
        """One step; `state` is (x, t), t the steps done."""
        W, inverse, R, b, tau = weights
        x, t = state
        product = alternate(t, tau, x @ W.T, x @ inverse.T)
        return phi(product + u @ R.T + b), t + 1  # (2.28)

    def start_text(self) -> None:
        nn.init.orthogonal_(self.W)
        uniform_fan(self.R, self.b, fan=self.hidden_size)

    starts = ADDING
