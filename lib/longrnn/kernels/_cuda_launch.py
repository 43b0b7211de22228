"""Launches of the GPU kernels: arguments, sizes of the grid and of its blocks.

A kernel of independent neurons has one thread per chain, a neuron of one sequence. A dense kernel
has one block per few sequences, and in it one thread per hidden unit.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._cuda import SIMULATED
from longrnn.kernels._cuda_kernel import FREE_SHARED_BYTES, device_of, dtype_of, kernel
from longrnn.kernels._runs import runs_of

Argument = Tensor | int | float | None
"""What a kernel takes."""
MOST_THREADS = 1024
"""Most threads of a block."""
MOST_BLOCKS = 2**31 - 1
"""Most blocks of a grid along its first dimension; along the others it could have only 65,535."""
_SHARED_BYTES = FREE_SHARED_BYTES
"""Shared memory of a block of `launch_dense`."""
_CACHE_BYTES = 192 * 1024
"""Bytes of a multiprocessor's L1 cache for weights (256 KiB less shared memory)."""


def is_present(value: Tensor | None) -> int:
    """Return whether a kernel gets a tensor, as a flag among its arguments.

    Parameters
    ----------
    value
        The tensor, or None if it is absent.

    Returns
    -------
    int
        1 or 0.
    """
    return int(value is not None)


def launch(
    run: kernel, blocks: int, threads: int, *arguments: Argument, shared: int = 0, **sizes: int
) -> None:
    """Run a kernel on PyTorch's current stream.

    Parameters
    ----------
    run : kernel
    blocks : int
        Size of the grid. An empty one, of an empty batch, launches nothing.
    threads : int
        Size of a block.
    *arguments : Tensor, int, float or None
        Contiguous tensors of one type, numbers, and None for a tensor that is absent.
    shared : int
        Dynamic shared memory of a block in bytes.
    **sizes : int
        Compile-time constants of the kernel: `d`, `tile` and others.

    Raises
    ------
    AssertionError
        A tensor is not contiguous.
    ValueError
        There are more than `MOST_BLOCKS` blocks.

    Notes
    -----
    The kernel runs on the device of the tensors, which need not be the current one. The launch
    makes it the current device of PyTorch, and so of Numba, which asks the driver.
    """
    if blocks == 0:  # CUDA refuses an empty grid
        return
    if blocks > MOST_BLOCKS:
        raise ValueError(
            f"kernel {run.__name__} needs {blocks} blocks for this batch, but a GPU takes at most "
            f"{MOST_BLOCKS} at once; split the batch"
        )
    tensors = [part for part in arguments if isinstance(part, Tensor)]
    if not all(part.is_contiguous() for part in tensors):
        raise AssertionError(f"kernel {run.__name__} got a tensor that is not contiguous")
    if SIMULATED:
        values = [_simulated(part, dtype_of(arguments)) for part in arguments]
        run.compiled(arguments, threads, **sizes)[blocks, threads, 0, shared](*values)
        return
    values = [_pointer(part) for part in arguments]
    device = tensors[0].device
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream(device).cuda_stream
        run.with_grid(arguments, blocks, threads, stream, shared, **sizes)(*values)


def _pointer(part: Argument) -> int | float:
    """Return a kernel's argument as the compiled code takes it."""
    if part is None:
        return 0
    if isinstance(part, Tensor):
        return part.data_ptr()
    return part


def _simulated(part: Argument, dtype: torch.dtype) -> np.ndarray | int | np.floating:
    """Return a kernel's argument as the simulator takes it."""
    if isinstance(part, Tensor):
        return part.detach().reshape(-1).numpy()
    number = getattr(np, str(dtype).removeprefix("torch."))
    if part is None:
        return np.empty(0, number)
    if isinstance(part, float):
        return number(part)
    return part


