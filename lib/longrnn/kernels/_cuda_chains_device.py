"""Device functions of the kernels of independent neurons: a chain's drive, and its gradients.

`longrnn.kernels._cuda_chains` defines chains and the order of the arrays in memory. The weights and
the inputs of a neuron are in registers, which have no index. So the functions write out the up to
four inputs of a narrow layer one by one.
"""

from longrnn.kernels._cuda import inlined_late
from longrnn.kernels._cuda_device import ZERO


@inlined_late
def neuron_of(chain, d, run_chains):
    """Return the index of a chain's neuron among those of all runs.

    Parameters
    ----------
    chain : int
        Index of the chain.
    d : int
        Hidden size.
    run_chains : int
        Chains of one run, see `chains_per_run`.

    Returns
    -------
    int
    """
    return chain // run_chains * d + chain % d


@inlined_late
def load_drive_weights(V, b, neuron, inputs):
    """Return the bias and four input weights of a neuron; weights beyond its inputs are zero.

    Parameters
    ----------
    V : pointer
        Input weights (neurons of all runs, inputs); not read without inputs.
    b : pointer
        Biases (neurons of all runs,).
    neuron : int
        From `neuron_of`.
    inputs : int
        Number of inputs of a narrow layer, 0 for a wide one.

    Returns
    -------
    b, V_1, V_2, V_3, V_4 : float
    """
    first = neuron * inputs
    V_1 = ZERO
    V_2 = ZERO
    V_3 = ZERO
    V_4 = ZERO
    if inputs > 0:
        V_1 = V[first]
    if inputs > 1:
        V_2 = V[first + 1]
    if inputs > 2:
        V_3 = V[first + 2]
    if inputs > 3:
        V_4 = V[first + 3]
    return b[neuron], V_1, V_2, V_3, V_4


@inlined_late
def start_of_drive(chain, d, inputs):
    """Return the offset of a chain's V x, or of its inputs, at the first time.

    Parameters
    ----------
    chain : int
        Index of the chain.
    d : int
        Hidden size.
    inputs : int
        As for `load_drive_weights`.

    Returns
    -------
    int
    """
    if inputs == 0:
        return chain
    return chain // d * inputs


@inlined_late
def step_of_drive(chains, d, inputs):
    """Return the distance between V x, or the inputs, of two consecutive times.

    Parameters
    ----------
    chains : int
        Number of chains of all runs.
    d, inputs : int
        As for `start_of_drive`.

    Returns
    -------
    int
    """
    if inputs == 0:
        return chains
    return chains // d * inputs


@inlined_late
def fetch_drive(source, start, inputs):
    """Return V x of a time, or four inputs; those beyond the number of inputs repeat the first.

    Parameters
    ----------
    source : pointer
        V x (time, batch, d), or the inputs (time, batch, inputs).
    start : int
        Offset of the chain and the time in it.
    inputs : int
        As for `load_drive_weights`.

    Returns
    -------
    first, second, third, fourth : float
        The first is V x of a wide layer.
    """
    first = source[start]
    second = first
    third = first
    fourth = first
    if inputs > 1:
        second = source[start + 1]
    if inputs > 2:
        third = source[start + 2]
    if inputs > 3:
        fourth = source[start + 3]
    return first, second, third, fourth


@inlined_late
def drive_of(weights, fetched, inputs):
    """Return V x + b of a neuron.

    Parameters
    ----------
    weights : tuple of float
        From `load_drive_weights`.
    fetched : tuple of float
        From `fetch_drive`.
    inputs : int
        As for `load_drive_weights`.

    Returns
    -------
    float
    """
    b, V_1, V_2, V_3, V_4 = weights
    x_1, x_2, x_3, x_4 = fetched
    if inputs == 0:
        return x_1 + b
    g = b + V_1 * x_1
    if inputs > 1:
        g += V_2 * x_2
    if inputs > 2:
        g += V_3 * x_3
    if inputs > 3:
        g += V_4 * x_4
    return g


@inlined_late
def no_drive_sums(zero):
    """Return sums of zero for the gradients of the bias and of four input weights.

    Parameters
    ----------
    zero : float
        Zero, of the type of the sums.

    Returns
    -------
    tuple of five floats
    """
    return zero, zero, zero, zero, zero


@inlined_late
def add_to_drive_sums(sums, delta, fetched, inputs):
    """Return the sums after adding the terms of one time.

    Parameters
    ----------
    sums : tuple of five floats
        From `no_drive_sums` or this function.
    delta : float
        Gradient of the drive.
    fetched : tuple of float
        From `fetch_drive`.
    inputs : int
        As for `load_drive_weights`.

    Returns
    -------
    tuple of five floats
    """
    grad_b, grad_1, grad_2, grad_3, grad_4 = sums
    x_1, x_2, x_3, x_4 = fetched
    grad_b += delta
    if inputs > 0:
        grad_1 += delta * x_1
    if inputs > 1:
        grad_2 += delta * x_2
    if inputs > 2:
        grad_3 += delta * x_3
    if inputs > 3:
        grad_4 += delta * x_4
    return grad_b, grad_1, grad_2, grad_3, grad_4


@inlined_late
def store_drive_sums(stored, sums, start, chains, inputs):
    """Write the sums of a chain, for `longrnn.kernels._cuda_sums.sum_over_batch`.

    Parameters
    ----------
    stored : pointer
        Receives a row of `chains` numbers for the bias, and one for each input.
    sums : tuple of five floats
        From `add_to_drive_sums`.
    start : int
        Offset of the chain in the row of the bias.
    chains : int
        Number of chains of all runs.
    inputs : int
        As for `load_drive_weights`.
    """
    grad_b, grad_1, grad_2, grad_3, grad_4 = sums
    stored[start] = grad_b
    if inputs > 0:
        stored[start + chains] = grad_1
    if inputs > 1:
        stored[start + 2 * chains] = grad_2
    if inputs > 2:
        stored[start + 3 * chains] = grad_3
    if inputs > 3:
        stored[start + 4 * chains] = grad_4
