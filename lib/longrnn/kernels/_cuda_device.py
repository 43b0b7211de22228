"""What the GPU kernels call: activations, products, and the walk along a chain.

All are compiled into the kernels that call them.
"""

import math
from collections.abc import Callable
from types import FunctionType

import numpy as np
from numba.core.registry import CPUDispatcher

from longrnn.kernels import _cpu
from longrnn.kernels._cpu import ONE, ZERO
from longrnn.kernels._cuda import SIMULATED, device, repeated

# In the simulator NumPy's functions keep the type of a scalar; the compiler knows `math`'s.
_tanh, _exp = (np.tanh, np.exp) if SIMULATED else (math.tanh, math.exp)


@device
def tanh(x):
    """Return tanh(x) in x's own type."""
    return _tanh(x)


@device
def sigmoid(x):
    """Return the logistic function of x in x's own type."""
    return ONE / (ONE + _exp(-x))


def shared(scalar: CPUDispatcher) -> Callable:
    """Return a scalar function of a CPU kernel for the GPU, with this file's activations."""
    function = getattr(scalar, "py_func", scalar)  # itself, where numba compiles nothing
    names = function.__globals__ | {"tanh": tanh, "sigmoid": sigmoid}
    return device(FunctionType(function.__code__, names, function.__name__))


activate, times_slope = shared(_cpu.activate), shared(_cpu.times_slope)


# A signed index could be negative, which Numba would ask each time.
_unsigned = int if SIMULATED else np.uint64


@device
def products(totals, matrix, first, stride, memory, vectors, count):
    """Set `totals` to the products of a row of a matrix and vectors in shared memory.

    `count` numbers of the matrix lie `stride` apart from `first` on. From `vectors` on, `memory`
    holds the first numbers of all vectors, then the second ones, and so on. The loop is no `range`,
    whose state the compiler would keep beside k.
    """
    for i in range(totals.size):
        totals[i] = ZERO
    k = 0
    while k < count:
        weight = matrix[first + k * stride]
        for i in range(totals.size):
            totals[i] += weight * memory[_unsigned(vectors + k * totals.size + i)]
        k += 1


@device
def locate(places, block, batch, d):
    """Set `places` to where the sequences of a block begin in (batch, d).

    Where they are fewer than the places, the last is done several times over, by the same threads
    and to the same end.
    """
    for i in range(places.size):
        places[i] = min(block * places.size + i, batch - 1) * d


@device
def locate_in_run(places, block, sequences, d):
    """Set `places` as `locate` does where `sequences` belong to each run; return the block's run.

    A block does sequences of one run only, so it reads one network's weights.
    """
    blocks = (sequences + places.size - 1) // places.size
    run = block // blocks
    first = block % blocks * places.size
    for i in range(places.size):
        places[i] = (run * sequences + min(first + i, sequences - 1)) * d
    return run


@device
def load(memory, vectors, states, places, row, rows, d):
    """Copy states of a block's sequences to shared memory, from `vectors` on, for `products`.

    This is thread `row` of `rows`.
    """
    j = row  # no `range`, whose length is a division
    while j < d:
        for i in range(places.size):
            memory[vectors + j * places.size + i] = states[places[i] + j]
        j += rows


def pipelined(fetch: Callable, step: Callable) -> Callable:
    """Return a device function for the steps of a chain that fetches inputs 16 steps ahead.

    So the latency of memory is hidden although few chains run at a time. Eight pairs of steps are
    spelled out, because what a loop over them indexes would leave the registers; each is fetched
    anew as soon as it was used, which takes half the registers of fetching all at a time.

    ``fetch(arrays, n) -> inputs`` reads what step n needs, ``step(neuron, state, inputs, arrays, n)
    -> state`` does it and writes its results; returned is ``run(neuron, state, arrays, count) ->
    state``.
    """

    @repeated
    def fetch_two(arrays, k):
        return fetch(arrays, 2 * k), fetch(arrays, 2 * k + 1)

    @repeated
    def step_two(neuron, state, inputs, arrays, k):
        first, second = inputs
        state = step(neuron, state, first, arrays, 2 * k)
        return step(neuron, state, second, arrays, 2 * k + 1)

    @repeated
    def run(neuron, state, arrays, count):
        pairs = count // 16 * 8
        if pairs > 0:
            a, b = fetch_two(arrays, 0), fetch_two(arrays, 1)
            c, d = fetch_two(arrays, 2), fetch_two(arrays, 3)
            e, f = fetch_two(arrays, 4), fetch_two(arrays, 5)
            g, h = fetch_two(arrays, 6), fetch_two(arrays, 7)
        for k in range(0, pairs, 8):
            m = min(k + 8, pairs - 8)
            state, a = step_two(neuron, state, a, arrays, k), fetch_two(arrays, m)
            state, b = step_two(neuron, state, b, arrays, k + 1), fetch_two(arrays, m + 1)
            state, c = step_two(neuron, state, c, arrays, k + 2), fetch_two(arrays, m + 2)
            state, d = step_two(neuron, state, d, arrays, k + 3), fetch_two(arrays, m + 3)
            state, e = step_two(neuron, state, e, arrays, k + 4), fetch_two(arrays, m + 4)
            state, f = step_two(neuron, state, f, arrays, k + 5), fetch_two(arrays, m + 5)
            state, g = step_two(neuron, state, g, arrays, k + 6), fetch_two(arrays, m + 6)
            state, h = step_two(neuron, state, h, arrays, k + 7), fetch_two(arrays, m + 7)
        for n in range(2 * pairs, count):
            state = step(neuron, state, fetch(arrays, n), arrays, n)
        return state

    return run
