r"""Adjoint states of any cell: their norms beyond the range of floats, and so the VEG metric.

The adjoint state (dissertation, definition 3.1) is the total derivative of the loss by the state
at time t, :math:`\lambda_t = (\partial x_T / \partial x_t)^\top \partial L / \partial x_T`. The
paper's minus sign does not change its norm. If a cell has several state tensors, the derivative is
by all of them. Two norms are returned: that of the tensor that is read out, and that of the whole
state.

Along a thousand steps the norm shrinks or grows by hundreds of orders of magnitude. So what is
pulled back is a unit vector per sequence, and the log10 of its norm is accumulated. Everything is
computed in float64, from states that are stored once per chunk of steps. Memory is that of one
chunk's graph and of the stored states.

If few times are wanted, a cell with an engine is run by it, and differentiated between those
times. An engine computes slopes from an activation's value, which loses digits near its limits. A
chunk that shrinks an adjoint so far that this may show is pulled back again through the reference
step, with the slopes of `longrnn.probes.slopes`. So is any cell without an engine.

The LSTM and the GRU have kernels of their own (`longrnn.kernels.cpu_pull_back`): forward is one
call and backward another, with the slopes and the normalization inside, for any number of times.
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
from longrnn.kernels.cpu_pull_back import Carried
from longrnn.probes.slopes import Slopes

CHUNK = 16
"""Steps of the reference that are differentiated at once; each keeps a graph."""
ENGINE_CHUNK = 32
"""Steps of an engine that are differentiated at once. With more, an adjoint shrinks further within
the chunk, and its digits are in doubt sooner."""
NORMALIZE_EVERY = 8
"""Steps between two normalizations by the kernels of the LSTM and the GRU."""
LEAST_BY_STEP = 1e-250
"""Norm below which a pulled-back unit vector may have lost digits: smaller components may be
denormal."""
LEAST_BY_ENGINE = 1e-12
"""The same for an engine, whose slopes are off by up to 1e-16, so that four digits are left."""


@dataclass(frozen=True)
class AdjointNorms:
    """Logarithms to base 10 of the adjoint states' norms; exactly zero is ``-inf``.

    Attributes
    ----------
    times : (k,)
        Time points, ascending; 0 is the initial state.
    readout, full : (k, batch), float64
        log10 ||lambda_t||_2 of the state tensor that is read out, and of the full state.
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
    """Measure the adjoint states of a cell along sequences.

    Parameters
    ----------
    cell
        The cell; it is copied, not changed.
    u : (time, batch, input)
        The sequences.
    loss
        Maps the last state that is read out, (batch, hidden) in float64, to the sum of the
        sequences' losses.
    times
        Time points t in 0..T; all of 1..T by default.
    whole
        Whether the loss gets all state tensors side by side, (batch, states * hidden), and not
        only the one that is read out.
    engine
        ``auto``, or ``reference`` to differentiate the step even if there is an engine.

    Returns
    -------
    AdjointNorms
        The norms, as logarithms.

    Raises
    ------
    ValueError
        A time point lies outside the sequence, or `engine` is neither.

    Notes
    -----
    Definition 3.1 of the dissertation. A chunk that shrinks the adjoint out of the range of float64
    is halved until it is one step. A single step that does so would still be rounded.

    Examples
    --------
    >>> from longrnn import adjoint_norms, make_cell
    >>> u = torch.randn(50, 3, 2)
    >>> norms = adjoint_norms(make_cell("lem", 2, 8), u, torch.sum, times=[1, 50])
    >>> norms.times, norms.readout.shape
    ((1, 50), torch.Size([2, 3]))
    """
    T = u.shape[0]
    wanted = sorted(set(range(1, T + 1) if times is None else times))
    if not wanted or wanted[0] < 0 or wanted[-1] > T:
        raise ValueError(f"expected time points between 0 and T={T}, got {wanted}")
    if engine not in ("auto", "reference"):
        raise ValueError(f"expected the engine 'auto' or 'reference', got {engine!r}")
    cell = copy.deepcopy(cell).double().requires_grad_(False).eval()
    u = u.detach().double()
    if engine == "auto":
        kernel = kernels.select(f"{cell.name}/pull_back", "auto", u)
        if kernel is not None:
            return _adjoint_norms_by_kernel(kernel, cell, u, loss, wanted, whole)
    few = len(wanted) <= 2 + T // ENGINE_CHUNK
    by_engine = engine == "auto" and few and _has_engine(cell, u)
    edges = _chunk_edges(T, wanted, by_engine=by_engine)
    with parametrize.cached() if by_engine else nullcontext():
        steps = _Steps(cell, u)
        state = cell.initial_state(u.shape[1])
        chunks = []  # start, stop, and the state at the start
        for start, stop in pairwise(edges):
            chunks.append((start, stop, state))
            state = steps.forward(state, start, stop, by_engine=by_engine)
        adjoint = _last_adjoint(loss, state, cell.readout, whole)
        tracker = _Tracker(cell.readout, set(wanted), adjoint)
        tracker.record(T)
        for start, stop, state_at_start in reversed(chunks):
            _pull_back(steps, state_at_start, start, stop, tracker, by_engine=by_engine)
    readout, full = tracker.stacked(wanted)
    return AdjointNorms(tuple(wanted), readout, full, state)


