r"""What the CPU kernels share: compilation, and activations that can be vectorized.

The C library's tanh is a call per element, which stops vectorization. The activations here are
arithmetic without branches or calls, which becomes SIMD code. With :math:`n =
\operatorname{round}(v / \ln 2)` and :math:`r = v - n \ln 2`, a Taylor polynomial (of degree 7 in
float32, 13 in float64) gives :math:`e^r - 1` for :math:`|r| \le \ln(2) / 2`, and

.. math::
    e^v - 1 = 2^n (e^r - 1) + (2^n - 1), \qquad
    \tanh(x) = \operatorname{sign}(x) \frac{e^{2|x|} - 1}{e^{2|x|} + 1}

within relative errors of 2.5e-7 in float32 (4e-7 for the logistic function) and 1e-15 in float64.
What saturates in PyTorch saturates here: beyond 9.02 the float32 result is exactly 1, its slope
:math:`1 - y^2` exactly 0. NaN stays NaN.
"""

import hashlib
import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import IO

import numba
import numpy as np
import torch
from numba import types
from numba.core.caching import FunctionCache
from numba.extending import overload

from longrnn.kernels import register

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LONGEST_WAIT = 60
"""Seconds that a process waits for another one to compile a kernel, before it compiles as well."""

ONE = np.float32(1)
"""One in a scalar function, which is compiled for both types. Next to a float64 it becomes one."""
ZERO = np.float32(0)

# Only contraction (fused multiply-add) is allowed. The other flags of fastmath drop
# denormals, infinities or NaN, and this project measures vanishing gradients and divergence.
# NumPy's error model removes the branch on a zero divisor, which stops vectorization.
_OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy"}

engine = partial(register, "numba-cpu", devices=("cpu",))
"""Returns a decorator that registers a function as the engine ``numba-cpu`` of some cells."""


@cache
def cache_folder() -> Path | None:
    """Return the folder for machine code, None (with a warning) if it cannot be written.

    ``LONGRNN_CACHE`` names it, else ``NUMBA_CACHE_DIR``; otherwise it is ``longrnn/kernels`` in
    the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``).
    """
    named = os.environ.get("LONGRNN_CACHE") or os.environ.get("NUMBA_CACHE_DIR")
    try:
        if named:
            folder = Path(named).expanduser()
        else:
            user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            folder = Path(user) / "longrnn" / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
        _warn_without_cache(str(error))
        return None


@cache
def _warn_without_cache(reason: str) -> None:
    warnings.warn(
        f"compiled kernels cannot be cached ({reason}), so every process compiles its own; "
        "set LONGRNN_CACHE to a folder that can be written",
        RuntimeWarning,
        stacklevel=3,
    )


class _Cache(FunctionCache):
    """A cache on disk without which a kernel still runs.

    If two processes need a kernel at once, one compiles it while the other waits.
    """

    _lock = None

    def load_overload(self, sig, target_context):
        code = self._load(sig, target_context)
        if code is None and self._lock is None:
            self._lock = _lock_file(cache_folder() / f"{self._impl.filename_base}.lock")
            code = self._load(sig, target_context)  # what the other process has compiled
            if code is not None:
                self._unlock()
        return code

    def _load(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except OSError:
            return None

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError as error:  # the disk is full, say
            _warn_without_cache(type(error).__name__)
        finally:
            self._unlock()

    def _unlock(self):
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _lock_file(path: Path) -> IO | None:
    """Return a locked file; None if it cannot be locked or another process holds it too long."""
    if fcntl is None:
        return None
    try:
        file = path.open("ab")
    except OSError:
        return None
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        except OSError:  # a file system without locks
            break
        else:
            return file
    file.close()
    return None


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
    compiled = numba.njit(nogil=True, **_OPTIONS)(bound)
    folder = cache_folder()
    if folder is not None:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            compiled._cache = _Cache(bound)
        finally:
            numba.config.CACHE_DIR = before
    return compiled


def _files_of(function: Callable) -> set[Path]:
    """Return the files of a function and of the compiled functions that it calls."""
    files = {Path(function.__code__.co_filename)}
    for name in function.__code__.co_names:
        called = getattr(function.__globals__.get(name), "py_func", None)
        if called is not None and called is not function:
            files |= _files_of(called)
    return files


def variants(name: str, count: int) -> Callable[[Callable], tuple[Callable, ...]]:
    """Return a decorator that compiles a kernel for each value of a compile-time constant.

    A branch inside the kernel's loops would stop vectorization.

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
    return lambda function: tuple(kernel(function, **{name: number}) for number in range(count))


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
    return numba.njit(forceinline=True, **_OPTIONS)(function)


def _activations(real: type, integer: type, degree: int, ln2_high: float) -> tuple:
    """Return tanh and the logistic function for one type of float.

    `integer` is the integer type of the same size, `degree` that of the Taylor polynomial, and
    `ln2_high` are the first digits of ln 2, few enough that n times them is exact.
    """
    info = np.finfo(real)
    bits = info.nmant
    zero = real(0)
    one = real(1)
    two = real(2)
    log2_e = real(1 / math.log(2))
    high = real(ln2_high)
    low = real(_LN2 - Fraction(ln2_high))
    rounding = real(1.5 * 2**bits)  # adding it rounds to an integer, in the lowest bits
    rounding_bits = rounding.view(integer)
    bias = integer(info.maxexp - 1)
    shift = integer(bits)
    first = integer(1)
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
    """Return tanh(x) of a scalar, inside a kernel.

    Parameters
    ----------
    x : float32 or float64
        The argument.

    Returns
    -------
    float32 or float64
        In the type of x.
    """
    return np.tanh(x)


@overload(tanh, jit_options=_OPTIONS)
def _tanh(x):
    return (lambda x: _tanh32(x)) if x == types.float32 else (lambda x: _tanh64(x))


def sigmoid(x):
    """Return 1 / (1 + exp(-x)) of a scalar, inside a kernel.

    Parameters
    ----------
    x : float32 or float64
        The argument.

    Returns
    -------
    float32 or float64
        In the type of x.
    """
    return 1 / (1 + np.exp(-x))


@overload(sigmoid, jit_options=_OPTIONS)
def _sigmoid(x):
    return (lambda x: _sigmoid32(x)) if x == types.float32 else (lambda x: _sigmoid64(x))


RELU, TANH, SIGMOID = range(3)
PHI = {torch.relu: RELU, torch.tanh: TANH, torch.sigmoid: SIGMOID}
"""The kernels' numbers of the activations that a cell may choose."""
ACTIVATIONS = tuple(PHI)
"""The activations by number."""
phi = RELU
"""Compile-time constant of some kernels: the number of the activation."""


by_phi = variants("phi", len(PHI))


@scalar
def activate(phi, a):
    """Return phi(a).

    Parameters
    ----------
    phi : int
        Number of the activation.
    a : float
        Its argument.

    Returns
    -------
    float
        NaN stays NaN.
    """
    if phi == TANH:
        return tanh(a)
    if phi == SIGMOID:
        return sigmoid(a)
    if a <= ZERO:  # not max: NaN must pass
        return ZERO
    return a


@scalar
def times_slope(phi, delta, y):
    """Return delta times the slope of phi.

    Parameters
    ----------
    phi : int
        Number of the activation.
    delta : float
        The factor.
    y : float
        The value of phi at the point of the slope.

    Returns
    -------
    float
    """
    if phi == TANH:
        return delta * (ONE - y * y)
    if phi == SIGMOID:
        return delta * (y * (ONE - y))
    if y <= ZERO:
        return ZERO
    return delta
