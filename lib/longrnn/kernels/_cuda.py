"""The one import of Numba's CUDA target, its device functions, and the rules for kernels.

`longrnn.kernels._cuda_kernel` compiles kernels, `longrnn.kernels._cuda_launch` launches them.

Rules for kernels:

- A launch goes to PyTorch's current stream, allocates nothing and does not wait, so that it can be
  captured in a graph (once compiled: run a cell before capturing it).
- No atomics: the terms of a sum are written per chain, and another launch sums them, always in the
  same order.
- ``fastmath`` stays off: it flushes denormals, and this project measures vanishing gradients.
  Contraction to fused multiply-add is Numba's default and stays.
- Constants are written ``real(1)``: Numba would compute 1 + x in float64 if x is a float32. A
  Python float among the arguments arrives as `real`, so a scalar needs no tensor and no copy.
- Few launches: in a short pass the GPU waits for the host. So a kernel computes functions of its
  weights itself, reads one weight for all sequences (``w[i % d]``) and writes the final state. A
  gradient that is absent is None: the kernel gets a null pointer, and a flag that says so.
- A dense kernel is compiled for its sizes, too: the compiler then unrolls its products, and
  addresses become part of the instructions.
- A sequence has at least one time step; `longrnn.kernels._recurrence.Recurrence.run` refuses
  others.
"""

import os
import sys
from collections.abc import Callable
from functools import cache, partial

import torch

from longrnn.kernels import register

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
"""Whether Numba's simulator replaces the GPU; kernels then take CPU tensors."""

# Importing the target takes a second, which a machine without a GPU need not spend. If the process
# has imported it already, it is going to compile.
if SIMULATED or torch.cuda.is_available() or "numba.cuda" in sys.modules:
    # Numba warns about grids with few blocks, which small batches have.
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    from numba import cuda, types
else:
    cuda = types = None

DEVICES = ("cpu",) if SIMULATED else ("cuda",)
"""Devices of the tensors that kernels take."""


def device(function: Callable) -> Callable:
    """Compile a device function, which Numba inlines into the kernels that call it.

    Parameters
    ----------
    function
        Takes and returns scalars, arrays or pointers.

    Returns
    -------
    callable
        The compiled function; `function` itself without a CUDA target.
    """
    if cuda is None:
        return function
    return cuda.jit(device=True, inline="always")(function)


def inlined_late(function: Callable) -> Callable:
    """Compile a device function that NVIDIA's compiler inlines instead of Numba.

    Numba then types it once. `device` has Numba inline it before typing, which takes long in a
    kernel with 16 copies of a step.

    Parameters
    ----------
    function
        Takes and returns scalars, tuples, arrays or pointers.

    Returns
    -------
    callable
        The compiled function; `function` itself without a CUDA target.
    """
    if cuda is None:
        return function
    if SIMULATED:
        return cuda.jit(device=True)(function)
    return cuda.jit(device=True, forceinline=True)(function)


@torch.compiler.assume_constant_result  # `torch.compile` would trace Numba's compiler, and give up
def obstacle() -> str:
    """Return the reason why kernels cannot be compiled for this GPU.

    Returns
    -------
    str
        End of an error message; an empty string if they can be compiled.
    """
    if SIMULATED:
        return ""
    # A graph capture allows no compilation, not even this one. The kernel then says what to do.
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return ""
    return _compiler_error()


@cache
def _compiler_error() -> str:
    """Return what `obstacle` does outside of a capture, from an attempt to compile a kernel."""
    try:
        cuda.jit(types.void(types.int64))(lambda _: None)
    except Exception as error:  # each missing library has its own
        first = str(error).strip().split("\n")[0]
        return (
            f"Numba cannot compile for this GPU ({type(error).__name__}: {first}); install "
            "NVIDIA's compiler libraries with pip install '.[gpu]' in the folder of this "
            "repository, or with pip install 'numba-cuda[cu13]'"
        )
    return ""


engine = partial(register, "numba-cuda", devices=DEVICES, obstacle=obstacle)
"""Returns a decorator that registers a function as the engine ``numba-cuda`` of the given cells."""
