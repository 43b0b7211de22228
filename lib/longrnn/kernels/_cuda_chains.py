r"""What layers of independent neurons share on the GPU: their drive, and gradients of weights.

The drive :math:`g_t = V x_t + b` of a layer with up to `MOST_INPUTS` inputs is computed inside its
kernels: the few inputs are read instead of the drive, which is neither written nor kept. Of a wider
layer V x is one product before the kernel, and the kernel adds the bias.

The gradients of w, b and V are sums over times and sequences. Each thread sums over the times of
its chain. A second launch sums over the sequences, always in the same order.
"""

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
    return (g, 0) if x is None else (x, V.shape[1])


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
def _sum_kernel(stored, first, second, third, of_V, inputs, batch, width, sums):
    """Sum `stored` (vectors + inputs, batch, width) over the batch."""
    i = cuda.grid(1)
    if i < sums:
        row, neuron = i // width, i % width
        total, here = real(0), row * batch * width + neuron
        for _ in range(batch):
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


def sum_over_batch(stored: Tensor, vectors: int) -> list[Tensor | None]:
    """Return sums over the batch, each in memory of its own, by one launch.

    Parameters
    ----------
    stored : (vectors + inputs, batch, width)
        Sums over time.
    vectors : int
        How many of the results are vectors, at most three.

    Returns
    -------
    list
        The vectors (width), then the gradient of V (width, inputs), None without inputs.
    """
    count, batch, width = stored.shape
    inputs = count - vectors
    results = [stored.new_empty(width) for _ in range(vectors)]
    of_V = stored.new_empty(width, inputs) if inputs > 0 else None
    padded = [*results, None, None][:3]
    arguments = stored, *padded, of_V, inputs, batch, width
    launch_chains(_sum_kernel, count * width, *arguments, vectors=vectors)
    return [*results, of_V]
