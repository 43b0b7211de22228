"""Batches of sequences of different lengths, which are run without padding.

A batch is stored as PyTorch's `PackedSequence` stores it: all sequences at the first time step,
then all at the second, and so on, the longest sequence first. Sequences end one after another, so
the batch falls into segments of constant batch size. A cell runs one segment at a time. A batch
whose sequences have one length is one segment.
"""

import itertools
import operator
import reprlib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longrnn.cells._unroll import State


class Segment(NamedTuple):
    """Consecutive time steps at which the same sequences are running."""

    steps: int
    batch: int


class Packing(NamedTuple):
    """How sequences are packed, and the direction in which a cell reads them."""

    segments: Sequence[Segment]
    reverse: bool = False


def as_rows(u: Tensor) -> Tensor:
    """Flatten the time and the batch of sequences.

    In an exported program, ``u.flatten(0, 1)`` has the stride min(p, p * batch). PyTorch then
    refuses a batch that is a named dimension, such as ``torch.export.Dim("batch")``, because it
    does not see that the stride is p (torch 2.13).

    Parameters
    ----------
    u : (time, batch, features)
        Sequences of one length.

    Returns
    -------
    (time * batch, features)
    """
    time_steps, batch, features = u.shape
    return u.flatten().unflatten(0, (time_steps * batch, features))


def segments_of(batch_sizes: Tensor) -> list[Segment]:
    """Group equal consecutive batch sizes of a `PackedSequence`.

    Parameters
    ----------
    batch_sizes : (time,)
        Number of running sequences at each time step, not increasing.

    Returns
    -------
    list of Segment

    Examples
    --------
    >>> segments_of(torch.tensor([3, 3, 1]))
    [Segment(steps=2, batch=3), Segment(steps=1, batch=1)]
    """
    segments = []
    for batch, steps in itertools.groupby(batch_sizes.tolist()):
        segments.append(Segment(len(list(steps)), batch))
    return segments


def pack(
    label: str, u: Tensor, lengths: Tensor | Sequence[int]
) -> tuple[Tensor, list[Segment], Tensor]:
    """Pack padded sequences.

    PyTorch's function for it does not work inside `torch.func` transforms.

    Parameters
    ----------
    label
        First word of error messages.
    u : (time, batch, input)
        Padded sequences.
    lengths : (batch,)
        The number of time steps of each sequence, in any order.

    Returns
    -------
    data : (rows, input)
        The packed sequences.
    segments : list of Segment
        Segments of the sequences.
    order : (batch,)
        Indices of the sequences as they are packed, the longest first.

    Raises
    ------
    ValueError
        There is not one whole number per sequence, or one is not between 1 and the number of
        time steps.
    """
    time_steps, batch, _ = u.shape
    counts = _as_counts(label, lengths, batch)
    for count in counts:
        if not 1 <= count <= time_steps:
            raise ValueError(
                f"{label}: expected lengths between 1 and {time_steps}, the time steps of the "
                f"input, got {count}"
            )
    longest_first = sorted(range(batch), key=lambda k: -counts[k])
    order = torch.tensor(longest_first, device=u.device)
    u = u.index_select(1, order)
    segments = []
    pieces = []
    start = 0
    for ended, stop in enumerate(sorted(counts)):
        if stop > start:
            segments.append(Segment(stop - start, batch - ended))
            pieces.append(as_rows(u[start:stop, : batch - ended]))
            start = stop
    return torch.cat(pieces), segments, order


def _as_counts(label: str, lengths: Tensor | Sequence[int], batch: int) -> list[int]:
    """Return lengths as a list, after checking that there is a whole number per sequence."""
    expected = f"{label}: expected lengths to be {batch} whole numbers, one per sequence"
    if isinstance(lengths, Tensor):
        if lengths.is_meta:
            raise ValueError(f"{expected}, got a tensor on the meta device, which has no values")
        whole = not (lengths.is_floating_point() or lengths.is_complex())
        if lengths.shape != (batch,) or not whole or lengths.dtype == torch.bool:
            raise ValueError(f"{expected}, got {tuple(lengths.shape)} of {lengths.dtype}")
        return lengths.tolist()
    # Without a tensor, `torch.export` knows the values.
    try:
        counts = [operator.index(length) for length in lengths]
    except TypeError:
        given = " ".join(reprlib.repr(lengths).split())  # an array has a line per row
        raise ValueError(f"{expected}, got {given}") from None
    if len(counts) != batch:
        raise ValueError(f"{expected}, got {len(counts)}")
    return counts


