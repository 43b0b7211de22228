r"""Adjoint states of any cell, their norms beyond the range of floats, and the VEG metric.

The adjoint state (dissertation, definition 3.1) is the total derivative of the loss with respect to the state
at time t, :math:`\lambda_t = (\partial x_T / \partial x_t)^\top \partial L / \partial x_T`; the text's minus sign does not change its
norm. For a cell with several state tensors the derivative is taken with respect to all of them; the norm of the part
that is read out, and the norm of the whole, are both returned.

Along a thousand steps the norm shrinks or grows by hundreds of orders of magnitude. So what is pulled back is a unit
vector per sequence, and its log10 norm accumulates beside it. Everything is computed in float64, from
states stored once a chunk of steps: memory is what one chunk keeps and the checkpoints.

Where few times are wanted, a cell with an engine is run by it, and differentiated between those times. An engine takes slopes
from what an activation returned, whose digits are gone near its ends: a chunk that shrinks an adjoint so far that this may
show, and whatever has no engine, is pulled back through the reference step with the slopes of `longrnn.probes.slopes`.
"""

import copy
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.utils import parametrize

from longrnn import kernels
from longrnn.cells import Cell, State
from longrnn.probes.slopes import Slopes

CHUNK = 16
"""Steps of the reference that are differentiated at once: each keeps a graph of small operations."""
ENGINE_CHUNK = 32
"""Steps of an engine: more of them shrink an adjoint further, and its digits are in question sooner."""
LEAST = {False: 1e-250, True: 1e-12}
"""Norm below which a unit vector that was pulled back may have lost digits: by the step, where its smaller components may be denormal; by
an engine, whose slopes are off by up to 1e-16, so that four digits are left."""


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
    whole: bool = False,
    engine: str = "auto",
) -> AdjointNorms:
    """Measure the adjoint states of `cell` over the sequences `u`, (time, batch, input); the cell is copied, not changed.

    Parameters
    ----------
    loss
        Maps the last state that is read out, (batch, hidden) in float64, to the sum of the sequences' losses.
    times
        Time points t in 0..T; all of 1..T by default.
    whole
        Whether the loss sees all state tensors after the last input side by side, (batch, states * hidden), and not only the
        one that is read out.
    engine
        ``"auto"``, or ``"reference"`` to differentiate the step whatever engines there are.

    Raises
    ------
    ValueError
        A time point lies outside the sequence, or `engine` is neither.

    Notes
    -----
    Definition 3.1 of the dissertation. A chunk that shrinks the adjoint out of the range of float64 is halved until it
    is one step; a single step that does so would still be rounded.
    """
    T = u.shape[0]
    wanted = sorted(set(range(1, T + 1) if times is None else times))
    if not wanted or wanted[0] < 0 or wanted[-1] > T:
        raise ValueError(f"expected time points between 0 and T={T}, got {wanted}")
    if engine not in ("auto", "reference"):
        raise ValueError(f"expected the engine 'auto' or 'reference', got {engine!r}")
    cell = copy.deepcopy(cell).double().requires_grad_(False).eval()
    u = u.detach().double()
    fast = engine == "auto" and len(wanted) <= 2 + T // ENGINE_CHUNK and _has_engine(cell, u)
    chunk = ENGINE_CHUNK if fast else CHUNK
    # An engine tells the states at the ends of its chunks alone: each wanted time is one.
    edges = sorted({*range(0, T, chunk), T, *(wanted if fast else ())} | {0})
    with parametrize.cached() if fast else nullcontext():
        steps = _Steps(cell, u)
        starts, state = [], cell.initial_state(u.shape[1])
        for start, stop in pairwise(edges):
            starts.append((start, stop, state))
            state = steps.forward(state, start, stop, fast)

        adjoint = _last_adjoint(loss, state, cell.readout, whole)
        tracker = _Tracker(cell.readout, set(wanted), adjoint)
        tracker.record(T)
        for start, stop, state_there in reversed(starts):
            _pull_back(steps, state_there, start, stop, fast, tracker)
    return AdjointNorms(tuple(wanted), *tracker.stacked(wanted), state)


def _last_adjoint(
    loss: Callable[[Tensor], Tensor], state: State, readout: int, whole: bool
) -> State:
    """Return the derivative of the loss by each tensor of the last state."""
    seen = range(len(state)) if whole else [readout]
    x = [state[i].detach().requires_grad_() for i in seen]
    found = dict(zip(seen, torch.autograd.grad(loss(torch.cat(x, dim=1)), x), strict=True))
    return tuple(found.get(i, torch.zeros_like(part)).contiguous() for i, part in enumerate(state))


def log10_sum(logs: Tensor, dim: int = -1) -> Tensor:
    """Return log10 of the sum of 10**logs along `dim`, without leaving the logarithm.

    >>> log10_sum(torch.tensor([-400.0, -400.0], dtype=torch.float64)).item()
    -399.6989700043...
    """
    return torch.logsumexp(logs * math.log(10), dim=dim) / math.log(10)


