r"""Adjoint states of any cell, their norms beyond the range of floats, and the VEG metric.

The adjoint state (dissertation, definition 3.1) is the total derivative of the loss with respect to the state
at time t, :math:`\lambda_t = (\partial x_T / \partial x_t)^\top \partial L / \partial x_T`; the text's minus sign does not change its
norm. For a cell with several state tensors the derivative is taken with respect to all of them; the norm of the part
that is read out, and the norm of the whole, are both returned.

Along a thousand steps the norm shrinks or grows by hundreds of orders of magnitude. So what is pulled back is a unit
vector per sequence, and its log10 norm accumulates beside it. Everything is computed in float64, from
states stored every `chunk` steps: memory is the states of one chunk and T / chunk checkpoints.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lib.cells import Cell, State

CHUNK = 16


@dataclass(frozen=True)
class AdjointNorms:
    """log10 of the adjoint states' norms; exactly zero is ``-inf``.

    Attributes
    ----------
    times : (k,)
        Time points, ascending; 0 is the initial state.
    readout, full : (k, batch), float64
        log10 ||lambda_t||_2 of the state that is read out, and of the full state.
    final_states : tuple of (batch, hidden), float64
        The state after the last input, from the same pass.
    """

    times: tuple[int, ...]
    readout: Tensor
    full: Tensor
    final_states: State


def adjoint_norms(
    cell: Cell,
    u: Tensor,
    loss: Callable[[Tensor], Tensor],
    *,
    times: Sequence[int] | None = None,
    chunk: int = CHUNK,
) -> AdjointNorms:
    """Measure the adjoint states of `cell` over the sequences `u`.

    Parameters
    ----------
    cell
        Any cell; it is copied, not changed.
    u : (time, batch, input)
        The inputs.
    loss
        Maps the last state that is read out, (batch, hidden) in float64, to the sum of the sequences' losses.
    times
        Time points t in 0..T; all of 1..T by default.
    chunk
        Steps differentiated at once.

    Returns
    -------
    AdjointNorms

    Raises
    ------
    ValueError
        A time point lies outside the sequence, or `chunk` is not positive.

    Notes
    -----
    Definition 3.1 of the dissertation. A single step that shrinks the adjoint below the smallest float64 would
    still be rounded to zero; a chunk that does so is halved until it is one step.
    """
    T = u.shape[0]
    wanted = sorted(set(range(1, T + 1) if times is None else times))
    if not wanted or wanted[0] < 0 or wanted[-1] > T:
        raise ValueError(f"expected time points between 0 and T={T}, got {list(wanted)}")
    if chunk < 1:
        raise ValueError(f"expected a positive chunk, got {chunk}")
    cell = copy.deepcopy(cell).double().requires_grad_(False)
    inputs = u.detach().double().unbind(0)
    weights = cell.weights()
    starts, state = _checkpoints(cell, weights, inputs, chunk)

    x = state[cell.readout].detach().requires_grad_()
    (lambda_T,) = torch.autograd.grad(loss(x), x)
    adjoint = tuple(
        lambda_T if i == cell.readout else torch.zeros_like(part) for i, part in enumerate(state)
    )
    tracker = _Tracker(cell.readout, set(wanted), adjoint)
    tracker.record(T)
    for start, state_there in reversed(starts):
        stop = min(start + chunk, T)
        _pull_back(cell, weights, inputs[start:stop], state_there, start, tracker)
    return AdjointNorms(tuple(wanted), *tracker.stacked(wanted), state)


def log10_sum(logs: Tensor, dim: int = -1) -> Tensor:
    """Return log10 of the sum of 10**logs along `dim`, without leaving the logarithm.

    >>> log10_sum(torch.tensor([-400.0, -400.0], dtype=torch.float64)).item()
    -399.6989700043...
    """
    return torch.logsumexp(logs * math.log(10), dim=dim) / math.log(10)


def _checkpoints(cell: Cell, weights, inputs, chunk: int) -> tuple[list[tuple[int, State]], State]:
    """Run forward without a graph; return the states before steps 0, chunk, 2 chunk .. and the last."""
    state = cell.initial_state(inputs[0].shape[0])
    starts = []
    with torch.no_grad():
        for t, u_t in enumerate(inputs):
            if t % chunk == 0:
                starts.append((t, state))
            state = cell.step(weights, state, u_t)
    return starts, state


class _Tracker:
    """The adjoint as unit vectors (one per sequence) and log10 norms, and what was recorded of it."""

    def __init__(self, readout: int, wanted: set[int], adjoint: State) -> None:
        self._readout = readout
        self.wanted = wanted
        self._recorded: dict[int, tuple[Tensor, Tensor]] = {}
        self.log_norm = torch.zeros(len(adjoint[0]), dtype=torch.float64)
        self.renormalise(adjoint)

    def renormalise(self, adjoint: State) -> None:
        """Take `adjoint`, scaled like the current unit vectors, as the new current one."""
        norm = _norm(adjoint)
        self.log_norm = self.log_norm.to(norm.device) + norm.log10()
        safe = torch.where(norm > 0, norm, torch.ones_like(norm))
        self.unit = tuple(part / safe[:, None] for part in adjoint)

    def record(self, t: int, adjoint: State | None = None) -> None:
        """Keep the norms at time t of `adjoint` (scaled like the unit vectors), if they are wanted."""
        if t in self.wanted:
            adjoint = self.unit if adjoint is None else adjoint
            # Where the unit vector is zero, so is the adjoint: its log10 norm is -inf already.
            readout = self.log_norm + _norm((adjoint[self._readout],)).log10()
            self._recorded[t] = readout, self.log_norm + _norm(adjoint).log10()

    def stacked(self, times: Sequence[int]) -> tuple[Tensor, Tensor]:
        readout, full = zip(*(self._recorded[t] for t in times), strict=True)
        return torch.stack(readout), torch.stack(full)


def _norm(adjoint: State) -> Tensor:
    """Return the 2-norm over all state tensors, (batch,); scaled so that squaring cannot underflow."""
    stacked = torch.cat(adjoint, dim=1)
    largest = stacked.abs().amax(dim=1)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    return scale * torch.linalg.vector_norm(stacked / scale[:, None], dim=1)


def _pull_back(cell: Cell, weights, inputs, state: State, start: int, tracker: _Tracker) -> None:
    """Carry the tracked adjoint from time start + len(inputs) back to time start."""
    # The earliest state is always asked for, those inside the chunk only where they are wanted.
    asked = [0, *(k for k in range(1, len(inputs)) if start + k in tracker.wanted)]
    states = [tuple(part.detach().requires_grad_() for part in state)]
    with torch.enable_grad():
        for k, u_t in enumerate(inputs, start=1):
            after = cell.step(weights, states[-1], u_t)
            if k in asked:
                # Parts of one state must not count as functions of each other (h_t of c_t, say):
                # what is differentiated is a view of each part that only the next step reads.
                after = tuple(part.view_as(part) for part in after)
            states.append(after)
    # A part that depends on nothing (a frozen state, say) pulls nothing back.
    reached = [
        (part, unit)
        for part, unit in zip(states[-1], tracker.unit, strict=True)
        if part.requires_grad
    ]
    flat = torch.autograd.grad(
        [part for part, _ in reached],
        [part for k in asked for part in states[k]],
        [unit for _, unit in reached],
        allow_unused=True,
        materialize_grads=True,
    )
    size = len(state)
    pulled = {k: tuple(flat[i * size : (i + 1) * size]) for i, k in enumerate(asked)}
    if len(inputs) > 1 and _left_the_range(pulled[0], tracker.unit):
        middle = len(inputs) // 2
        halfway = tuple(part.detach() for part in states[middle])
        _pull_back(cell, weights, inputs[middle:], halfway, start + middle, tracker)
        _pull_back(cell, weights, inputs[:middle], state, start, tracker)
        return
    for k in asked[1:]:
        tracker.record(start + k, pulled[k])
    tracker.renormalise(pulled[0])
    tracker.record(start)


def _left_the_range(pulled: State, unit: State) -> bool:
    """Tell whether a sequence's adjoint became zero or infinite within the chunk."""
    before, after = _norm(unit), _norm(pulled)
    return bool(((before > 0) & ((after == 0) | ~after.isfinite())).any())