def unpack(data: Tensor, segments: Sequence[Segment], order: Tensor, time_steps: int) -> Tensor:
    """Pad packed sequences with zeros, the inverse of `pack`.

    Parameters
    ----------
    data : (rows, features)
        The packed sequences.
    segments, order
        As from `pack`.
    time_steps
        Length of the padded sequences.

    Returns
    -------
    (time, batch, features)
    """
    batch = segments[0].batch
    longest = 0
    pieces = []
    rows = data.split([segment.steps * segment.batch for segment in segments])
    for piece, segment in zip(rows, segments, strict=True):
        piece = piece.unflatten(0, segment)
        pieces.append(F.pad(piece, (0, 0, 0, batch - segment.batch)))
        longest += segment.steps
    padded = F.pad(torch.cat(pieces), (0, 0, 0, 0, 0, time_steps - longest))
    return padded.index_select(1, order.argsort())


def run_segments(
    cell: nn.Module,
    data: Tensor,
    initial: State,
    packing: Packing,
    *,
    engine: str = "auto",
) -> tuple[Tensor, State]:
    """Run a cell over packed sequences.

    Parameters
    ----------
    cell : Cell
        The cell.
    data : (rows, input)
        The packed sequences.
    initial : tuple of (batch, hidden)
        The state before the first input of each sequence.
    packing
        Segments of the sequences. If its `reverse` is set, every sequence is run from its last time
        step to its first.
    engine
        As in `Cell.forward`.

    Returns
    -------
    outputs : (rows, hidden)
        The outputs, packed as the data.
    final : tuple of (batch, hidden)
        The state after the last step that was run of each sequence.
    """
    segments = packing.segments
    weights = cell.run_weights(segments[0].batch)
    pieces = [data]
    if len(segments) > 1:  # the backward pass of `split` copies the gradient
        pieces = data.split([segment.steps * segment.batch for segment in segments])
    run = _run_forward
    if packing.reverse:
        run = _run_backward
    shaped = [piece.unflatten(0, segment) for piece, segment in zip(pieces, segments, strict=True)]
    run_cell = partial(cell.run, engine=engine, weights=weights)
    outputs, final = run(run_cell, shaped, initial)
    flat = [as_rows(output) for output in outputs]
    if len(flat) == 1:
        return flat[0], final
    return torch.cat(flat), final


def _run_forward(run_cell, pieces: list[Tensor], state: State) -> tuple[list[Tensor], State]:
    """Run segments in order; sequences leave the batch when they end."""
    outputs = []
    ended: list[State] = []  # the states of sequences that ended, the shortest first
    for u in pieces:
        batch = u.shape[1]
        if batch < state[0].shape[0]:  # `len` would fix the batch size of an exported program
            ended.append(tuple(part[batch:] for part in state))
            state = tuple(part[:batch] for part in state)
        output, state = run_cell(u, state)
        outputs.append(output)
    if ended:
        parts = zip(state, *reversed(ended), strict=True)
        state = tuple(torch.cat(part) for part in parts)
    return outputs, state


def _run_backward(run_cell, pieces: list[Tensor], initial: State) -> tuple[list[Tensor], State]:
    """Run segments from the last to the first; sequences join the batch at their last step."""
    outputs = []
    state = tuple(part[:0] for part in initial)
    for u in reversed(pieces):
        running = state[0].shape[0]
        batch = u.shape[1]
        if running == 0:
            state = tuple(part[:batch] for part in initial)
        elif batch > running:
            joining = (part[running:batch] for part in initial)
            state = tuple(torch.cat(part) for part in zip(state, joining, strict=True))
        output, state = run_cell(u.flip(0), state)
        outputs.append(output.flip(0))
    outputs.reverse()
    return outputs, state
