r"""What layers of independent neurons share on the GPU: their drive, and its gradients.

A chain is one neuron of one sequence; a thread computes all of its time steps. Arrays are
(time, batch, hidden), so the numbers of a chain are as many apart as there are chains, and
neighboring threads read neighboring numbers.

The drive :math:`g_t = V x_t + b` of a layer with up to `MOST_INPUTS` inputs is computed inside its
kernels: they read the few inputs, and the drive is neither written nor kept. For a wider layer V x
is one product before the kernel, and the kernel adds the bias. In the kernels `inputs` is the
number of inputs, or 0 if they get V x.

The gradients of w, b and V are sums over times and sequences. Each thread sums over the times of
its chain. A second launch sums over the sequences (`longrnn.kernels._cuda_sums`).

One launch takes the sequences of several runs, one run after the other. What the sequences of a run
share then has the runs as its first axis.
"""

from torch import Tensor

from longrnn.kernels._cuda import inlined_late
from longrnn.kernels._cuda_device import ZERO
from longrnn.kernels._drive import drive

MOST_INPUTS = 4
"""Largest number of inputs of a layer whose kernels compute the drive."""


def product_or_inputs(below: Tensor, V: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return what the kernels read for the drive of a layer.

    Parameters
    ----------
    below : (time, batch, inputs)
        Inputs of the layer.
    V : (hidden, inputs)
        Input weights.

    Returns
    -------
    product : (time, batch, hidden) or None
        V x of a wide layer.
    inputs : (time, batch, inputs) or None
        The contiguous inputs of a narrow layer.
    """
    if V.shape[1] > MOST_INPUTS:
        return drive(below, V), None
    return None, below.contiguous()


def source_of(g: Tensor | None, x: Tensor | None, V: Tensor | None) -> tuple[Tensor, int]:
    """Return the tensor that the kernels read for the drive, and their number of inputs.

    Parameters
    ----------
    g : (time, batch, hidden) or None
        V x of a wide layer.
    x : (time, batch, inputs) or None
        Inputs of a narrow layer.
    V : (hidden, inputs), (runs, hidden, inputs) or None
        Input weights of a narrow layer.

    Returns
    -------
    source : Tensor
        `x` or `g`.
    inputs : int
        Number of inputs; 0 for a wide layer.
    """
    if x is None:
        return g, 0
    return x, V.shape[-1]


def chains_per_run(state: Tensor, w: Tensor, *, vectors: int = 1) -> int:
    """Return the number of chains that share weights.

    Parameters
    ----------
    state : (batch, hidden)
        The state of all runs.
    w : (vectors * hidden,) or (runs, vectors * hidden)
        Weights per neuron.
    vectors
        Number of weights per neuron in `w`.

    Returns
    -------
    int
        The chains of one run.
    """
    runs = w.numel() // (vectors * state.shape[1])
    return state.numel() // runs


def broadcast_over_sequences(weights: Tensor, state: Tensor) -> Tensor:
    """Return weights per neuron in a shape that broadcasts over the sequences of all runs.

    Parameters
    ----------
    weights : (hidden,) or (runs, hidden)
        Weights of one run or of several.
    state : (batch, hidden)
        The state of all runs.

    Returns
    -------
    (hidden,) or (batch, hidden)
        The weights of one run, or of each sequence.
    """
    if weights.dim() == 1:
        return weights
    return weights.repeat_interleave(len(state) // len(weights), dim=0)


def drive_in_pytorch(g: Tensor | None, x: Tensor | None, V: Tensor | None) -> Tensor:
    """Return V x for the references.

    Parameters
    ----------
    g, x, V
        As for `source_of`.

    Returns
    -------
    (time, batch, hidden)
        `g`, or the product of V and x for one run or several.
    """
    if x is None:
        return g
    if V.dim() == 2:
        return x @ V.T
    return (x.unflatten(1, (len(V), -1)) @ V.mT).flatten(1, 2)


def inputs_gradient(delta: Tensor, V: Tensor) -> Tensor:
    """Return the gradient of the inputs of a narrow layer.

    Parameters
    ----------
    delta : (time, batch, hidden)
        Gradient of the drive.
    V : (hidden, inputs) or (runs, hidden, inputs)
        Input weights of one run or of several.

    Returns
    -------
    (time, batch, inputs)
    """
    if V.dim() == 2:
        return delta @ V
    return (delta.unflatten(1, (len(V), -1)) @ V).flatten(1, 2)


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
