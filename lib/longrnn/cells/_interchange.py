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

from longrnn.cells._activation import TANH_OR_RELU, use_activation
from longrnn.cells._cell import Cell, State
from longrnn.cells._checks import check_countable, check_counts, time_steps_done
from longrnn.cells._keywords import Number


class InterchangingCell(Cell):
    """Base class of a cell whose matrix alternates with its inverse."""

    hyper_parameters = {
        "tau": Number(10, "[1, 1e15]", whole=True),  # steps between interchanges
        "activation": TANH_OR_RELU,
    }
    states = 2
    counters = (1,)
    prepare = use_activation

    def run(
        self, u: Tensor, state: State, *, engine: str = "auto", weights: tuple | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell as `Cell.run` does.

        Parameters
        ----------
        u : (time, batch, p)
            The sequences.
        state : tuple of (batch, d)
            The state before the first input, and the number of time steps before it.
        engine, weights
            As in `Cell.run`.

        Returns
        -------
        outputs : (time, batch, d)
            The states.
        state : tuple of (batch, d)
            The state after the last input, and the number of time steps.

        Raises
        ------
        ValueError
            The sequences are in 16 bits and too long for this type to count their time steps, or
            the neurons of a sequence have different counts.
        """
        check_counts(self.label, state[1])
        if u.dtype.itemsize < torch.float32.itemsize:
            check_countable(self.label, time_steps_done(state[1]) + u.shape[0], u.dtype)
        return super().run(u, state, engine=engine, weights=weights)


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
