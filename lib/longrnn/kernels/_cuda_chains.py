r"""What layers of independent neurons share on the GPU: their drive, and gradients of weights.

The drive :math:`g_t = V x_t + b` of a layer with up to `MOST_INPUTS` inputs is computed inside its
kernels: the few inputs are read instead of the drive, which is neither written nor kept. Of a wider
layer V x is one product before the kernel, and the kernel adds the bias.

The gradients of w, b and V are sums over times and sequences. Each thread sums over the times of
its chain. A second launch sums over the sequences, always in the same order.

One launch takes the sequences of several runs, one run after the other. What the sequences of a run
share then has the runs as its first axis.
"""

import torch
from torch import Tensor

from longrnn.kernels._cuda import cuda, kernel, launch_chains, real, repeated
from longrnn.kernels._cuda_device import ZERO
from longrnn.kernels._recurrence import drive

MOST_INPUTS = 4
"""Inputs of a layer up to which its kernels compute the drive."""


def product_or_inputs(below: Tensor, V: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return V x for a wide layer and None, or None and the contiguous inputs of a narrow one.

    Parameters
    ----------
    below : (time, batch, inputs)
    V : (hidden, inputs)
    """
    if V.shape[1] > MOST_INPUTS:
        return drive(below, V), None
    return None, below.contiguous()


def source_of(g: Tensor | None, x: Tensor | None, V: Tensor | None) -> tuple[Tensor, int]:
    """Return what the kernels read, and how many inputs they weigh: 0 if that is V x."""
    return (g, 0) if x is None else (x, V.shape[-1])


def chains_per_run(state: Tensor, w: Tensor, *, vectors: int = 1) -> int:
    """Return how many chains share weights w: (vectors * hidden), or (runs, vectors * hidden)."""
    runs = w.numel() // (vectors * state.shape[1])
    return state.numel() // runs


def of_sequences(weights: Tensor, state: Tensor) -> Tensor:
    """Return weights (hidden), or those of runs for each sequence of `state` (batch, hidden)."""
    if weights.dim() == 1:
        return weights
    return weights.repeat_interleave(len(state) // len(weights), dim=0)


def drive_in_pytorch(g: Tensor | None, x: Tensor | None, V: Tensor | None) -> Tensor:
    """Return V x, for the references: given, or computed for one run or several."""
    if x is None:
        return g
    if V.dim() == 2:
        return x @ V.T
    return (x.unflatten(1, (len(V), -1)) @ V.mT).flatten(1, 2)


def inputs_gradient(delta: Tensor, V: Tensor) -> Tensor:
    """Return the gradient of the inputs, of one run or several."""
    if V.dim() == 2:
        return delta @ V
    return (delta.unflatten(1, (len(V), -1)) @ V).flatten(1, 2)


@repeated
def place_of_weights(chain, d, run_chains):
    """Return where the weights of a chain's neuron are."""
    return chain // run_chains * d + chain % d


@repeated
def load_drive_weights(V, b, neuron, inputs):
    """Return the bias and four weights of a neuron, those beyond its inputs zero."""
    first = neuron * inputs
    return (
        b[neuron],
        V[first] if inputs > 0 else ZERO,
        V[first + 1] if inputs > 1 else ZERO,
        V[first + 2] if inputs > 2 else ZERO,
        V[first + 3] if inputs > 3 else ZERO,
    )


@repeated
def start_of_drive(chain, d, inputs):
    """Return where a chain's part of V x, or of the inputs, begins at the first time."""
    return chain if inputs == 0 else chain // d * inputs


@repeated
def step_of_drive(chains, d, inputs):
    """Return how far V x, or the inputs, of two times are apart."""
    return chains if inputs == 0 else chains // d * inputs


@repeated
def fetch_drive(source, here, inputs):
    """Return V x of a time, or four inputs; those that do not exist repeat the first."""
    first = source[here]
    second = source[here + 1] if inputs > 1 else first
    third = source[here + 2] if inputs > 2 else first
    fourth = source[here + 3] if inputs > 3 else first
    return first, second, third, fourth


@repeated
def drive_of(weights, fetched, inputs):
    """Return V x + b."""
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


@repeated
def no_drive_sums(zero):
    """Return sums for the gradients of the bias and of four weights, at their start."""
    return zero, zero, zero, zero, zero


@repeated
def add_to_drive_sums(sums, delta, fetched, inputs):
    """Return the sums with the share of a time."""
    of_b, of_1, of_2, of_3, of_4 = sums
    x_1, x_2, x_3, x_4 = fetched
    of_b += delta
    if inputs > 0:
        of_1 += delta * x_1
    if inputs > 1:
        of_2 += delta * x_2
    if inputs > 2:
        of_3 += delta * x_3
    if inputs > 3:
        of_4 += delta * x_4
    return of_b, of_1, of_2, of_3, of_4


@repeated
def store_drive_sums(stored, sums, here, chains, inputs):
    """Write the sums of a chain to rows of `stored`, the first of them at `here`."""
    of_b, of_1, of_2, of_3, of_4 = sums
    stored[here] = of_b
    if inputs > 0:
        stored[here + chains] = of_1
    if inputs > 1:
        stored[here + 2 * chains] = of_2
    if inputs > 2:
        stored[here + 3 * chains] = of_3
    if inputs > 3:
        stored[here + 4 * chains] = of_4


vectors = 1
"""Compile-time constant: how many gradients are vectors, before that of V."""


@kernel
def _sum_kernel(stored, first, second, third, of_V, inputs, sequences, width, all_widths, sums):
    """Sum `stored` (vectors + inputs, runs, sequences, width) over the sequences of each run.

    `all_widths` is runs times width.
    """
    i = cuda.grid(1)
    if i < sums:
        row, neuron = i // all_widths, i % all_widths
        total, here = real(0), i // width * sequences * width + i % width
        for _ in range(sequences):
            total += stored[here]
            here += width
        if row == 0:
            first[neuron] = total
        elif row == 1 and vectors > 1:
            second[neuron] = total
        elif row == 2 and vectors > 2:
            third[neuron] = total
        else:
            of_V[neuron * inputs + row - vectors] = total


def sum_over_batch(stored: Tensor, vectors: int, like: Tensor) -> list[Tensor | None]:
    """Return sums over the sequences of each run, each in memory of its own, by one launch.

    Parameters
    ----------
    stored : (vectors + inputs, batch, width)
        Sums over time.
    vectors : int
        How many of the results are vectors, at most three.
    like : (width) or (runs, width)
        Weights, of the shape of a vector.

    Returns
    -------
    list
        The vectors, then the gradient of V, which has the inputs as its last axis; None without
        inputs.
    """
    count, batch, width = stored.shape
    inputs = count - vectors
    results = [torch.empty_like(like) for _ in range(vectors)]
    of_V = like.new_empty(*like.shape, inputs) if inputs > 0 else None
    padded = [*results, None, None][:3]
    all_widths = like.numel()
    sizes = inputs, batch * width // all_widths, width, all_widths
    launch_chains(_sum_kernel, count * all_widths, stored, *padded, of_V, *sizes, vectors=vectors)
    return [*results, of_V]
