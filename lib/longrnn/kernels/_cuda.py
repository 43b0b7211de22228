r"""The one import of Numba's CUDA target: how kernels are compiled, launched and registered.

A kernel takes pointers to the first number of contiguous tensors and does its own indexing.
Wrapping every tensor as a device array would cost more on the host than a short kernel does on the
GPU. A pointer costs nothing, and Numba's simulator, where the tests run, gets flat NumPy views
instead. Kernels are compiled for one type of number at their first launch, in about a second, and
kept in memory: a cache on disk would not notice a change of the functions that a kernel inlines.

Rules for kernels:

- A launch goes to PyTorch's current stream, allocates nothing and does not wait, so that it can be
  captured in a graph (once compiled: run a cell before capturing it).
- No atomics: the terms of a sum are written per chain and summed by PyTorch, always in the same
  order.
- ``fastmath`` stays off: it flushes denormals, and this project measures vanishing gradients.
  Contraction to fused multiply-add is Numba's default and stays.
- Constants are written ``real(1)``: 1 beside a float32 would make float64 arithmetic. A Python
  float among the arguments arrives as `real`, so a scalar needs no tensor and no copy.
- Launches are counted: a short pass waits for the host. A kernel computes what its weights stand
  for, reads one weight for all sequences (``w[i % d]``) and writes the final state. A gradient that
  is absent is None: the kernel gets a null pointer, and a flag not to read it.
- A dense kernel is compiled for its sizes, too: the compiler then unrolls its products, and
  addresses become part of the instructions.
"""

import os
import sys
from collections.abc import Callable
from functools import cache, partial
from types import FunctionType

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels import register

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
"""Whether Numba's simulator replaces the GPU; kernels then take CPU tensors."""

# Numba warns of grids with few blocks, which a sequence of small batches is.
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
# Importing the target takes a second, which a machine without a GPU need not spend. A process that
# has imported it already wants to compile.
if SIMULATED or torch.cuda.is_available() or "numba.cuda" in sys.modules:
    from numba import cuda, types
else:
    cuda = types = None

Argument = Tensor | int | float | None
"""What a kernel takes."""
DEVICES = ("cpu",) if SIMULATED else ("cuda",)
"""Devices of the tensors that kernels take."""

real = np.float32
"""Compile-time constant of kernels: the type of number."""
d = tile = 1
"""Compile-time constants of dense kernels: hidden size, and sequences per block."""


class kernel:
    """Decorator for a function of one thread, compiled per type of number and sizes."""

    def __init__(
        self, function: Callable, bounded: bool = True, least_blocks: int | None = None
    ) -> None:
        self.function = function
        self.bounded = bounded
        """Whether the compiler is told the threads of a block."""
        self.least_blocks = least_blocks
        """Blocks that must fit on a multiprocessor; None leaves it to the compiler."""
        self.__name__ = function.__name__
        self._compiled = {}
        self._prepared = {}

    def bound(self, dtype: torch.dtype, **sizes: int) -> FunctionType:
        """Return the function with `real` meaning `dtype`, and each of `sizes` its number."""
        names = self.function.__globals__ | {"real": _number(dtype)} | sizes
        return FunctionType(
            self.function.__code__, names, self.__name__, None, self.function.__closure__
        )

    def launch_bounds(self, threads: int) -> int | tuple[int, int] | None:
        """Return what the compiler is told of blocks of so many threads."""
        if not self.bounded:
            return None
        if self.least_blocks is None:
            return threads
        return threads, self.least_blocks

    def compiled(self, arguments: tuple, threads: int, **sizes: int):
        """Return the machine code for such arguments and blocks of so many threads.

        The compiler is told the threads of a block. Without that it saves registers for blocks of
        1,024 threads, and loads of memory wait for each other.

        Raises
        ------
        RuntimeError
            The kernel would be compiled during a graph capture.
        """
        key = dtype_of(arguments), device_of(arguments), threads, *sizes.items()
        if key not in self._compiled:
            if not SIMULATED and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    f"kernel {self.__name__} is not compiled yet, which a graph capture does not "
                    "allow; run the same forward and backward pass once before capturing it"
                )
            options = () if SIMULATED else (types.void(*signature(arguments)),)
            # The simulator knows no bounds.
            bounds = {} if SIMULATED else {"launch_bounds": self.launch_bounds(threads)}
            self._compiled[key] = cuda.jit(*options, **bounds)(self.bound(key[0], **sizes))
        return self._compiled[key]

    def prepared(
        self, arguments: tuple, blocks: int, threads: int, stream: int, shared: int, **sizes: int
    ) -> Callable:
        """Return the machine code with its grid, prepared once: it takes pointers and numbers."""
        device = device_of(arguments)
        key = dtype_of(arguments), device, blocks, threads, stream, shared, *sizes.items()
        if key not in self._prepared:
            code = self.compiled(arguments, threads, **sizes)
            self._prepared[key] = code[blocks, threads, _stream(stream, device), shared]
        return self._prepared[key]


unbounded = partial(kernel, bounded=False)
"""Decorator for a kernel that ptxas compiles worse when it knows the threads of a block."""
roomy = partial(kernel, least_blocks=1)
"""Decorator for a kernel that needs more registers than ptxas gives it to fit several blocks."""


def device(function: Callable) -> Callable:
    """Compile a function that kernels call; scalars in, scalars out."""
    return function if cuda is None else cuda.jit(device=True, inline="always")(function)


def repeated(function: Callable) -> Callable:
    """Compile a device function of which a kernel holds many copies.

    Numba types it once, and NVIDIA's compiler inlines the copies. `device` has Numba inline it
    before typing, which takes long with 16 copies of a step.
    """
    if cuda is None:
        return function
    options = {} if SIMULATED else {"forceinline": True}
    return cuda.jit(device=True, **options)(function)


