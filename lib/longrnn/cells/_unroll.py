"""The run of a cell over sequences in plain PyTorch, step by step."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from longrnn.cells._definition import check_new_state

State = tuple[Tensor, ...]
"""The tensors of a state, (batch, hidden) each."""
Step = Callable[[NamedTuple, State, Tensor], State]
"""One time step of a cell: ``step(weights, state, u_t) -> state``."""


def unroll(
    step: Step, weights: NamedTuple, state: State, u: Tensor, *, readout: int = 0
) -> tuple[Tensor, State]:
    """Apply `step` to every input in turn: the reference that all engines are compared with.

    Parameters
    ----------
    step
        The recurrence of a cell.
    weights
        Its first argument.
    state : tuple of (batch, hidden)
        The state before the first input.
    u : (time, batch, input)
        The sequences. They are unbound once, because indexing ``u[t]`` in the loop would make the
        cost of the backward pass quadratic in time.
    readout
        Index in the state of the tensor that is the output.

    Returns
    -------
    outputs : (time, batch, hidden)
        The output tensor of the state after every input.
    state : tuple of (batch, hidden)
        The full state after the last input.

    Raises
    ------
    CellDefinitionError
        The first step did not return a tuple of as many tensors of the same shapes.
    """
    outputs = []
    for u_t in u.unbind(0):
        new_state = step(weights, state, u_t)
        if not outputs:
            check_new_state(new_state, state)
        state = new_state
        outputs.append(state[readout])
    return torch.stack(outputs), state