def _adjoint_norms_by_kernel(
    kernel: type,
    cell: Cell,
    u: Tensor,
    loss: Callable[[Tensor], Tensor],
    wanted: Sequence[int],
    whole: bool,
) -> AdjointNorms:
    """Measure by a kernel that runs steps forward and pulls back over them.

    Stretches of steps are as long as memory allows. Their states are computed again if there are
    several. If an adjoint leaves the range of floats between two normalizations, all are pulled
    back again, with one at every step.
    """
    T, batch, _ = u.shape
    weights = cell.weights()
    stored = kernel.vectors * batch * cell.hidden_size * u.element_size()
    stretch = max(1, kernel.stored_bytes // stored)
    stretches = list(pairwise([*range(0, T, stretch), T]))
    state = cell.initial_state(batch)
    starts = []
    for start, stop in stretches:
        starts.append(state)
        state, saved = kernel.forward(weights, state, u[start:stop])
    tracker = _Tracker(cell.readout, set(wanted), _last_adjoint(loss, state, cell.readout, whole))
    tracker.record(T)
    is_wanted = u.new_zeros(T)
    is_wanted[[t for t in wanted if t < T]] = 1
    for every in (NORMALIZE_EVERY, 1):
        carried = Carried(tracker.unit, tracker.log_norm)
        norms = []
        for (start, stop), before in zip(reversed(stretches), reversed(starts), strict=True):
            if stop < T:
                _, saved = kernel.forward(weights, before, u[start:stop])
            norms.append(kernel.pull_back(weights, saved, carried, every, is_wanted[start:stop]))
        if len(stretches) > 1 and every > 1:
            _, saved = kernel.forward(weights, starts[-1], u[stretches[-1][0] :])
        if not _any(carried.lost > 0):
            break
    for (start, _), (readout, full) in zip(reversed(stretches), norms, strict=True):
        tracker.keep(start, readout, full)
    readout, full = tracker.stacked(wanted)
    return AdjointNorms(tuple(wanted), readout, full, state)


def _chunk_edges(T: int, wanted: Sequence[int], *, by_engine: bool) -> list[int]:
    """Return where chunks of steps begin and end, from 0 to T.

    An engine returns states only at the ends of its chunks, so each wanted time is an edge.
    """
    edges = {0, T, *range(0, T, ENGINE_CHUNK if by_engine else CHUNK)}
    if by_engine:
        edges.update(wanted)
    return sorted(edges)


def _last_adjoint(
    loss: Callable[[Tensor], Tensor], state: State, readout: int, whole: bool
) -> State:
    """Return the derivative of the loss by each tensor of the last state."""
    indices = range(len(state)) if whole else [readout]
    x = [state[index].detach().requires_grad_() for index in indices]
    gradients = torch.autograd.grad(loss(torch.cat(x, dim=1)), x)
    adjoint = [torch.zeros_like(part) for part in state]
    for index, gradient in zip(indices, gradients, strict=True):
        adjoint[index] = gradient.contiguous()
    return tuple(adjoint)


def log10_sum(logs: Tensor, dim: int = -1) -> Tensor:
    """Return log10 of the sum of 10**logs along `dim`, without leaving the logarithm.

    >>> log10_sum(torch.tensor([-400.0, -400.0], dtype=torch.float64)).item()
    -399.6989700043...
    """
    return torch.logsumexp(logs * math.log(10), dim=dim) / math.log(10)


def _has_engine(cell: Cell, u: Tensor) -> bool:
    """Return whether the cell has an engine that is faster than its step in float64."""
    chosen = kernels.choose(cell.name, u.device.type, cell.engine_options)
    # PyTorch's own layers, in float64, are no faster than the step.
    return not chosen.startswith(("reference", "library"))


class _Tracker:
    """The adjoint as unit vectors (one per sequence) and log10 norms, and the recorded norms."""

    def __init__(self, readout: int, wanted: set[int], adjoint: State) -> None:
        self.readout = readout
        self.wanted = wanted
        self._recorded: dict[int, tuple[Tensor, Tensor]] = {}
        self.log_norm = adjoint[0].new_zeros(len(adjoint[0]), dtype=torch.float64)
        self.renormalize(adjoint)

    def renormalize(self, adjoint: State) -> None:
        """Replace the adjoint by one that is scaled like the current unit vectors."""
        norm = _norm(adjoint)
        self.log_norm = self.log_norm + norm.log10()
        safe = torch.where(norm > 0, norm, torch.ones_like(norm))
        self.unit = tuple(part / safe[:, None] for part in adjoint)

    def record(self, t: int, adjoint: State | None = None) -> None:
        """Record the norms at time t, if they are wanted.

        `adjoint` is scaled like the unit vectors, which are the default.
        """
        if t in self.wanted:
            adjoint = self.unit if adjoint is None else adjoint
            # If the unit vector is zero, so is the adjoint: its log10 norm is -inf already.
            readout = self.log_norm + _norm((adjoint[self.readout],)).log10()
            self._recorded[t] = readout, self.log_norm + _norm(adjoint).log10()

    def keep(self, start: int, readout: Tensor, full: Tensor) -> None:
        """Record norms (time, batch) that were measured, at the wanted times from `start` on."""
        for t in range(start, start + len(readout)):
            if t in self.wanted:
                self._recorded[t] = readout[t - start], full[t - start]

    def stacked(self, times: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the recorded norms, (times, batch): of the readout, and of the full state."""
        readout, full = zip(*(self._recorded[t] for t in times), strict=True)
        return torch.stack(readout), torch.stack(full)


def _norm(adjoint: State) -> Tensor:
    """Return the 2-norm over all state tensors, (batch,); scaled so that no square underflows."""
    stacked = torch.cat(adjoint, dim=1)
    largest = stacked.abs().amax(dim=1)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    return scale * torch.linalg.vector_norm(stacked / scale[:, None], dim=1)


class _Steps:
    """Steps of a cell along sequences, by its engine or by the reference."""

    def __init__(self, cell: Cell, u: Tensor) -> None:
        self._cell = cell
        self._u = u
        self._weights = cell.weights()
        self._inputs = u.unbind(0)

    def forward(self, state: State, start: int, stop: int, *, by_engine: bool) -> State:
        """Return the state at `stop` without a graph."""
        with torch.no_grad():
            if by_engine:
                return self._cell.run(self._u[start:stop], state)[1]
            for u_t in self._inputs[start:stop]:
                state = self._cell.step(self._weights, state, u_t)
        return state

    def pull_back_by_engine(self, unit: State, state: State, start: int, stop: int) -> State:
        """Return the adjoint at `start`, given the adjoint `unit` at `stop`."""
        before = tuple(part.detach().requires_grad_() for part in state)
        with torch.enable_grad():
            _, after = self._cell.run(self._u[start:stop], before)
        return _vector_jacobian(after, unit, before)

    def pull_back(
        self, unit: State, state: State, start: int, stop: int, wanted: set[int]
    ) -> dict[int, State]:
        """Return the adjoint at `start` and at the wanted times before `stop`.

        It is pulled back through the reference step from the adjoint `unit` at `stop`.
        """
        after = tuple(part.detach().requires_grad_() for part in state)
        states = {start: after}
        with torch.enable_grad(), Slopes():
            for t, u_t in enumerate(self._inputs[start:stop], start):
                if t in wanted and t > start:
                    # Parts of one state must not count as functions of each other (h_t of c_t, for
                    # example). So the derivative is by views that only the next step reads.
                    after = tuple(part.view_as(part) for part in after)
                    states[t] = after
                after = self._cell.step(self._weights, after, u_t)
        parts = [part for parts in states.values() for part in parts]
        gradients = _vector_jacobian(after, unit, parts)
        size = len(unit)
        return {t: gradients[i * size : (i + 1) * size] for i, t in enumerate(states)}


def _vector_jacobian(after: State, vectors: State, before: Sequence[Tensor]) -> State:
    """Return the derivatives of `after` by each of `before`, multiplied by `vectors`."""
    # A part that depends on nothing (a frozen state, for example) pulls nothing back.
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


def _pull_back(
    steps: _Steps, state: State, start: int, stop: int, tracker: _Tracker, *, by_engine: bool
) -> None:
    """Carry the tracked adjoint from time `stop` back to `start`, where the cell is in `state`."""
    before = _norm(tracker.unit)
    if by_engine:
        adjoint = steps.pull_back_by_engine(tracker.unit, state, start, stop)
        # The readout passes through activations, whose slopes an engine rounds, even if another
        # part of the state keeps the norm of the whole large.
        if not _lost(_norm((adjoint[tracker.readout],)), before, LEAST_BY_ENGINE):
            tracker.renormalize(adjoint)
            tracker.record(start)
            return
    adjoints = steps.pull_back(tracker.unit, state, start, stop, tracker.wanted)
    if stop - start > 1 and _lost(_norm(adjoints[start]), before, LEAST_BY_STEP):
        middle = (start + stop) // 2
        halfway = steps.forward(state, start, middle, by_engine=False)
        _pull_back(steps, halfway, middle, stop, tracker, by_engine=False)
        _pull_back(steps, state, start, middle, tracker, by_engine=False)
        return
    for t in reversed(adjoints):
        if t != start:
            tracker.record(t, adjoints[t])
    tracker.renormalize(adjoints[start])
    tracker.record(start)


def _lost(after: Tensor, before: Tensor, least: float) -> bool:
    """Return whether an adjoint underflowed (lost precision) or overflowed within the chunk."""
    return _any((before > 0) & ((after < least) | ~after.isfinite()))


def _any(lost: Tensor) -> bool:
    """Return whether anything is true; on a GPU the host waits for the answer."""
    return bool(lost.any())
