"""The one import of Numba's CUDA target, device functions, and the rules for kernels.

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
- A loop over the units of a thread is a ``while``: ``range`` with a step divides to find its
  length, each time the loop begins.
- A sequence has at least one time step; `longrnn.kernels._recurrence.Recurrence.run` refuses
  others.
"""

import os
from collections.abc import Callable
from functools import cache, cached_property, partial
from types import CellType, FunctionType, ModuleType

import torch
from numba import types

from longrnn.kernels import register
from longrnn.kernels._modes import constant_when_traced

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
"""Whether Numba's simulator replaces the GPU; kernels then take CPU tensors."""
DEVICES = ("cpu",) if SIMULATED else ("cuda",)
"""Devices of the tensors that kernels take."""
cuda = None
"""Numba's target in the code of kernels and device functions, which `with_target` puts there."""


@cache
def target() -> ModuleType:
    """Return Numba's CUDA target, which the first call imports.

    Importing this file must not ask for a GPU: that would initialize CUDA, and a process that a
    user's program forks later could not use it.

    Returns
    -------
    module
        `numba.cuda`.
    """
    # Numba warns about grids with few blocks, which small batches have.
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    from numba import cuda  # takes a second, which a program without a GPU need not spend

    return cuda


class DeviceFunction:
    """A function that kernels call, compiled when the first kernel that calls it is.

    Parameters
    ----------
    function
        Takes and returns scalars, tuples, arrays or pointers.
    **options
        Options of Numba's `cuda.jit`.
    """

    def __init__(self, function: Callable, **options: object) -> None:
        self.function = function
        self.options = options

    @cached_property
    def compiled(self) -> Callable:
        """What Numba compiles inside a kernel."""
        return target().jit(device=True, **self.options)(with_target(self.function))


def device(function: Callable) -> DeviceFunction:
    """Make a device function, which Numba inlines into the kernels that call it.

    Parameters
    ----------
    function
        Takes and returns scalars, arrays or pointers.

    Returns
    -------
    DeviceFunction
    """
    return DeviceFunction(function, inline="always")


def inlined_late(function: Callable) -> DeviceFunction:
    """Make a device function that NVIDIA's compiler inlines instead of Numba.

    Numba then types it once. `device` has Numba inline it before typing, which takes long in a
    kernel with 16 copies of a step.

    Parameters
    ----------
    function
        Takes and returns scalars, tuples, arrays or pointers.

    Returns
    -------
    DeviceFunction
    """
    if SIMULATED:  # the simulator has no such option
        return DeviceFunction(function)
    return DeviceFunction(function, forceinline=True)


def with_target(function: Callable, **constants: object) -> Callable:
    """Return a copy of a function whose names have the values that Numba's target compiles.

    Parameters
    ----------
    function
        A kernel or a device function.
    **constants
        Values of global names that are compile-time constants.

    Returns
    -------
    callable
        In its code, `cuda` is the target, and a `DeviceFunction` is what Numba has made of it.
    """
    names = function.__globals__ | {"cuda": target()} | constants
    for name in function.__code__.co_names:
        if isinstance(names.get(name), DeviceFunction):
            names[name] = names[name].compiled
    closure = None
    if function.__closure__ is not None:
        closure = tuple(_compiled_cell(cell) for cell in function.__closure__)
    return FunctionType(function.__code__, names, function.__name__, None, closure)


def _compiled_cell(cell: CellType) -> CellType:
    """Return a variable of an outer function; a `DeviceFunction` as what Numba has made of it."""
    if isinstance(cell.cell_contents, DeviceFunction):
        return CellType(cell.cell_contents.compiled)
    return cell


@constant_when_traced  # `torch.compile` would trace Numba's compiler, and give up
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
        target().jit(types.void(types.int64))(lambda _: None)
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
