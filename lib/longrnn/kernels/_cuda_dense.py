"""Device functions of the dense GPU kernels: products, and copies between the two memories.

The dense kernels (`longrnn.kernels.cuda_rnn`, `longrnn.kernels.cuda_lem` and others) keep the
vectors of a block in shared memory. Each vector there is (d, tile): the first numbers of all `tile`
sequences, then the second ones, and so on. All threads of a warp read the same numbers of it, so
one access serves them all.

Arrays in global memory, unless the docstring of a kernel says otherwise: an initial or final state
is (batch, d), and what all steps read or write, such as the drive and the outputs, is (time, batch,
d). Here `batch` counts the sequences of all runs, one run after the other, and `sequences` those of
one run. The weights of the runs follow one another. A gradient has the shape of what it is the
gradient of.

Indices: a CUDA block has `tile` sequences of one run and all d units. It has a thread for each
unit, in whole warps and at most 1,024 (`longrnn.kernels._cuda_launch.launch_dense`). A thread
computes the units j = `thread`, `thread` + `threads`, and so on. The number of sequence i and unit
j has

- index ``offsets[i] + j`` in a state (batch, d),
- index ``base + offsets[i] + j`` in an array (time, batch, d), where `base` is the offset of the
  time step,
- index ``4 * (base + offsets[i]) + q * d + j`` in block q, from 0 to 3, of an array
  (time, batch, 4 d) with four gates, such as those of the LSTM,
- index ``j * tile + i``, its `slot`, in a vector in shared memory.

A name that ends in `_at` is the offset of a vector in shared memory, and one that ends in `_start`
the index where the weights of a run begin.
"""

import numpy as np

from longrnn.kernels._cpu import ZERO
from longrnn.kernels._cuda import SIMULATED, device
from longrnn.kernels._cuda_device import load_or_zero

# Numba checks a signed index for being negative, at every access.
unsigned = int if SIMULATED else np.uint64


@device
def dot_products(totals, matrix, first, stride, memory, vectors, count):
    """Set `totals` to the products of one row of a matrix with vectors in shared memory.

    So that neighboring threads read neighboring numbers, the row is a column of the matrix in
    memory: forward kernels get the transposed matrix, and backward kernels, which multiply by the
    transposed matrix, the matrix itself. The stride is then the number of columns in memory.

    Parameters
    ----------
    totals : (tile,)
        Local array that receives the products.
    matrix : pointer
        The matrix in global memory.
    first, stride, count : int
        The row has `count` numbers, `stride` apart from index `first` on.
    memory : array
        The shared memory.
    vectors : int
        Offset of the vectors (count, tile) in it.
    """
    for i in range(totals.size):
        totals[i] = ZERO
    k = 0  # no `range`: the compiler would keep its state in registers next to k
    while k < count:
        weight = matrix[first + k * stride]
        for i in range(totals.size):
            totals[i] += weight * memory[unsigned(vectors + k * totals.size + i)]
        k += 1


@device
def driven_products(
    totals, g_t, matrix, start, column, blocks, memory, vectors, g, base, offsets, d
):  # fmt: skip
    """Set `totals` to products as `dot_products` does, plus the drive of the time step.

    Parameters
    ----------
    totals, g_t : (tile,)
        Local arrays that receive the sums and the drive.
    matrix : pointer
        The transposed matrix (d, blocks * d) in global memory.
    start, column : int
        The matrix begins at index `start`; the row is its column `column`.
    blocks : int
        Number of gates or other blocks, each with d rows.
    memory : array
        The shared memory.
    vectors : int
        Offset of the vectors (d, tile) in it.
    g : pointer
        The drive (time, batch, blocks * d).
    base : int
        Offset of the time step in arrays that are d wide.
    offsets : (tile,)
        Offsets of the sequences in an array (batch, d).
    d : int
        Hidden size.
    """
    for i in range(totals.size):  # read before the product, which hides the latency
        g_t[i] = g[blocks * (base + offsets[i]) + column]
    dot_products(totals, matrix, start + column, blocks * d, memory, vectors, d)
    for i in range(totals.size):
        totals[i] += g_t[i]


