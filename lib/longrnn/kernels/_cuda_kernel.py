"""GPU kernels: how they are compiled, for a type of number, sizes, and the threads of a block.

A kernel takes pointers to the first number of contiguous tensors and does its own indexing.
Wrapping every tensor as a device array would cost more on the host than a short kernel does on the
GPU. A pointer costs nothing, and Numba's simulator, where the tests run, gets flat NumPy views
instead (`longrnn.kernels._cuda_launch`). A kernel is compiled for one type of number at its first
launch, in about a second, and kept in memory: a cache on disk would not notice a change of the
functions that a kernel inlines.
"""

from collections.abc import Callable
from functools import cache, partial
from types import FunctionType

import numpy as np
import torch
from numba import types
from torch import Tensor

from longrnn.kernels._cuda import SIMULATED, target, with_target

FREE_SHARED_BYTES = 48 * 1024
"""Shared memory that a block of any kernel may have; for more its kernel must ask."""

real = np.float32
"""Compile-time constant of kernels: the type of number."""
d = 1
"""Compile-time constant of dense kernels: the hidden size."""
tile = 1
"""Compile-time constant of dense kernels: the number of sequences per block."""
arriving = 0
"""Compile-time constant of backward kernels: whether gradients of the outputs arrive."""


class kernel:
    """Decorator for a kernel, which is compiled per type of number and sizes.

    The compiler gets the number of threads of a block. Without it the compiler saves registers for
    blocks of 1,024 threads, and loads from memory wait for each other.

    Parameters
    ----------
    function
        What one thread does.
    least_blocks
        Number of blocks that must fit on a multiprocessor; None leaves it to the compiler.
    """

    def __init__(self, function: Callable, least_blocks: int | None = None) -> None:
        self.function = function
        self.least_blocks = least_blocks
        self.__name__ = function.__name__
        self._compiled = {}
        self._with_grid = {}

    def bound(self, dtype: torch.dtype, **sizes: int) -> FunctionType:
        """Return the function with its compile-time constants.

        Parameters
        ----------
        dtype
            The type that `real` stands for.
        **sizes
            Values of the other constants by name, such as `d` and `tile`.

        Returns
        -------
        function
            A copy of `function` whose global names have these values.
        """
        return with_target(self.function, real=_number(dtype), **sizes)

    def launch_bounds(self, threads: int) -> int | tuple[int, int]:
        """Return the compiler's launch bounds.

        Parameters
        ----------
        threads
            Number of threads of a block.

        Returns
        -------
        int or (int, int)
            The threads, with the least number of blocks if there is one.
        """
        if self.least_blocks is None:
            return threads
        return threads, self.least_blocks

    def compiled(self, arguments: tuple, threads: int, **sizes: int):
        """Return the machine code for arguments of these types, compiled at the first call.

        Parameters
        ----------
        arguments
            The arguments of a launch; only their types matter.
        threads
            Number of threads of a block.
        **sizes
            Compile-time constants by name.

        Returns
        -------
        callable
            Numba's kernel.

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
            function = self.bound(dtype_of(arguments), **sizes)
            if SIMULATED:
                compiler = target().jit()
            else:
                types_of_arguments = types.void(*signature(arguments))
                bounds = self.launch_bounds(threads)
                compiler = target().jit(types_of_arguments, launch_bounds=bounds)
            self._compiled[key] = compiler(function)
        return self._compiled[key]

    def with_grid(
        self, arguments: tuple, blocks: int, threads: int, stream: int, shared: int, **sizes: int
    ) -> Callable:
        """Return the machine code with its grid, configured at the first call.

        Parameters
        ----------
        arguments, threads, **sizes
            As for `compiled`.
        blocks
            Number of blocks.
        stream
            Pointer to a CUDA stream.
        shared
            Dynamic shared memory of a block in bytes.

        Returns
        -------
        callable
            Launches the kernel on pointers and numbers.
        """
        device = device_of(arguments)
        key = dtype_of(arguments), device, blocks, threads, stream, shared, *sizes.items()
        if key not in self._with_grid:
            code = self.compiled(arguments, threads, **sizes)
            if shared > FREE_SHARED_BYTES:
                allow_shared(code, shared)
            self._with_grid[key] = code[blocks, threads, _stream(stream, device), shared]
        return self._with_grid[key]


def allow_shared(code, size: int) -> None:
    """Allow a compiled kernel more dynamic shared memory than `FREE_SHARED_BYTES`.

    Parameters
    ----------
    code
        What `kernel.compiled` returns for a GPU.
    size : int
        Bytes of a block.
    """
    from numba.cuda.cudadrv import driver  # only a machine with a GPU needs it

    attributes = driver.binding.CUfunction_attribute
    attribute = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (compiled,) = code.overloads.values()
    function = compiled._codelibrary.get_cufunc()
    driver.driver.cuKernelSetAttribute(attribute, size, function.handle, function.device.id)


many_registers = partial(kernel, least_blocks=1)
"""Decorator for a kernel that needs more registers than ptxas would use to fit several blocks.

With too few of them registers spill, or loads from memory wait for each other.
"""


def dtype_of(arguments: tuple) -> torch.dtype:
    """Return the common dtype of the tensors among a kernel's arguments.

    Parameters
    ----------
    arguments
        The arguments of a launch.

    Returns
    -------
    torch.dtype
    """
    (dtype,) = {part.dtype for part in arguments if isinstance(part, Tensor)}
    return dtype


def device_of(arguments: tuple) -> torch.device:
    """Return the device of the first tensor among a kernel's arguments.

    Parameters
    ----------
    arguments
        The arguments of a launch.

    Returns
    -------
    torch.device
    """
    return next(part.device for part in arguments if isinstance(part, Tensor))


def signature(arguments: tuple) -> tuple:
    """Return the types of a kernel's arguments.

    Parameters
    ----------
    arguments
        The arguments of a launch.

    Returns
    -------
    tuple of numba types
        A pointer for a tensor or None, the type of the tensors' numbers for a float, int64 for an
        integer.
    """
    number = _number(dtype_of(arguments))
    argument_types = []
    for part in arguments:
        if part is None or isinstance(part, Tensor):
            argument_types.append(types.CPointer(number))
        elif isinstance(part, float):
            argument_types.append(number)
        else:
            argument_types.append(types.int64)
    return tuple(argument_types)


def _number(dtype: torch.dtype):
    """Return Numba's type of the numbers of a dtype."""
    return getattr(types, str(dtype).removeprefix("torch."))


@cache
def _stream(pointer: int, device: torch.device):
    """Wrap a PyTorch stream, once: Numba looks launch configurations up by this object."""
    if pointer == 0:
        return 0
    return target().external_stream(pointer)
