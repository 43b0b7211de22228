"""The loop over the time steps of a chain on the GPU, which reads its inputs ahead of time."""

from collections.abc import Callable

from longrnn.kernels._cuda import inlined_late


def pipelined(fetch: Callable, step: Callable, *, ahead: int = 16) -> Callable:
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
    ahead : {16, 8}
        Steps whose inputs are fetched ahead; 8 if the inputs of 16 would exceed the registers.

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

    @inlined_late
    def run_by_eight(neuron, state, arrays, count):
        pairs = count // 8 * 4
        if pairs > 0:
            a = fetch_two(arrays, 0)
            b = fetch_two(arrays, 1)
            c = fetch_two(arrays, 2)
            d = fetch_two(arrays, 3)
        for k in range(0, pairs, 4):
            following = min(k + 4, pairs - 4)
            state = step_two(neuron, state, a, arrays, k)
            a = fetch_two(arrays, following)
            state = step_two(neuron, state, b, arrays, k + 1)
            b = fetch_two(arrays, following + 1)
            state = step_two(neuron, state, c, arrays, k + 2)
            c = fetch_two(arrays, following + 2)
            state = step_two(neuron, state, d, arrays, k + 3)
            d = fetch_two(arrays, following + 3)
        for n in range(2 * pairs, count):
            state = step(neuron, state, fetch(arrays, n), arrays, n)
        return state

    return {8: run_by_eight, 16: run}[ahead]