def launch_chains(run: kernel, chains: int, *arguments: Argument, **constants: int) -> None:
    """Run a kernel with one thread for each of `chains` independent recurrences.

    A block has 128 threads, or fewer if that would leave multiprocessors without a block.

    Parameters
    ----------
    run : kernel
    chains : int
        Number of recurrences.
    *arguments
        As in `launch`; the number of chains follows them.
    **constants : int
        Compile-time constants.
    """
    processors = _processors(device_of(arguments))
    threads = next((count for count in (128, 64) if chains >= count * processors), 32)
    launch(run, -(-chains // threads), threads, *arguments, chains, **constants)


def launch_dense(
    run: kernel,
    state: Tensor,
    *arguments: Argument,
    buffers: int,
    weights: int,
    runs: int = 1,
    **constants: int,
) -> None:
    """Run a kernel with one block per `tile` sequences of a run and one thread per unit.

    The blocks of the runs follow one another (`longrnn.kernels._cuda_dense.run_of`).

    `tile` is 4, 2 or 1. A block reads a weight once for all of its sequences. Weights that don't
    fit into the L1 cache are read from the L2 cache at every step; then `tile` is as large as the
    batch and the shared memory allow, for fewer reads. Otherwise it is the largest with which every
    multiprocessor gets a block. With more units than `MOST_THREADS` a thread computes several of
    them.

    Parameters
    ----------
    run : kernel
    state : (batch, hidden)
        Gives the sizes.
    *arguments
        As in `launch`; the batch follows them.
    buffers : int
        Vectors of the hidden size that a block keeps in shared memory for each sequence.
    weights : int
        Weights that a block reads at every step.
    runs : int
        Number of runs, whose batches follow one another. A block computes sequences of one run.
    **constants : int
        Further compile-time constants.
    """
    batch, d = state.shape
    vector = d * state.element_size()
    tiles = [tile for tile in (4, 2, 1) if tile * buffers * vector <= _SHARED_BYTES]
    processors = _processors(state.device)
    sequences = batch // runs
    tile = next((tile for tile in tiles if runs * -(-sequences // tile) >= processors), 1)
    if weights * state.element_size() > _CACHE_BYTES:
        tile = next(tile for tile in tiles if tile <= max(sequences, 1))
    blocks = runs * -(-sequences // tile)
    warps = -(-d // 32)
    threads = min(32 * warps, MOST_THREADS)
    shared = tile * buffers * vector
    launch(run, blocks, threads, *arguments, batch, shared=shared, d=d, tile=tile, **constants)


def launch_runs(
    run: kernel,
    state: Tensor,
    matrices: tuple[Tensor, ...],
    *arguments: Argument,
    buffers: int,
    **constants: int,
) -> None:
    """Run a dense kernel on one network or several.

    Parameters
    ----------
    run : kernel
    state : (batch, hidden)
        Gives the sizes. The batches of the runs follow one another.
    matrices : tuple of (rows, columns) or (runs, rows, columns)
        All weights that a block reads at every step.
    *arguments
        As in `launch`; the sequences per run and the batch follow them.
    buffers : int
        As in `launch_dense`.
    **constants : int
        Further compile-time constants.
    """
    runs = runs_of(matrices[0])
    weights = sum(matrix.numel() for matrix in matrices) // runs
    sequences = len(state) // runs
    launch_dense(
        run, state, *arguments, sequences, buffers=buffers, weights=weights, runs=runs, **constants
    )


def most_units(buffers: int) -> Callable[[torch.dtype], int]:
    """Return the largest hidden size of a dense kernel as a function of the dtype.

    Parameters
    ----------
    buffers
        Vectors of the hidden size that a block keeps in shared memory for each sequence.

    Returns
    -------
    callable
        ``most_units(dtype)``: the hidden size at which one sequence fills the shared memory.
    """
    return lambda dtype: _SHARED_BYTES // buffers // dtype.itemsize


def most_shared_bytes(device: torch.device) -> int:
    """Return the shared memory that a block may have if its kernel asks for it.

    Parameters
    ----------
    device
        A GPU; for other devices the number is that of an H100.

    Returns
    -------
    int
        Bytes.
    """
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def processors_of(state: Tensor) -> int:
    """Return the number of multiprocessors of a tensor's device.

    Parameters
    ----------
    state : Tensor
        Any tensor.

    Returns
    -------
    int
        1 in the simulator.
    """
    return _processors(state.device)


@cache
def _processors(device: torch.device) -> int:
    if SIMULATED:
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count
