r"""Norms of the adjoint states of any cell, also beyond the range of floating-point numbers.

The adjoint state (L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024,
definition 3.1) is the total derivative of the loss with respect to the state at time t,
:math:`\lambda_t = (\partial x_T / \partial x_t)^\top \partial L / \partial x_T`. The minus sign
in (3.2) does not change its norm. If a cell has several state tensors, the derivative is with
respect to all of them. Two norms are returned: that of the tensor that is the cell's output, and
that of the full state. The dissertation's VEG metric is computed from them.

Over a thousand steps the norm shrinks or grows by hundreds of orders of magnitude. We therefore
pull back one unit vector per sequence and accumulate the log10 of its norm. Everything is computed
in float64. The forward pass stores one state per chunk of steps, and the backward pass builds the
graph of one chunk at a time.

If only few times are requested and the cell has an engine, the engine runs and differentiates the
chunks between them. An engine computes the derivative of an activation from its value, which loses
digits near saturation. If a chunk shrinks an adjoint so much that the loss could matter, that chunk
is pulled back again through the reference step, with the derivatives of `longrnn.probes.slopes`.
Cells without an engine always use the reference step.

The LSTM and the GRU have kernels of their own (`longrnn.kernels._pull_back`). One call runs
forward and another backward, for any number of times. They compute the derivatives from the
argument, and normalize the adjoint themselves.
"""

import copy
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import parametrize

from longrnn import kernels
from longrnn.cells import Cell, OneStep, Recurrent, State
from longrnn.kernels._pull_back import Carried, PullBack
from longrnn.probes._adjoint_steps import Steps
from longrnn.probes._adjoint_tracker import Tracker, norm_of
from longrnn.probes._checks import Losses, bare_cell, double_inputs, loss_gradients

CHUNK = 16
"""Number of reference steps per chunk; the graph of a chunk is in memory at once."""
ENGINE_CHUNK = 32
"""Number of steps per chunk of an engine. In longer chunks an adjoint shrinks more, and more chunks
would have to be repeated with the reference."""
NORMALIZE_EVERY = 8
"""Steps between two normalizations by the kernels of the LSTM and the GRU."""
LEAST_BY_STEP = 1e-250
"""Smallest norm of a pulled-back unit vector that is trusted. Below it, components may be
denormal."""
LEAST_BY_ENGINE = 1e-12
"""The same for an engine. Its derivatives have errors of 1e-16, so four digits remain."""


@dataclass(frozen=True)
class AdjointNorms:
    """Log10 norms of adjoint states; the log of an exact zero is ``-inf``.

    Attributes
    ----------
    times : (k,)
        Time points, ascending; 0 is the initial state.
    readout, full : (k, batch), float64
        log10 ||lambda_t||_2 of the output tensor of the state, and of the full state.
    final_states : tuple of (batch, hidden), float64
        The state after the last input.
    """

    times: tuple[int, ...]
    readout: Tensor
    full: Tensor
    final_states: State


