r"""What the CPU kernels share: how they are compiled, and activations that the compiler can vectorise.

The C library's tanh is a call per element, which stops vectorisation. In float32 the activations
here are arithmetic without branches or calls, which becomes SIMD code. With :math:`n = \operatorname{round}(v / \ln 2)`
and :math:`r = v - n \ln 2`, a Taylor polynomial of degree 7 gives :math:`e^r - 1` for :math:`|r| \le \ln(2) / 2`, and

.. math::
    e^v - 1 = 2^n (e^r - 1) + (2^n - 1), \qquad
    \tanh(x) = \operatorname{sign}(x) \frac{e^{2|x|} - 1}{e^{2|x|} + 1}

within `TANH_ERROR` of the truth. What saturates in PyTorch saturates here: beyond 9.02 the result is exactly 1,
its slope :math:`1 - y^2` exactly 0. NaN stays NaN. In float64 the C library's functions are used.
"""

import hashlib
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import torch
from numba import types
from numba.extending import overload
from torch import Tensor
from torch.nn import functional as F

from lib.paths import CACHE

TANH_ERROR = 2.5e-7
"""Bound of the relative error of the float32 tanh."""

SIGMOID_ERROR = 4e-7
"""Bound of the relative error of the float32 logistic function, where it is a normal number."""

PARALLEL_FROM = 500_000
"""Steps of chains below which starting a second thread costs more than it saves."""

# Contraction (fused multiply-add) is the only liberty taken: the other flags of fastmath drop denormals,
# infinities or NaN, and this project measures vanishing gradients and divergence. NumPy's error model removes the
# branch on a zero divisor, which stops vectorisation.
_OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy"}


def kernel(function: Callable) -> Callable:
    """Compile `function` at its first call and keep the machine code in the cache folder.

    Numba recompiles when the file of a kernel changes, but not when a function that it inlined does: the
    folder is named after the text of this file.
    """
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(Path(before or CACHE / "numba") / version)
    try:
        return numba.njit(cache=True, nogil=True, **_OPTIONS)(function)
    finally:
        numba.config.CACHE_DIR = before


def scalar(function: Callable) -> Callable:
    """Compile a function of scalars that the kernels of its file call; the compiler inlines it."""
    return numba.njit(**_OPTIONS)(function)


def array(tensor: Tensor) -> np.ndarray:
    """Return a contiguous NumPy view of a tensor (a copy only if it is not contiguous)."""
    return tensor.detach().contiguous().numpy()


def gradient_array(gradient: Tensor | None, like: np.ndarray) -> np.ndarray:
    """Return a gradient that arrived as an array, zeros shaped like `like` where none did.

    The autograd functions leave absent gradients absent: PyTorch would fill memory with zeros for them.
    Their buffers are NumPy's, which asks the system for huge pages; fresh memory from PyTorch comes page
    by page, at a cost that shows beside the recurrence.
    """
    return np.zeros(like.shape, like.dtype) if gradient is None else array(gradient)


def drive(u: Tensor, R: Tensor, b: Tensor | None = None) -> Tensor:
    """Return R u_t + b for all times at once, contiguous (time, batch, hidden)."""
    return F.linear(u, R, b).contiguous()


