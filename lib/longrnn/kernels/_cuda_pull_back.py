r"""What the adjoint kernels of the LSTM and the GRU share on the GPU: norms, and the launch.

In the backward kernels one thread per sequence computes norms, every few steps. The norm of each
vector is kept as a log10 per sequence (`longrnn.kernels._pull_back`).
"""

import math

import torch
from torch import Tensor

from longrnn.kernels import _cpu_pull_back as cpu
from longrnn.kernels._cuda import device
from longrnn.kernels._cuda_device import device_version
from longrnn.kernels._cuda_kernel import kernel
from longrnn.kernels._cuda_launch import launch_dense
from longrnn.kernels._pull_back import Carried

gated = device_version(cpu.gated)
is_due = device_version(cpu.is_due)

FORWARD_BUFFERS = 2
"""Vectors in shared memory of the forward kernels."""
STORED_BYTES = 2**32
"""Bytes that one stretch of steps may store."""
_WIDEST = 256
"""Hidden size up to which the registers of a block fit a multiprocessor in float64."""


def most_units(dtype: torch.dtype) -> int:
    """Return the largest hidden size of these kernels; the shared memory would suffice for more.

    Parameters
    ----------
    dtype
        Type of the numbers; without effect, because the kernels are for float64 alone.

    Returns
    -------
    int
    """
    return _WIDEST


@device
def log10_of(norm):
    """Return log10 of a norm.

    Parameters
    ----------
    norm : float

    Returns
    -------
    float
        ``-inf`` for a norm of zero.
    """
    if norm == 0.0:
        return -math.inf
    return math.log10(norm)


@device
def norm_of(memory, first, stride, count):
    """Return the Euclidean norm of a vector in shared memory, without underflow of the squares.

    Parameters
    ----------
    memory : array
        The shared memory.
    first, stride, count : int
        The vector has `count` numbers, `stride` apart from index `first` on.

    Returns
    -------
    float
    """
    largest = 0.0
    k = 0
    while k < count:
        value = abs(memory[first + k * stride])
        if value > largest or value != value:
            largest = value
        k += 1
    if largest == 0.0 or largest != largest or largest == math.inf:
        return largest
    total = 0.0
    k = 0
    while k < count:
        value = memory[first + k * stride] / largest
        total += value * value
        k += 1
    return largest * math.sqrt(total)


@device
def add_norm(memory, logs_at, scales_at, i, norm, least, lost, sequence):
    """Add the log10 of a norm to that of a sequence, and keep the divisor.

    Parameters
    ----------
    memory : array
        The shared memory.
    logs_at, scales_at : int
        Offsets in it of the log10 norms and of the divisors of a block's sequences.
    i : int
        Index of the sequence in the block.
    norm : float
        The norm.
    least : float
        Smallest norm that lost no digits.
    lost : pointer
        Flags (batch,); set for a sequence whose norm is below `least` or not finite.
    sequence : int
        Index of the sequence in the batch.
    """
    log = memory[logs_at + i]
    if log > -math.inf and not (least <= norm < math.inf):
        lost[sequence] = 1
    memory[logs_at + i] = log + log10_of(norm)
    divisor = 1.0
    if norm > 0.0:
        divisor = norm
    memory[scales_at + i] = divisor


@device
def divide(memory, vectors_at, scales_at, thread, threads, tile, d):
    """Divide the vectors of a block's sequences by one number per sequence.

    Parameters
    ----------
    memory : array
        The shared memory.
    vectors_at, scales_at : int
        Offsets in it of the vectors (d, tile), and of the divisors (tile,).
    thread, threads : int
        Index of this thread, and number of threads of the block.
    tile, d : int
        Number of sequences per block, and hidden size.
    """
    j = thread  # no `range`: its length would take a division
    while j < d:
        for i in range(tile):
            memory[vectors_at + j * tile + i] /= memory[scales_at + i]
        j += threads


def run_pull_back(
    run: kernel,
    buffers: int,
    weights: tuple,
    saved: tuple,
    carried: Carried,
    every: int,
    wanted: Tensor,
) -> tuple[Tensor, Tensor]:
    """Launch a backward kernel.

    Parameters
    ----------
    run : kernel
        The kernel.
    buffers : int
        Vectors that it keeps in shared memory.
    weights, saved, carried, every, wanted
        As for `longrnn.kernels._pull_back.PullBack.pull_back`.

    Returns
    -------
    readout, full : (time, batch)
        log10 norms of the adjoints of h and of the full state, before the wanted steps.
    """
    readout = wanted.new_zeros(len(wanted), len(carried.log_norm))
    full = torch.zeros_like(readout)
    least = wanted.new_full((1,), cpu.LEAST)
    adjoints = carried.adjoint.unbind(0)
    norms = carried.log_norm, wanted, least, carried.lost, readout, full
    W = weights[0].contiguous()
    parts = W, *saved, *adjoints, *norms, every, len(wanted)
    launch_dense(run, adjoints[0], *parts, buffers=buffers, weights=W.numel())
    return readout, full
