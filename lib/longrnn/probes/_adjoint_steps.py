"""Steps of a cell and their adjoints, a chunk of time steps at a time."""

from collections.abc import Sequence

import torch
from torch import Tensor

from longrnn.cells import Cell, State
from longrnn.probes.slopes import Slopes


class Steps:
    """Forward and backward steps of a cell along sequences, with its engine or the reference.

    Parameters
    ----------
    cell
        A cell whose parameters don't require gradients.
    u : (time, batch, input)
        The sequences.
    """

    def __init__(self, cell: Cell, u: Tensor) -> None:
        self._cell = cell
        self._u = u
        self._weights = cell.weights()
        self._inputs = u.unbind(0)

    def forward(self, state: State, start: int, stop: int, *, by_engine: bool) -> State:
        """Run some steps without building a graph.

        Parameters
        ----------
        state : tuple of (batch, hidden)
            The state at time `start`.
        start, stop
            The times.
        by_engine
            Whether the cell's engine runs, or the reference.

        Returns
        -------
        tuple of (batch, hidden)
            The state at time `stop`.
        """
        with torch.no_grad():
            if by_engine:
                return self._cell.run(self._u[start:stop], state)[1]
            for u_t in self._inputs[start:stop]:
                state = self._cell.step(self._weights, state, u_t)
        return state

    def pull_back_by_engine(self, unit: State, state: State, start: int, stop: int) -> State:
        """Pull an adjoint back with the cell's engine.

        Parameters
        ----------
        unit : tuple of (batch, hidden)
            The adjoint at time `stop`.
        state : tuple of (batch, hidden)
            The state at time `start`.
        start, stop
            The times.

        Returns
        -------
        tuple of (batch, hidden)
            The adjoint at time `start`.
        """
        before = tuple(part.detach().requires_grad_() for part in state)
        with torch.enable_grad():
            _, after = self._cell.run(self._u[start:stop], before)
        return _vector_jacobian(after, unit, before)

    def pull_back(
        self, unit: State, state: State, start: int, stop: int, wanted: set[int]
    ) -> dict[int, State]:
        """Pull an adjoint back through the reference steps.

        Parameters
        ----------
        unit, state, start, stop
            As for `pull_back_by_engine`.
        wanted
            Times in between at which the adjoint is returned, too.

        Returns
        -------
        dict
            The adjoints by time, at `start` and at the wanted times before `stop`.
        """
        after = tuple(part.detach().requires_grad_() for part in state)
        states = {start: after}
        with torch.enable_grad(), Slopes():
            for t, u_t in enumerate(self._inputs[start:stop], start):
                if t in wanted and t > start:
                    # One state tensor may be computed from another, h_t from c_t for example. Their
                    # partial derivatives must not include this dependence. So we differentiate with
                    # respect to views that only the next step uses.
                    after = tuple(part.view_as(part) for part in after)
                    states[t] = after
                after = self._cell.step(self._weights, after, u_t)
        parts = [part for parts in states.values() for part in parts]
        gradients = _vector_jacobian(after, unit, parts)
        size = len(unit)
        return {t: gradients[i * size : (i + 1) * size] for i, t in enumerate(states)}


def _vector_jacobian(after: State, vectors: State, before: Sequence[Tensor]) -> State:
    """Return the vector-Jacobian products of `after` with respect to each of `before`."""
    # Skip state tensors that depend on nothing, such as step counters.
    reached = [
        (part, vector) for part, vector in zip(after, vectors, strict=True) if part.requires_grad
    ]
    return torch.autograd.grad(
        [part for part, _ in reached],
        before,
        [vector for _, vector in reached],
        allow_unused=True,
        materialize_grads=True,
    )