@torch.inference_mode(False)  # which also enables gradients: evaluation usually disables them
def adjoint_norms(
    cell: Cell | OneStep | Recurrent,
    u: Tensor,
    losses: Losses,
    *,
    times: Sequence[int] | None = None,
    whole: bool = False,
    engine: str = "auto",
) -> AdjointNorms:
    """Compute the norms of the adjoint states of a cell along sequences.

    Parameters
    ----------
    cell
        A cell, a one-step cell such as `longrnn.LEMCell`, or a layer such as `longrnn.LEM` that has
        one layer and one direction; it is copied, not changed.
    u : (time, batch, input)
        The sequences, of any type; they are converted to float64.
    losses
        Maps the cell's last output, (batch, hidden) in float64, to the loss of each sequence,
        (batch,), as for `longrnn.probes.coadjoint.coadjoint_loss`. A head inside needs weights in
        float64, for example ``copy.deepcopy(head).double()``.
    times
        Time points t in 0..T; all of 1..T by default.
    whole
        Whether to pass all state tensors to `losses`, concatenated to (batch, states * hidden),
        instead of the output tensor only.
    engine
        ``auto``, or ``reference`` to differentiate the reference step even if there is an engine.

    Returns
    -------
    AdjointNorms
        Log10 norms at the requested times, and the final state.

    Raises
    ------
    TypeError
        `cell` is neither a cell nor a layer, `u` is not a tensor, or `losses` cannot take float64
        outputs.
    ValueError
        The layer has several cells or takes inputs batch first, the sequences don't fit the cell,
        the losses don't have the shape (batch,) or no derivative with respect to the output, a time
        point lies outside the sequence, or `engine` is neither.

    Notes
    -----
    Johnston 2024, definition 3.1. A chunk that shrinks the adjoint out of the range of float64
    is halved, down to single steps if necessary. A single step that does so is not handled.

    Examples
    --------
    >>> from longrnn import LEM, adjoint_norms
    >>> lem = LEM(2, 8)
    >>> head = torch.nn.Linear(8, 1).double()
    >>> u, targets = torch.randn(50, 3, 2), torch.randn(3, dtype=torch.float64)
    >>> def losses(y):
    ...     return (head(y)[:, 0] - targets).square()
    >>> norms = adjoint_norms(lem, u, losses, times=[1, 50])
    >>> norms.times, norms.readout.shape
    ((1, 50), torch.Size([2, 3]))
    """
    cell = copy.deepcopy(bare_cell(cell)).double().requires_grad_(False).eval()
    u = double_inputs(cell, u)
    T = u.shape[0]
    if times is None:
        times = range(1, T + 1)
    wanted = sorted({operator.index(t) for t in times})
    if not wanted or wanted[0] < 0 or wanted[-1] > T:
        raise ValueError(f"expected time points between 0 and T={T}, got {wanted}")
    if engine not in ("auto", "reference"):
        raise ValueError(f"expected the engine 'auto' or 'reference', got {engine!r}")
    engine = cell.engine_for(engine)
    if engine == "auto":
        kernel = kernels.select(f"{cell.name}/pull_back", "auto", u, units=cell.hidden_size)
        if kernel is not None:
            return _adjoint_norms_by_kernel(kernel, cell, u, losses, wanted, whole)
    few = len(wanted) <= 2 + T // ENGINE_CHUNK
    by_engine = engine == "auto" and few and _has_engine(cell, u)
    with parametrize.cached():  # an engine reads the weights at every chunk
        return _adjoint_norms_by_chunks(cell, u, losses, wanted, whole, by_engine)


def _adjoint_norms_by_chunks(
    cell: Cell,
    u: Tensor,
    losses: Losses,
    wanted: Sequence[int],
    whole: bool,
    by_engine: bool,
) -> AdjointNorms:
    """Compute adjoint norms by the reference step, or by an engine that runs chunk by chunk."""
    T, batch, _ = u.shape
    steps = Steps(cell, u)
    state = cell.initial_state(batch)
    chunks = []  # start, stop, and the state at the start
    for start, stop in pairwise(_chunk_edges(T, wanted, by_engine=by_engine)):
        chunks.append((start, stop, state))
        state = steps.forward(state, start, stop, by_engine=by_engine)
    tracker = Tracker(cell.readout, set(wanted), _last_adjoint(losses, state, cell.readout, whole))
    tracker.record(T)
    for start, stop, state_at_start in reversed(chunks):
        _pull_back(steps, state_at_start, start, stop, tracker, by_engine=by_engine)
    readout, full = tracker.stacked(wanted)
    return AdjointNorms(tuple(wanted), readout, full, state)


