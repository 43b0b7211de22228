"""Sums over the sequences of each run on the GPU, for the gradients of independent neurons.

A thread computes one number: the gradient of one weight of one neuron. It adds the terms of the
sequences one after another, so the result does not depend on the schedule. Neighboring threads read
the terms of neighboring neurons.
"""

import torch
from torch import Tensor

from longrnn.kernels._cuda import cuda
from longrnn.kernels._cuda_kernel import kernel, real
from longrnn.kernels._cuda_launch import launch_chains

vectors = 1
"""Compile-time constant: the number of gradients that are vectors. That of V follows them."""


@kernel
def _sum_kernel(stored, first, second, third, grad_V, inputs, sequences, width, all_widths, sums):
    """Sum `stored` (vectors + inputs, runs, sequences, width) over the sequences of each run.

    The first `vectors` rows give `first`, `second` and `third` (runs, width), the others the
    columns of `grad_V` (runs, width, inputs). `all_widths` is runs times width, and `sums` the
    number of sums.
    """
    i = cuda.grid(1)
    if i < sums:
        row = i // all_widths
        neuron = i % all_widths
        term = i // width * sequences * width + i % width
        total = real(0)
        for _ in range(sequences):
            total += stored[term]
            term += width
        if row == 0:
            first[neuron] = total
        elif row == 1 and vectors > 1:
            second[neuron] = total
        elif row == 2 and vectors > 2:
            third[neuron] = total
        else:
            grad_V[neuron * inputs + row - vectors] = total


def sum_over_batch(stored: Tensor, vectors: int, like: Tensor) -> list[Tensor | None]:
    """Sum over the sequences of each run, with one launch and always in the same order.

    Parameters
    ----------
    stored : (vectors + inputs, batch, width)
        Sums over time.
    vectors : int
        Number of results that are vectors, at most three.
    like : (width) or (runs, width)
        Weights, of the shape of a vector.

    Returns
    -------
    list
        The vectors, then the gradient of V, which has the inputs as its last axis; None without
        inputs. Each is a tensor of its own.
    """
    count, batch, width = stored.shape
    inputs = count - vectors
    results = [torch.empty_like(like) for _ in range(vectors)]
    grad_V = None
    if inputs > 0:
        grad_V = like.new_empty(*like.shape, inputs)
    padded = [*results, None, None][:3]
    all_widths = like.numel()
    sizes = inputs, batch * width // all_widths, width, all_widths
    launch_chains(_sum_kernel, count * all_widths, stored, *padded, grad_V, *sizes, vectors=vectors)
    return [*results, grad_V]
