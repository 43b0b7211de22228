"""Device functions that all GPU kernels use: activations, scalar functions of the CPU kernels.

They are compiled into the kernels that call them.
"""

import math
from collections.abc import Callable
from types import FunctionType

import numpy as np
from numba.core.registry import CPUDispatcher

from longrnn.kernels import _cpu_activations
from longrnn.kernels._cpu import ONE, ZERO
from longrnn.kernels._cuda import SIMULATED, device

# In the simulator NumPy's functions keep the type of a scalar. The compiler supports `math`'s.
if SIMULATED:
    _tanh = np.tanh
    _exp = np.exp
else:
    _tanh = math.tanh
    _exp = math.exp


@device
def tanh(x):
    """Return tanh(x).

    Parameters
    ----------
    x : float32 or float64

    Returns
    -------
    float32 or float64
        In the type of x.
    """
    return _tanh(x)


@device
def sigmoid(x):
    """Return the logistic function of x.

    Parameters
    ----------
    x : float32 or float64

    Returns
    -------
    float32 or float64
        In the type of x.
    """
    return ONE / (ONE + _exp(-x))


def device_version(scalar: CPUDispatcher) -> Callable:
    """Compile a scalar function of a CPU kernel for the GPU, with this file's activations.

    The scalar functions that it calls are compiled for the GPU, too.

    Parameters
    ----------
    scalar : callable
        A function compiled by `longrnn.kernels._cpu.scalar`.

    Returns
    -------
    callable
        The device function; it takes and returns what `scalar` does.
    """
    function = getattr(scalar, "py_func", scalar)  # with NUMBA_DISABLE_JIT `scalar` is plain Python
    names = function.__globals__ | {"tanh": tanh, "sigmoid": sigmoid}
    for name in function.__code__.co_names:
        if isinstance(names.get(name), CPUDispatcher):
            names[name] = device_version(names[name])
    return device(FunctionType(function.__code__, names, function.__name__))


activate = device_version(_cpu_activations.activate)
times_slope = device_version(_cpu_activations.times_slope)


@device
def load_or_zero(array, index, present):
    """Return a number of an array, or zero if the array is absent.

    Parameters
    ----------
    array : pointer
        The array.
    index : int
        Index of the number.
    present : int
        1, or 0 if the array is absent.

    Returns
    -------
    float
    """
    if present:
        return array[index]
    return ZERO