def chains(*parts: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return views of arrays (.., batch, hidden) as (.., chains): what independent neurons are to a kernel."""
    return tuple(part.reshape(*part.shape[:-2], math.prod(part.shape[-2:])) for part in parts)


def over_chains(run: Callable[[int, int], None], steps: int, count: int) -> None:
    """Call ``run(start, stop)`` on stretches that together cover `count` independent chains of `steps` steps.

    There is one stretch for each of PyTorch's threads, so that a worker process that was given one thread stays with
    one. The threads are Python's own and live for this call alone: the kernels release the interpreter's
    lock, nothing survives a fork, and a new thread inherits from its caller whether denormals are flushed. Stretches begin at
    whole vectors, and each chain is computed as on one thread, to the bit.
    """
    threads = torch.get_num_threads() if steps * count >= PARALLEL_FROM else 1
    edges = [count * k // threads // _VECTORS * _VECTORS for k in range(threads)] + [count]
    stretches = [(a, b) for a, b in pairwise(edges) if a < b]
    with ThreadPoolExecutor(
        max_workers=threads
    ) as pool:  # starts no thread before it is given work
        others = [pool.submit(run, *stretch) for stretch in stretches[1:]]
        run(*stretches[0])
        for other in others:
            other.result()


_VECTORS = 64  # elements of the widest vectors, unrolled as compilers do


def recurrent_gradient(delta: np.ndarray, x0: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    r"""Return :math:`\sum_t \delta_t x_{t-1}^\top`, (rows, hidden), over times and sequences.

    Parameters
    ----------
    delta : (time, batch, rows)
        Adjoints of the product of the matrix and the state.
    x0 : (batch, hidden)
        State before the first input.
    outputs : (time, batch, hidden)
        States after every input.
    """
    gradient = delta[0].T @ x0
    if len(delta) > 1:
        rest = delta[1:].reshape(-1, delta.shape[2])
        gradient += rest.T @ outputs[:-1].reshape(-1, outputs.shape[2])
    return gradient


# ---------------------------------------------------------------------------------- activations

_f4, _i4 = np.float32, np.int32
_ZERO, _ONE, _TWO = _f4(0), _f4(1), _f4(2)
_LOG2_E = _f4(1 / math.log(2))
_LN2_HIGH = _f4(0.693145751953125)  # few enough digits that n times it is exact
_LN2_LOW = _f4(math.log(2) - 0.693145751953125)
_ROUND = _f4(1.5 * 2**23)  # adding it rounds to an integer, found in the lowest bits
_TAYLOR = tuple(_f4(1 / math.factorial(k)) for k in range(8))
_BIAS, _MANTISSA = _i4(127), _i4(23)
_TANH_TOP = _f4(20)  # 2|x| beyond which tanh is 1
_EXP_TOP = _f4(104)  # exp(-v) beyond which is below the smallest denormal
_ROUND_BITS = _i4(0x4B400000)


@numba.njit(**_OPTIONS)
def _expm1_reduced(v):
    """Return e^r - 1 and n + 1.5 * 2^23 for v = n ln 2 + r."""
    _, _, c2, c3, c4, c5, c6, c7 = _TAYLOR
    rounded = v * _LOG2_E + _ROUND
    n = rounded - _ROUND
    r = (v - n * _LN2_HIGH) - n * _LN2_LOW
    return r + r * r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * (c6 + r * c7))))), rounded


@numba.njit(**_OPTIONS)
def _power_of_two(n):
    """Return 2^n for an int32 n in -126..127, by writing its exponent."""
    return _i4((n + _BIAS) << _MANTISSA).view(_f4)


@numba.njit(**_OPTIONS)
def _tanh32(x):
    v = abs(x) * _TWO
    v = _TANH_TOP if v > _TANH_TOP else v  # not max or min: NaN must pass
    p, rounded = _expm1_reduced(v)
    scale = _power_of_two(_i4(_f4(rounded).view(_i4) - _ROUND_BITS))
    e = scale * p + (scale - _ONE)
    small = e < _ONE
    ratio = (e if small else _TWO) / (e + _TWO)
    return math.copysign(ratio if small else _ONE - ratio, x)


@numba.njit(**_OPTIONS)
def _sigmoid32(x):
    v = abs(x)
    v = _EXP_TOP if v > _EXP_TOP else v  # not max or min: NaN must pass
    p, rounded = _expm1_reduced(-v)
    n = _i4(_f4(rounded).view(_i4) - _ROUND_BITS)
    half = _i4(n >> _i4(1))
    # Two factors: 2^n itself may be a denormal.
    e = (_ONE + p) * _power_of_two(half) * _power_of_two(_i4(n - half))
    return (e if x < _ZERO else _ONE) / (_ONE + e)


def tanh(x):
    """Return tanh(x) of a scalar, inside a kernel; in x's own type."""
    return np.tanh(x)


@overload(tanh, jit_options=_OPTIONS)
def _tanh(x):
    if x == types.float32:
        return lambda x: _tanh32(x)
    return lambda x: math.tanh(x)


def sigmoid(x):
    """Return 1 / (1 + exp(-x)) of a scalar, inside a kernel; in x's own type."""
    return 1 / (1 + np.exp(-x))


@overload(sigmoid, jit_options=_OPTIONS)
def _sigmoid(x):
    if x == types.float32:
        return lambda x: _sigmoid32(x)
    return lambda x: 1.0 / (1.0 + math.exp(-x))
