"""Threads of the CPU kernels: PyTorch's number of them, each with a stretch of the work."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch

PARALLEL_FROM = 500_000
"""Steps of chains, or of units, below which a second thread costs more than it saves."""
PRODUCT_FROM = 50_000_000
"""Multiplications of one product below which a second thread costs more than it saves."""
_VECTORS = 64
"""Stretches of chains begin at multiples of this: the widest vectors, unrolled as compilers do."""
_SEQUENCES = 12
"""Stretches of sequences begin at multiples of this. OpenBLAS's kernels (for AVX2) multiply twelve
columns at a time, so a stretch is multiplied by the same kernels as within the whole batch."""


def run_chains(run: Callable, steps: int, *arguments: np.ndarray | float) -> None:
    """Run a kernel of independent chains on all of PyTorch's threads.

    Parameters
    ----------
    run : callable
        A kernel ``run(*arguments, start, stop)``, which does the chains start..stop-1.
    steps : int
        Steps of each chain.
    *arguments : array or float
        Arrays (.., batch, hidden), which the kernel sees as (.., chains), and numbers.

    Raises
    ------
    ValueError
        Arrays have different numbers of chains. A kernel would read memory beyond the shorter ones.
    """
    flat = []
    for value in arguments:
        if np.ndim(value):
            value = value.reshape(*value.shape[:-2], math.prod(value.shape[-2:]))
        flat.append(value)
    counts = {value.shape[-1] for value in flat if np.ndim(value)}
    if len(counts) > 1:
        raise ValueError(
            "expected one number for each unit of each sequence, got arrays of "
            f"{min(counts)} and {max(counts)} chains; compare the shapes of the cell's weights "
            "with its docstring"
        )
    (chains,) = counts
    over_chains(lambda start, stop: run(*flat, start, stop), steps, chains)


def run_sequences(run: Callable, state: np.ndarray, steps: int, *arguments: Any) -> None:
    """Run a dense kernel on all of PyTorch's threads, each with a stretch of the batch.

    On one thread and on several the bits are equal, as long as BLAS multiplies the sequences of
    a stretch as it would within the whole batch. OpenBLAS does if stretches begin at multiples of
    `_SEQUENCES`; elsewhere the last digits may depend on the number of threads.

    Parameters
    ----------
    run : callable
        A kernel ``run(*arguments, start, stop)``, which does the sequences start..stop-1.
    state : (batch, hidden)
        Gives the sizes.
    steps : int
        Steps of each sequence.
    *arguments
        What the kernel takes.
    """
    is_long = steps * state.size >= PARALLEL_FROM
    in_stretches(lambda start, stop: run(*arguments, start, stop), len(state), _SEQUENCES, is_long)


def run_networks(
    run: Callable, weights: Sequence[Sequence], state: np.ndarray, steps: int, *arguments: Any
) -> None:
    """Run a dense kernel for one network, as `run_sequences` does, or for several.

    The batches of several networks lie one after the other. Each network is computed as if it were
    alone, to the bit, and PyTorch's threads share the networks.

    Parameters
    ----------
    run : callable
        A kernel ``run(*weights of a network, *arguments, start, stop)``, which does the sequences
        start..stop-1.
    weights : sequence of sequences
        What the sequences of a network share, each with the networks as its first axis.
    state : (networks * batch, hidden)
        Gives the sizes.
    steps : int
        Steps of each sequence.
    *arguments
        What else the kernel takes: arrays of all sequences, and numbers.
    """
    networks = len(weights[0])
    if networks == 1:
        run_sequences(run, state, steps, *(part[0] for part in weights), *arguments)
        return
    batch = len(state) // networks
    if batch == 0:
        return

    def run_some(first: int, last: int) -> None:
        for k in range(first, last):
            shared = [part[k] for part in weights]
            run(*shared, *arguments, k * batch, (k + 1) * batch)

    in_stretches(run_some, networks, 1, is_long=steps * state.size >= PARALLEL_FROM)


def over_chains(run: Callable[[int, int], None], steps: int, count: int) -> None:
    """Call ``run(start, stop)`` on stretches that together cover `count` independent chains.

    Stretches begin at whole vectors, and each chain is computed as on one thread, to the bit.

    Parameters
    ----------
    run : callable
        Does the chains start..stop-1.
    steps : int
        Steps of each chain; short calls stay on one thread (`PARALLEL_FROM`).
    count : int
        Number of chains.
    """
    in_stretches(run, count, _VECTORS, is_long=steps * count >= PARALLEL_FROM)


def in_stretches(run: Callable[[int, int], None], count: int, multiple: int, is_long: bool) -> None:
    """Call ``run(start, stop)`` on stretches that together cover 0..count-1, if there are any.

    There is one stretch per PyTorch thread, so that a worker process that was given one thread
    uses one. The threads are Python's own and live for this call alone: the kernels release the
    interpreter's lock, nothing survives a fork, and a new thread inherits from its caller whether
    denormals are flushed.

    Parameters
    ----------
    run : callable
        Does what belongs to start..stop-1.
    count : int
        Number of chains, sequences or rows.
    multiple : int
        Stretches begin at multiples of it.
    is_long : bool
        Whether the work is worth more than one thread.
    """
    threads = 1
    if is_long:
        threads = torch.get_num_threads()
    edges = [0]
    for k in range(1, threads):
        nearest = round(count * k / threads / multiple) * multiple
        edges.append(min(nearest, count))
    edges.append(count)
    stretches = [(start, stop) for start, stop in pairwise(edges) if start < stop]
    if not stretches:  # an empty batch; a kernel would read a first sequence
        return
    if len(stretches) == 1:
        run(0, count)
        return
    with ThreadPoolExecutor(threads) as pool:
        others = [pool.submit(run, *stretch) for stretch in stretches[1:]]
        run(*stretches[0])
        for other in others:
            other.result()


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute ``a @ b`` on PyTorch's threads, with the bits of one thread.

    Parameters
    ----------
    a : (rows, n)
        The first factor, whose rows the threads share.
    b : (n, columns)
        The second factor.

    Returns
    -------
    (rows, columns)
    """
    if len(a) * b.size < PRODUCT_FROM or torch.get_num_threads() == 1:
        return a @ b
    result = np.empty((len(a), b.shape[1]), a.dtype)
    in_stretches(
        lambda start, stop: np.matmul(a[start:stop], b, out=result[start:stop]),
        len(a),
        multiple=4 * _SEQUENCES,
        is_long=True,
    )
    return result