def dtype_of(arguments: tuple) -> torch.dtype:
    """Return the one type of the tensors among a kernel's arguments."""
    (dtype,) = {part.dtype for part in arguments if isinstance(part, Tensor)}
    return dtype


def device_of(arguments: tuple) -> torch.device:
    """Return the device of a kernel's first tensor."""
    return next(part.device for part in arguments if isinstance(part, Tensor))


def signature(arguments: tuple) -> tuple:
    """Return the types of a kernel's arguments: a pointer per tensor, int64 per integer."""
    number = _number(dtype_of(arguments))
    found = []
    for part in arguments:
        if part is None or isinstance(part, Tensor):
            found.append(types.CPointer(number))
        elif isinstance(part, float):
            found.append(number)
        else:
            found.append(types.int64)
    return tuple(found)


def flag(value: Tensor | None) -> int:
    """Return 1 for a tensor that a kernel is to read, 0 for one that is absent."""
    return int(value is not None)


def _number(dtype: torch.dtype):
    """Return Numba's type of number."""
    return getattr(types, str(dtype).removeprefix("torch."))


def launch(
    run: kernel, blocks: int, threads: int, *arguments: Argument, shared: int = 0, **sizes: int
):
    """Run a kernel on PyTorch's current stream.

    Parameters
    ----------
    run : kernel
    blocks, threads : int
        Size of the grid and of a block.
    *arguments : Tensor, int, float or None
        Contiguous tensors of one type, numbers, and None for a tensor that is absent.
    shared : int
        Dynamic shared memory of a block in bytes.
    **sizes : int
        Compile-time constants of the kernel: `d`, `tile` and others.

    Notes
    -----
    The kernel runs on the tensors' own device, whatever the current one is. While it is current
    for PyTorch it is for Numba, too, which asks the driver.
    """
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
        run.prepared(arguments, blocks, threads, stream, shared, **sizes)(*values)


def _pointer(part: Argument) -> int | float:
    """Return a kernel's argument as the compiled code takes it."""
    if part is None:
        return 0
    return part.data_ptr() if isinstance(part, Tensor) else part


def _simulated(part: Argument, dtype: torch.dtype) -> np.ndarray | int | np.floating:
    """Return a kernel's argument as the simulator takes it."""
    if isinstance(part, Tensor):
        return part.detach().reshape(-1).numpy()
    number = getattr(np, str(dtype).removeprefix("torch."))
    if part is None:
        return np.empty(0, number)
    return number(part) if isinstance(part, float) else part


@cache
def _stream(pointer: int, device: torch.device):
    """Wrap a PyTorch stream, once: Numba looks launch configurations up by this object."""
    return cuda.external_stream(pointer) if pointer else 0


def launch_chains(run: kernel, chains: int, *arguments: Argument, **forms: int) -> None:
    """Run a kernel with one thread for each of `chains` independent recurrences.

    A block has 128 threads, or fewer if that would leave multiprocessors without a block. `forms`
    are compile-time constants.
    """
    processors = _processors(device_of(arguments))
    threads = next((count for count in (128, 64) if chains >= count * processors), 32)
    launch(run, -(-chains // threads), threads, *arguments, chains, **forms)


def launch_rows(
    run: kernel,
    state: Tensor,
    *arguments: Argument,
    buffers: int,
    weights: int,
    runs: int = 1,
    **forms: int,
) -> None:
    """Run a kernel with one block per `tile` sequences and one thread per unit.

    A weight that was read serves all sequences of a block. Weights that exceed the first cache
    come from the second at every step, so a block does four sequences, a fourth of the reading.
    Otherwise it does four, or fewer if four would leave multiprocessors without a block. Fewer,
    too, if four exceed the shared memory. Above `MOST_THREADS` units, the most that a block may
    have, a thread does several.

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
        Number of runs, whose batches lie one after the other. A block does sequences of one run.
    **forms : int
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
    threads = min(-(-d // 32) * 32, MOST_THREADS)
    blocks = runs * -(-sequences // tile)
    shared = tile * buffers * vector
    launch(run, blocks, threads, *arguments, batch, shared=shared, d=d, tile=tile, **forms)


MOST_THREADS = 1024
_SHARED_BYTES = 48 * 1024
_CACHE_BYTES = 192 * 1024
"""What a multiprocessor's first cache has left for weights (256 KiB less shared memory)."""


def most_units(buffers: int) -> Callable[[torch.dtype], int]:
    """Return the largest hidden size, by type of number, of a dense kernel with such buffers."""
    return lambda dtype: _SHARED_BYTES // buffers // dtype.itemsize


@cache
def _processors(device: torch.device) -> int:
    return 1 if SIMULATED else torch.cuda.get_device_properties(device).multi_processor_count


@cache
def obstacle() -> str:
    """Return why kernels cannot be compiled for this GPU; an empty string if they can."""
    if SIMULATED:
        return ""
    try:
        cuda.jit(types.void(types.int64))(lambda _: None)
    except Exception as error:  # each missing library has its own
        first = str(error).strip().split("\n")[0]
        return (
            f"Numba cannot compile for this GPU ({type(error).__name__}: {first}); "
            "NVIDIA's compiler libraries come with "
            "pip install -r requirements-gpu.in -c requirements.lock"
        )
    return ""


engine = partial(register, "numba-cuda", devices=DEVICES, obstacle=obstacle)
"""Returns a decorator that registers a function as the engine ``numba-cuda`` of the cells named."""
