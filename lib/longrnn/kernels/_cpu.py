r"""What the CPU kernels share: how they are compiled, and activations that the compiler can vectorise.

The C library's tanh is a call per element, which stops vectorisation. The activations
here are arithmetic without branches or calls, which becomes SIMD code. With :math:`n = \operatorname{round}(v / \ln 2)`
and :math:`r = v - n \ln 2`, a Taylor polynomial (of degree 7 in float32, 13 in float64) gives :math:`e^r - 1` for
:math:`|r| \le \ln(2) / 2`, and

.. math::
    e^v - 1 = 2^n (e^r - 1) + (2^n - 1), \qquad
    \tanh(x) = \operatorname{sign}(x) \frac{e^{2|x|} - 1}{e^{2|x|} + 1}

within relative errors of 2.5e-7 in float32, of the logistic function 4e-7, and 1e-15 in float64. What saturates in PyTorch saturates here:
beyond 9.02 the float32 result is exactly 1, its slope :math:`1 - y^2` exactly 0. NaN stays NaN.
"""

import hashlib
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FunctionType

import numba
import numpy as np
import scipy.linalg.cython_blas  # noqa: F401 - what Numba's np.dot calls; loaded here so that it is bound below
import torch
from numba import types
from numba.extending import overload
from threadpoolctl import threadpool_limits

from longrnn.kernels import register

# The products of a kernel are small: a second thread of BLAS costs more than it brings, on a busy machine tens of times
# more, and sums in another order. Once for the process, because a limit set and lifted at every call would race
# between threads.
threadpool_limits(1, user_api="blas")

ONE, ZERO = np.float32(1), np.float32(0)
"""In the text of a scalar function, which cannot know its type: beside a float64 they become one."""

PARALLEL_FROM = 500_000
"""Steps of chains below which starting a second thread costs more than it saves."""

# Contraction (fused multiply-add) is the only liberty taken: the other flags of fastmath drop denormals,
# infinities or NaN, and this project measures vanishing gradients and divergence. NumPy's error model removes the
# branch on a zero divisor, which stops vectorisation.
CACHE = Path(__file__).resolve().parents[3] / "data" / "cache"
"""Folder for compiled kernels, unless NUMBA_CACHE_DIR names another one."""
_OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy"}


engine = partial(register, "numba-cpu", devices=("cpu",))
"""Returns a decorator that registers a function as the engine ``numba-cpu`` of the cells named."""


def kernel(function: Callable, **names: int) -> Callable:
    """Compile `function`, in whose text `names` mean what is given, at its first call and keep the machine code in the cache folder.

    Numba recompiles when the file of a kernel changes, but not when a function that it inlined does: the
    folder is named after the text of this file, and after `names`.
    """
    text = Path(__file__).read_bytes() + "".join(f"{k}={v}" for k, v in names.items()).encode()
    version = hashlib.sha256(text).hexdigest()[:16]
    if names:
        known = function.__globals__ | names
        function = FunctionType(function.__code__, known, function.__name__)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(Path(before or CACHE / "numba") / version)
    try:
        return numba.njit(cache=True, nogil=True, **_OPTIONS)(function)
    finally:
        numba.config.CACHE_DIR = before


def variants(name: str, count: int) -> Callable[[Callable], tuple[Callable, ...]]:
    """Return a decorator that makes a function a kernel for each number below `count` that `name` may mean in its text.

    A choice within its loops would stop vectorisation.
    """
    return lambda function: tuple(kernel(function, **{name: number}) for number in range(count))


def scalar(function: Callable) -> Callable:
    """Compile a function of scalars that the kernels of its file call, inlined: a call would stop vectorisation.

    `longrnn.kernels._cuda_device.shared` compiles it for the GPU. Its constants are `ONE` and `ZERO`, exact in either type.
    """
    return numba.njit(forceinline=True, **_OPTIONS)(function)


def run_chains(run: Callable, steps: int, *parts: np.ndarray | float) -> None:
    """Run a kernel on arrays (.., batch, hidden), as it sees them (.., chains), and numbers; stretches as of `over_chains`."""
    flat = [
        part.reshape(*part.shape[:-2], math.prod(part.shape[-2:])) if np.ndim(part) else part
        for part in parts
    ]
    over_chains(lambda *stretch: run(*flat, *stretch), steps, flat[0].size)


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
    with ThreadPoolExecutor(threads) as pool:  # starts no thread before it is given work
        others = [pool.submit(run, *stretch) for stretch in stretches[1:]]
        run(*stretches[0])
        for other in others:
            other.result()


