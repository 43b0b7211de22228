"""Compilation of the CPU kernels.

`longrnn.kernels._cpu_activations` has the activations that kernels call, and
`longrnn.kernels._cpu_cache` the cache for their machine code.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from longrnn.kernels import register
from longrnn.kernels._cpu_cache import KernelCache, cache_folder

ONE = np.float32(1)
"""One for scalar functions, which are compiled for both types: the sum or product of a float32 and
a float64 is a float64, so `ONE` never changes the type of a result."""
ZERO = np.float32(0)
"""Zero for scalar functions, like `ONE`."""

# Only contraction (fused multiply-add) is allowed. The other flags of fastmath drop
# denormals, infinities or NaN, and this project measures vanishing gradients and divergence.
# NumPy's error model removes the branch on a zero divisor, which stops vectorization.
OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy"}
"""Numba's options for all functions of the CPU kernels."""

engine = partial(register, "numba-cpu", devices=("cpu",))
"""Returns a decorator that registers a function as the engine ``numba-cpu`` of the given cells."""


def kernel(function: Callable, **constants: int) -> Callable:
    """Compile a kernel at its first call, and cache the machine code on disk.

    Parameters
    ----------
    function
        The kernel.
    **constants
        Values of global names that the kernel uses as compile-time constants.

    Returns
    -------
    callable
        Numba's dispatcher.

    Notes
    -----
    Numba's cache identifies a function by its qualified name and the date of its file. It does not
    see the values of global names, nor functions from other files. Therefore the name includes the
    constants and a hash of all these files, so that the cached code of another kernel is never
    used.
    """
    spelled = "".join(f"_{name}_{value}" for name, value in constants.items())
    texts = [path.read_bytes() for path in sorted({Path(__file__), *_files_of(function)})]
    version = hashlib.sha256(b"".join(texts)).hexdigest()[:16]
    name = f"{function.__name__}{spelled}"
    bound = FunctionType(function.__code__, function.__globals__ | constants, name)
    bound.__qualname__ = f"{name}_{version}"
    bound.__doc__ = function.__doc__
    bound.__module__ = function.__module__
    compiled = numba.njit(nogil=True, **OPTIONS)(bound)
    compiled.compile = partial(_compile_with_cache, compiled, compiled.compile)
    return compiled


def _compile_with_cache(compiled: Dispatcher, compile_kernel: Callable, signature: tuple):
    """Compile a kernel for a signature, or load its machine code from the cache.

    The cache is attached here, at the first compilation, so that importing `longrnn` creates no
    folder. `compile_kernel` is the dispatcher's own method `compile`.
    """
    with global_compiler_lock:  # otherwise another thread could release this one's file lock
        if not isinstance(compiled._cache, KernelCache):
            folder = cache_folder()
            if folder is None:
                return compile_kernel(signature)
            compiled._cache = _cache_in(folder, compiled.py_func)
        try:
            return compile_kernel(signature)
        finally:
            compiled._cache.release()


def _cache_in(folder: Path, function: Callable) -> KernelCache:
    """Return the cache of a function in a folder, which Numba takes from its configuration."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        return KernelCache(function)
    finally:
        numba.config.CACHE_DIR = before


def _files_of(function: Callable) -> set[Path]:
    """Return the files of a function and of the functions that it calls."""
    files = {Path(function.__code__.co_filename)}
    for name in function.__code__.co_names:
        called = function.__globals__.get(name)
        called = getattr(called, "py_func", called)  # of a function that Numba has compiled
        if isinstance(called, FunctionType) and called is not function:
            files |= _files_of(called)
    return files


def variants(name: str, count: int) -> Callable[[Callable], tuple[Callable, ...]]:
    """Return a decorator that compiles a kernel for each value of a compile-time constant.

    With an ordinary argument the kernel's loops would contain a branch, which stops vectorization.

    Parameters
    ----------
    name
        Global name of the constant.
    count
        Number of values: 0..count-1.

    Returns
    -------
    callable
        Maps a function to the tuple of its kernels.
    """

    def compile_each(function: Callable) -> tuple[Callable, ...]:
        compiled = [kernel(function, **{name: value}) for value in range(count)]
        return tuple(compiled)

    return compile_each


def scalar(function: Callable) -> Callable:
    """Compile a function of scalars, which is inlined into the kernels that call it.

    A call would stop vectorization. `longrnn.kernels._cuda_device.device_version` compiles the
    function for the GPU. Its constants are `ONE` and `ZERO`, which are exact in either type.

    Parameters
    ----------
    function
        Takes and returns scalars.

    Returns
    -------
    callable
        Numba's dispatcher.
    """
    return numba.njit(forceinline=True, **OPTIONS)(function)
