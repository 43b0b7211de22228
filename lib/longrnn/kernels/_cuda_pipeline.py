"""The loop over the time steps of a chain on the GPU, which reads its inputs ahead of time."""

from collections.abc import Callable

from longrnn.kernels._cuda import inlined_late


def pipelined(fetch: Callable, step: Callable, *, ahead: int = 16) -> Callable:
    """Return a device function that runs the steps of a chain and fetches inputs 16 steps ahead.

    This hides the latency of memory even if few chains run at a time. The inputs of 16 steps are
    in registers, as eight pairs in tuples whose elements are written out: a register has no index,
    so an array that a loop indexes would be in memory. As soon as a pair has been used, its
    registers get the inputs of the pair 16 steps later:

    ============  ===================================
    before        fetch steps 0 to 15
    pair 0        steps 0 and 1, fetch 16 and 17
    pair 1        steps 2 and 3, fetch 18 and 19
    ..            ..
    pair 7        steps 14 and 15, fetch 30 and 31
    pair 0        steps 16 and 17, fetch 32 and 33
    ============  ===================================

    Fetching all eight pairs at once would take twice the registers. The steps after the last whole
    16 fetch their own inputs.

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
    def fetch_eight(arrays, k):
        return (
            fetch_two(arrays, k),
            fetch_two(arrays, k + 1),
            fetch_two(arrays, k + 2),
            fetch_two(arrays, k + 3),
        )

    @inlined_late
    def step_eight(neuron, state, inputs, arrays, k, following):
        """Compute four pairs of steps from pair k on, and fetch four pairs from `following` on."""
        a, b, c, d = inputs
        state = step_two(neuron, state, a, arrays, k)
        a = fetch_two(arrays, following)
        state = step_two(neuron, state, b, arrays, k + 1)
        b = fetch_two(arrays, following + 1)
        state = step_two(neuron, state, c, arrays, k + 2)
        c = fetch_two(arrays, following + 2)
        state = step_two(neuron, state, d, arrays, k + 3)
        d = fetch_two(arrays, following + 3)
        return state, (a, b, c, d)

    @inlined_late
    def step_the_rest(neuron, state, arrays, start, count):
        for n in range(start, count):
            state = step(neuron, state, fetch(arrays, n), arrays, n)
        return state

    @inlined_late
    def run(neuron, state, arrays, count):
        pairs = count // 16 * 8
        if pairs > 0:
            first = fetch_eight(arrays, 0)
            second = fetch_eight(arrays, 4)
        for k in range(0, pairs, 8):
            following = min(k + 8, pairs - 8)  # the last ones again, unused
            state, first = step_eight(neuron, state, first, arrays, k, following)
            state, second = step_eight(neuron, state, second, arrays, k + 4, following + 4)
        return step_the_rest(neuron, state, arrays, 2 * pairs, count)

    @inlined_late
    def run_by_eight(neuron, state, arrays, count):
        pairs = count // 8 * 4
        if pairs > 0:
            inputs = fetch_eight(arrays, 0)
        for k in range(0, pairs, 4):
            following = min(k + 4, pairs - 4)
            state, inputs = step_eight(neuron, state, inputs, arrays, k, following)
        return step_the_rest(neuron, state, arrays, 2 * pairs, count)

    return {8: run_by_eight, 16: run}[ahead]