def _adjoint_norms_by_kernel(
    kernel: type[PullBack],
    cell: Cell,
    u: Tensor,
    losses: Losses,
    wanted: Sequence[int],
    whole: bool,
) -> AdjointNorms:
    """Compute adjoint norms with a kernel that runs and pulls back whole stretches of steps.

    A stretch is as long as memory allows. If there are several, their states are recomputed for the
    backward pass. If an adjoint leaves the range of float64 between two normalizations, everything
    is pulled back again with a normalization at every step.
    """
    T, batch, _ = u.shape
    weights = cell.weights()
    stored = kernel.vectors * batch * cell.hidden_size * u.element_size()
    length = max(1, kernel.stored_bytes // stored)
    state = cell.initial_state(batch)
    stretches = []
    for start, stop in pairwise([*range(0, T, length), T]):
        stretches.append(_Stretch(start, u[start:stop], state))
        state, last_saved = kernel.forward(weights, state, u[start:stop])
    tracker = Tracker(cell.readout, set(wanted), _last_adjoint(losses, state, cell.readout, whole))
    tracker.record(T)
    is_wanted = u.new_zeros(T)
    is_wanted[[t for t in wanted if t < T]] = 1

    def pull_back(stretch: _Stretch, carried: Carried, every: int) -> tuple[Tensor, Tensor]:
        saved = last_saved
        if stretch is not stretches[-1]:
            _, saved = kernel.forward(weights, stretch.state, stretch.u)
        stop = stretch.start + len(stretch.u)
        return kernel.pull_back(weights, saved, carried, every, is_wanted[stretch.start : stop])

    for every in (NORMALIZE_EVERY, 1):
        carried = Carried(tracker.unit, tracker.log_norm)
        norms = [pull_back(stretch, carried, every) for stretch in reversed(stretches)]
        if not _any(carried.lost > 0):
            break
    for stretch, (readout, full) in zip(reversed(stretches), norms, strict=True):
        tracker.record_measured(stretch.start, readout, full)
    readout, full = tracker.stacked(wanted)
    return AdjointNorms(tuple(wanted), readout, full, state)


class _Stretch(NamedTuple):
    """Consecutive time steps: the first time, the inputs, and the state before them."""

    start: int
    u: Tensor
    state: State


def _chunk_edges(T: int, wanted: Sequence[int], *, by_engine: bool) -> list[int]:
    """Return the times at which chunks begin and end, from 0 to T.

    An engine returns states only at the ends of its chunks, so each wanted time is an edge.
    """
    if by_engine:
        return sorted({*range(0, T, ENGINE_CHUNK), *wanted, T})
    return [*range(0, T, CHUNK), T]


def _last_adjoint(losses: Losses, state: State, readout: int, whole: bool) -> State:
    """Return the derivative of the summed losses with respect to each tensor of the last state."""
    indices = [readout]
    if whole:
        indices = list(range(len(state)))
    x = [state[index].detach().requires_grad_() for index in indices]
    gradients = loss_gradients(losses, x)
    adjoint = [torch.zeros_like(part) for part in state]
    for index, gradient in zip(indices, gradients, strict=True):
        adjoint[index] = gradient.contiguous()
    return tuple(adjoint)


def log10_sum(logs: Tensor, dim: int = -1) -> Tensor:
    """Return log10 of the sum of 10**logs along a dimension, without overflow or underflow.

    Parameters
    ----------
    logs : Tensor
        Base-10 logarithms, of any shape.
    dim : int
        The dimension to sum over.

    Returns
    -------
    Tensor
        `logs` without the dimension.

    Examples
    --------
    >>> log10_sum(torch.tensor([-400.0, -400.0], dtype=torch.float64)).item()
    -399.6989700043...
    """
    return torch.logsumexp(logs * math.log(10), dim=dim) / math.log(10)


def _has_engine(cell: Cell, u: Tensor) -> bool:
    """Return whether the cell has an engine that is faster than its step in float64."""
    chosen = kernels.choose(cell.name, u.device.type, cell.engine_options)
    # In float64 PyTorch's own layers are not faster than the step.
    return not chosen.startswith(("reference", "library"))


def _pull_back(
    steps: Steps, state: State, start: int, stop: int, tracker: Tracker, *, by_engine: bool
) -> None:
    """Pull the tracked adjoint back from `stop` to `start`; `state` is the state at `start`."""
    before = norm_of(tracker.unit)
    if by_engine:
        adjoint = steps.pull_back_by_engine(tracker.unit, state, start, stop)
        # Check the output tensor alone: its derivatives pass through activations and lose digits
        # first, even if another state tensor keeps the full norm large.
        if not _lost(norm_of((adjoint[tracker.readout],)), before, LEAST_BY_ENGINE):
            tracker.renormalize(adjoint)
            tracker.record(start)
            return
    adjoints = steps.pull_back(tracker.unit, state, start, stop, tracker.wanted)
    if stop - start > 1 and _lost(norm_of(adjoints[start]), before, LEAST_BY_STEP):
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
    """Return whether an adjoint lost digits by underflow, or overflowed, within a chunk.

    `before` and `after` are norms before and after the chunk; an adjoint that is zero has nothing
    to lose.
    """
    return _any((before > 0) & ((after < least) | ~after.isfinite()))


def _any(lost: Tensor) -> bool:
    """Return whether any element is true; on a GPU this synchronizes."""
    return bool(lost.any())