def _has_engine(cell: Cell, u: Tensor) -> bool:
    chosen = kernels.choose(cell.name, u.device.type, cell.engine_options)
    # The library's, in float64, are no faster than the step.
    return not chosen.startswith(("reference", "library"))


class _Tracker:
    """The adjoint as unit vectors (one per sequence) and log10 norms, and what was recorded of it."""

    def __init__(self, readout: int, wanted: set[int], adjoint: State) -> None:
        self.readout = readout
        self.wanted = wanted
        self._recorded: dict[int, tuple[Tensor, Tensor]] = {}
        self.log_norm = adjoint[0].new_zeros(len(adjoint[0]), dtype=torch.float64)
        self.renormalise(adjoint)

    def renormalise(self, adjoint: State) -> None:
        """Take `adjoint`, scaled like the current unit vectors, as the new current one."""
        norm = _norm(adjoint)
        self.log_norm = self.log_norm + norm.log10()
        safe = torch.where(norm > 0, norm, torch.ones_like(norm))
        self.unit = tuple(part / safe[:, None] for part in adjoint)

    def record(self, t: int, adjoint: State | None = None) -> None:
        """Keep the norms at time t of `adjoint` (scaled like the unit vectors), if they are wanted."""
        if t in self.wanted:
            adjoint = self.unit if adjoint is None else adjoint
            # Where the unit vector is zero, so is the adjoint: its log10 norm is -inf already.
            readout = self.log_norm + _norm((adjoint[self.readout],)).log10()
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


class _Steps:
    """Steps of a cell along sequences, without a graph and differentiated: by its engine where `fast`, or by the reference."""

    def __init__(self, cell: Cell, u: Tensor) -> None:
        self._cell, self._u = cell, u
        self._weights, self._inputs = cell.weights(), u.unbind(0)

    def forward(self, state: State, start: int, stop: int, fast: bool) -> State:
        """Return the state at `stop` without a graph."""
        with torch.no_grad():
            if fast:
                return self._cell.run(self._u[start:stop], state)[1]
            for u_t in self._inputs[start:stop]:
                state = self._cell.step(self._weights, state, u_t)
        return state

    def pull_back(
        self, unit: State, state: State, start: int, stop: int, fast: bool, wanted: set[int]
    ) -> dict[int, State]:
        """Return what `unit` at `stop` is at `start`, and at those times between that are wanted; an engine tells none between."""
        after = tuple(part.detach().requires_grad_() for part in state)
        states = {start: after}
        with torch.enable_grad(), nullcontext() if fast else Slopes():
            if fast:
                _, after = self._cell.run(self._u[start:stop], after)
            else:
                for t, u_t in enumerate(self._inputs[start:stop], start):
                    if t in wanted and t > start:
                        # Parts of one state must not count as functions of each other (h_t of c_t, say):
                        # what is differentiated is a view of each part that only the next step reads.
                        after = tuple(part.view_as(part) for part in after)
                        states[t] = after
                    after = self._cell.step(self._weights, after, u_t)
        # A part that depends on nothing (a frozen state, say) pulls nothing back.
        reached = [(part, v) for part, v in zip(after, unit, strict=True) if part.requires_grad]
        flat = torch.autograd.grad(
            [part for part, _ in reached],
            [part for parts in states.values() for part in parts],
            [v for _, v in reached],
            allow_unused=True,
            materialize_grads=True,
        )
        size = len(unit)
        return {t: tuple(flat[i * size : (i + 1) * size]) for i, t in enumerate(states)}


def _pull_back(
    steps: _Steps, state: State, start: int, stop: int, fast: bool, tracker: _Tracker
) -> None:
    """Carry the tracked adjoint from time `stop` back to time `start`, where the cell is in `state`."""
    pulled = steps.pull_back(tracker.unit, state, start, stop, fast, tracker.wanted)
    parts = (pulled[start][tracker.readout],) if fast else pulled[start]
    lost = _lost(_norm(parts), _norm(tracker.unit), LEAST[fast])
    if fast and lost:
        _pull_back(steps, state, start, stop, False, tracker)
    elif lost and stop - start > 1:
        middle = (start + stop) // 2
        halfway = steps.forward(state, start, middle, False)
        _pull_back(steps, halfway, middle, stop, False, tracker)
        _pull_back(steps, state, start, middle, False, tracker)
    else:
        for t in reversed(pulled):
            if t != start:
                tracker.record(t, pulled[t])
        tracker.renormalise(pulled[start])
        tracker.record(start)


def _lost(after: Tensor, before: Tensor, least: float) -> bool:
    """Tell whether a sequence's adjoint became too small for its digits, or infinite, within the chunk."""
    return bool(((before > 0) & ((after < least) | ~after.isfinite())).any())
