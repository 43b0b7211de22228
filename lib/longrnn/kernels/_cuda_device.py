"""Device functions of the GPU kernels: activations, products, and the loop along a chain.

All are compiled into the kernels that call them. The dense kernels (`longrnn.kernels.cuda_rnn`,
`longrnn.kernels.cuda_lem` and others) keep the vectors of a block in shared memory, and each vector
there is (d, tile): the first numbers of all `tile` sequences, then the second ones, and so on. So
the threads of a warp, which read the same number, read it at once. In global memory a state is
(batch, d).
"""

import math
from collections.abc import Callable
from types import FunctionType

import numpy as np
from numba.core.registry import CPUDispatcher

from longrnn.kernels import _cpu
from longrnn.kernels._cpu import ONE, ZERO
from longrnn.kernels._cuda import SIMULATED, device, inlined_late

# In the simulator NumPy's functions keep the type of a scalar. The compiler supports `math`'s.
if SIMULATED:
    _tanh = np.tanh
    _exp = np.exp
else:
    _tanh = math.tanh
    _exp = math.exp


@device
def tanh(x):
    """Return tanh(x).

    Parameters
    ----------
    x : float32 or float64

    Returns
    -------
    float32 or float64
        In the type of x.
    """
    return _tanh(x)


@device
def sigmoid(x):
    """Return the logistic function of x.

    Parameters
    ----------
    x : float32 or float64

    Returns
    -------
    float32 or float64
        In the type of x.
    """
    return ONE / (ONE + _exp(-x))


def device_version(scalar: CPUDispatcher) -> Callable:
    """Compile a scalar function of a CPU kernel for the GPU, with this file's activations.

    Parameters
    ----------
    scalar : callable
        A function compiled by `longrnn.kernels._cpu.scalar`.

    Returns
    -------
    callable
        The device function; it takes and returns what `scalar` does.
    """
    function = getattr(scalar, "py_func", scalar)  # with NUMBA_DISABLE_JIT `scalar` is plain Python
    names = function.__globals__ | {"tanh": tanh, "sigmoid": sigmoid}
    return device(FunctionType(function.__code__, names, function.__name__))


activate = device_version(_cpu.activate)
times_slope = device_version(_cpu.times_slope)


# Numba checks a signed index for being negative, at every access.
_unsigned = int if SIMULATED else np.uint64


@device
def dot_products(totals, matrix, first, stride, memory, vectors, count):
    """Set `totals` to the products of one row of a matrix with vectors in shared memory.

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
            totals[i] += weight * memory[_unsigned(vectors + k * totals.size + i)]
        k += 1


@device
def load_or_zero(array, index, present):
    """Return a number of an array, or zero if the array is absent.

    Parameters
    ----------
    array : pointer
        The array.
    index : int
        Index of the number.
    present : int
        1, or 0 if the array is absent.

    Returns
    -------
    float
    """
    if present:
        return array[index]
    return ZERO


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
def set_offsets_in_run(offsets, block, sequences, size):
    """Set `offsets` as `set_offsets` does, for a launch that takes several runs.

    All sequences of a block belong to one run, so it reads the weights of one network.

    Parameters
    ----------
    offsets : (tile,)
        Local array that receives the offsets.
    block : int
        Index of the block.
    sequences : int
        Number of sequences of each run. The batches of the runs follow one another.
    size : int
        Number of numbers per sequence.

    Returns
    -------
    int
        Index of the block's run.
    """
    blocks = (sequences + offsets.size - 1) // offsets.size
    run = block // blocks
    first = block % blocks * offsets.size
    for i in range(offsets.size):
        offsets[i] = (run * sequences + min(first + i, sequences - 1)) * size
    return run


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


def pipelined(fetch: Callable, step: Callable) -> Callable:
    """Return a device function that runs the steps of a chain and fetches inputs 16 steps ahead.

    This hides the latency of memory although few chains run at a time. Eight pairs of steps are
    written out, because the elements of an array that a loop indexes could not stay in registers.
    The inputs of a pair are fetched again as soon as they were used, which takes half the registers
    of fetching all of them at once.

    Parameters
    ----------
    fetch : callable
        ``fetch(arrays, n) -> inputs`` reads what step n needs.
    step : callable
        ``step(neuron, state, inputs, arrays, n) -> state`` computes step n and writes its results.

    Returns
    -------
    callable
        ``run(neuron, state, arrays, count) -> state`` runs the steps 0..count-1.
    """

    @inlined_late
    def fetch_two(arrays, k):
        return fetch(arrays, 2 * k), fetch(arrays, 2 * k + 1)

    @inlined_late
    def step_two(neuron, state, inputs, arrays, k):
        first, second = inputs
        state = step(neuron, state, first, arrays, 2 * k)
        return step(neuron, state, second, arrays, 2 * k + 1)

    @inlined_late
    def run(neuron, state, arrays, count):
        pairs = count // 16 * 8
        if pairs > 0:
            a = fetch_two(arrays, 0)
            b = fetch_two(arrays, 1)
            c = fetch_two(arrays, 2)
            d = fetch_two(arrays, 3)
            e = fetch_two(arrays, 4)
            f = fetch_two(arrays, 5)
            g = fetch_two(arrays, 6)
            h = fetch_two(arrays, 7)
        for k in range(0, pairs, 8):
            following = min(k + 8, pairs - 8)
            state = step_two(neuron, state, a, arrays, k)
            a = fetch_two(arrays, following)
            state = step_two(neuron, state, b, arrays, k + 1)
            b = fetch_two(arrays, following + 1)
            state = step_two(neuron, state, c, arrays, k + 2)
            c = fetch_two(arrays, following + 2)
            state = step_two(neuron, state, d, arrays, k + 3)
            d = fetch_two(arrays, following + 3)
            state = step_two(neuron, state, e, arrays, k + 4)
            e = fetch_two(arrays, following + 4)
            state = step_two(neuron, state, f, arrays, k + 5)
            f = fetch_two(arrays, following + 5)
            state = step_two(neuron, state, g, arrays, k + 6)
            g = fetch_two(arrays, following + 6)
            state = step_two(neuron, state, h, arrays, k + 7)
            h = fetch_two(arrays, following + 7)
        for n in range(2 * pairs, count):
            state = step(neuron, state, fetch(arrays, n), arrays, n)
        return state

    return run