@device
def set_offsets(offsets, block, batch, size):
    """Set `offsets` to the offsets of a block's sequences in an array (batch, size).

    The last block may have fewer sequences than the others. Then it computes the last sequence
    several times, in the same threads and with the same result.

    Parameters
    ----------
    offsets : (tile,)
        Local array that receives the offsets.
    block : int
        Index of the block.
    batch, size : int
        Number of sequences, and of numbers per sequence.
    """
    for i in range(offsets.size):
        offsets[i] = min(block * offsets.size + i, batch - 1) * size


@device
def run_of(block, sequences, tile):
    """Return the index of the run whose sequences a block computes.

    All sequences of a block belong to one run, so it reads the weights of one network. The blocks
    of the runs follow one another in one dimension of the grid: a second one, for the runs, could
    not be longer than 65,535.

    Parameters
    ----------
    block : int
        Index of the block.
    sequences : int
        Number of sequences of each run.
    tile : int
        Number of sequences of a block.

    Returns
    -------
    int
    """
    return block // blocks_per_run(sequences, tile)


@device
def blocks_per_run(sequences, tile):
    """Return the number of blocks of a run; the last one may have fewer sequences.

    Parameters
    ----------
    sequences, tile : int
        As for `run_of`.

    Returns
    -------
    int
    """
    return (sequences + tile - 1) // tile


@device
def set_offsets_in_run(offsets, block, run, sequences, size):
    """Set `offsets` as `set_offsets` does, for a launch that takes several runs.

    Parameters
    ----------
    offsets : (tile,)
        Local array that receives the offsets.
    block, run : int
        Index of the block, and of its run, from `run_of`.
    sequences : int
        Number of sequences of each run. The batches of the runs follow one another.
    size : int
        Number of numbers per sequence.
    """
    block_of_run = block - run * blocks_per_run(sequences, offsets.size)
    for i in range(offsets.size):
        sequence = min(block_of_run * offsets.size + i, sequences - 1)
        offsets[i] = (run * sequences + sequence) * size


@device
def load_vectors(memory, vectors, states, offsets, thread, threads, d):
    """Copy the states of a block's sequences from global to shared memory.

    Parameters
    ----------
    memory : array
        The shared memory.
    vectors : int
        Offset in it, from which the states are stored as (d, tile).
    states : pointer
        The states (batch, d).
    offsets : (tile,)
        Where the sequences of the block begin in `states`.
    thread, threads : int
        Index of this thread, and number of threads of the block.
    d : int
        Hidden size.
    """
    j = thread  # no `range`: its length would take a division
    while j < d:
        for i in range(offsets.size):
            memory[vectors + j * offsets.size + i] = states[offsets[i] + j]
        j += threads


@device
def load_gradients(memory, vectors, gradients, present, offsets, thread, threads, d):
    """Copy gradients of states like `load_vectors`, or set them to zero if they are absent.

    Parameters
    ----------
    memory, vectors
        As for `load_vectors`.
    gradients : pointer
        The gradients (batch, d); not read if they are absent.
    present : int
        1, or 0 if the gradients are absent.
    offsets, thread, threads, d
        As for `load_vectors`.
    """
    j = thread
    while j < d:
        for i in range(offsets.size):
            value = load_or_zero(gradients, offsets[i] + j, present)
            memory[vectors + j * offsets.size + i] = value
        j += threads


@device
def store_vectors(states, memory, vectors, offsets, thread, threads, d):
    """Copy vectors from shared to global memory, the inverse of `load_vectors`.

    Parameters
    ----------
    states : pointer
        Receives the vectors, as (batch, d).
    memory, vectors, offsets, thread, threads, d
        As for `load_vectors`.
    """
    j = thread
    while j < d:
        for i in range(offsets.size):
            states[offsets[i] + j] = memory[vectors + j * offsets.size + i]
        j += threads


@device
def state_before(states, index, initial, initial_index, t):
    """Return a number of the state before step t.

    Parameters
    ----------
    states : pointer
        The states after all steps.
    index : int
        Index of the number in `states` after step t - 1, if there is such a step.
    initial : pointer
        The initial state.
    initial_index : int
        Index of the number in `initial`.
    t : int
        Index of the step, from 0.

    Returns
    -------
    float
    """
    if t > 0:
        return states[index]
    return initial[initial_index]