_VECTORS = 64  # elements of the widest vectors, unrolled as compilers do


def _activations(real: type, integer: type, degree: int, ln2_high: float) -> tuple:
    """Return tanh and the logistic function of a type, which has integers of its size.

    The Taylor polynomial has that `degree`; `ln2_high` are the first digits of ln 2, few enough that n times them is exact.
    """
    info = np.finfo(real)
    bits = info.nmant
    zero, one, two = real(0), real(1), real(2)
    log2_e, high, low = real(1 / math.log(2)), real(ln2_high), real(_LN2 - Fraction(ln2_high))
    rounding = real(1.5 * 2**bits)  # adding it rounds to an integer, found in the lowest bits
    rounding_bits = rounding.view(integer)
    bias, shift, first = integer(info.maxexp - 1), integer(bits), integer(1)
    tanh_top = real((bits + 5) * math.log(2))  # 2|x| beyond which tanh is 1
    exp_top = real((bits - info.minexp + 2) * math.log(2))  # exp(-v) beyond is below the denormals

    highest, *others = (real(1 / math.factorial(k)) for k in range(degree, 1, -1))
    others = tuple(others)

    @numba.njit(**_OPTIONS)
    def expm1_reduced(v):
        """Return e^r - 1 and the integer n for v = n ln 2 + r."""
        rounded = v * log2_e + rounding
        n = rounded - rounding
        r = (v - n * high) - n * low
        taylor = highest  # of e^r - 1 - r over r^2
        for coefficient in others:
            taylor = coefficient + r * taylor
        return r + r * r * taylor, integer(real(rounded).view(integer) - rounding_bits)

    @numba.njit(**_OPTIONS)
    def power_of_two(n):
        """Return 2^n for a normal result, by writing its exponent."""
        return integer((n + bias) << shift).view(real)

    @numba.njit(**_OPTIONS)
    def tanh_(x):
        v = abs(x) * two
        v = tanh_top if v > tanh_top else v  # not max or min: NaN must pass
        p, n = expm1_reduced(v)
        scale = power_of_two(n)
        e = scale * p + (scale - one)
        small = e < one
        ratio = (e if small else two) / (e + two)
        return math.copysign(ratio if small else one - ratio, x)

    @numba.njit(**_OPTIONS)
    def sigmoid_(x):
        v = abs(x)
        v = exp_top if v > exp_top else v  # not max or min: NaN must pass
        p, n = expm1_reduced(-v)
        half = integer(n >> first)
        # Two factors: 2^n itself may be a denormal.
        e = (one + p) * power_of_two(half) * power_of_two(integer(n - half))
        return (e if x < zero else one) / (one + e)

    return tanh_, sigmoid_


_LN2 = Fraction("0.693147180559945309417232121458176568")
_tanh32, _sigmoid32 = _activations(np.float32, np.int32, 7, 0.693145751953125)
_tanh64, _sigmoid64 = _activations(np.float64, np.int64, 13, 0.693147180369123816490)


def tanh(x):
    """Return tanh(x) of a scalar, inside a kernel; in x's own type."""
    return np.tanh(x)


@overload(tanh, jit_options=_OPTIONS)
def _tanh(x):
    return (lambda x: _tanh32(x)) if x == types.float32 else (lambda x: _tanh64(x))


def sigmoid(x):
    """Return 1 / (1 + exp(-x)) of a scalar, inside a kernel; in x's own type."""
    return 1 / (1 + np.exp(-x))


@overload(sigmoid, jit_options=_OPTIONS)
def _sigmoid(x):
    return (lambda x: _sigmoid32(x)) if x == types.float32 else (lambda x: _sigmoid64(x))


RELU, TANH, SIGMOID = range(3)
PHI = {torch.relu: RELU, torch.tanh: TANH, torch.sigmoid: SIGMOID}
"""The activations that a cell may choose, by the number that the kernels know them by."""
phi = RELU
"""In the text of a kernel: the activation that it is compiled for."""


by_phi = variants("phi", len(PHI))


@scalar
def activate(phi, a):
    """Return phi(a)."""
    if phi == TANH:
        return tanh(a)
    if phi == SIGMOID:
        return sigmoid(a)
    return ZERO if a <= ZERO else a  # not max: NaN must pass


@scalar
def times_slope(phi, delta, y):
    """Return delta times the slope of phi where its value is y."""
    if phi == TANH:
        return delta * (ONE - y * y)
    if phi == SIGMOID:
        return delta * (y * (ONE - y))
    return ZERO if y <= ZERO else delta
