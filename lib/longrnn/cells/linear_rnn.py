r"""The linear recurrent network: the basic one with the identity for its activation.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, definition 2.3:

.. math:: x_t = W x_{t-1} + R u_t + b_1 \tag{2.16}

The text gives no initialisation.
"""

from torch import Tensor

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import PADDING


class LinearRNN(Cell, name="linear_rnn"):
    """The linear RNN of definition 2.3."""

    title = "linear RNN"
    source = "Johnston 2024, (2.16)"
    shapes = {
        "W": "d d",  # recurrent weights
        "R": "d p",  # input weights
        "b": "d",  # bias b_1
    }
    Weights = "W R b"

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (x,), the memory state."""
        W, R, b = weights
        (x,) = state
        return (x @ W.T + u @ R.T + b,)  # (2.16)

    starts = {"padding": PADDING}
