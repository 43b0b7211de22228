r"""Activations of the CPU kernels, which the compiler can vectorize.

The C library's tanh is a call per element, which stops vectorization. The activations here are
arithmetic without branches or calls, which becomes SIMD code. With :math:`n =
\operatorname{round}(v / \ln 2)` and :math:`r = v - n \ln 2`, a Taylor polynomial (of degree 7 in
float32, 13 in float64) gives :math:`e^r - 1` for :math:`|r| \le \ln(2) / 2`, and

.. math::
    e^v - 1 = 2^n (e^r - 1) + (2^n - 1), \qquad
    \tanh(x) = \operatorname{sign}(x) \frac{e^{2|x|} - 1}{e^{2|x|} + 1}

within relative errors of 2.5e-7 in float32 (4e-7 for the logistic function) and 1e-15 in float64.
What saturates in PyTorch saturates here: beyond 9.02 the float32 result is exactly 1, and its slope
:math:`1 - y^2` is exactly 0. NaN stays NaN.
"""

import math
from fractions import Fraction

import numba
import numpy as np
import torch
from numba import types
from numba.extending import overload

from longrnn.kernels._cpu import ONE, OPTIONS, ZERO, scalar, variants


def _activations(real: type, integer: type, degree: int, ln2_high: float) -> tuple:
    """Return tanh and the logistic function for one type of float.

    `integer` is the integer type of the same size, and `degree` that of the Taylor polynomial.
    `ln2_high` has the leading bits of ln 2, few enough that its product with n is exact.
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
    integer_one = integer(1)
    tanh_top = real((bits + 5) * math.log(2))  # 2|x| beyond which tanh is 1
    exp_top = real((bits - info.minexp + 2) * math.log(2))  # exp(-v) beyond is below the denormals

    highest, *others = (real(1 / math.factorial(k)) for k in range(degree, 1, -1))
    others = tuple(others)

    @numba.njit(**OPTIONS)
    def expm1_reduced(v):
        """Return e^r - 1 and the integer n for v = n ln 2 + r."""
        rounded = v * log2_e + rounding
        n = rounded - rounding
        r = (v - n * high) - n * low
        taylor = highest  # of e^r - 1 - r over r^2
        for coefficient in others:
            taylor = coefficient + r * taylor
        return r + r * r * taylor, integer(real(rounded).view(integer) - rounding_bits)

    @numba.njit(**OPTIONS)
    def power_of_two(n):
        """Return 2^n for a normal result, by writing its exponent."""
        return integer((n + bias) << shift).view(real)

    @numba.njit(**OPTIONS)
    def tanh_(x):
        v = abs(x) * two
        if v > tanh_top:  # not min: NaN must pass
            v = tanh_top
        p, n = expm1_reduced(v)
        scale = power_of_two(n)
        e = scale * p + (scale - one)
        is_small = e < one
        numerator = two
        if is_small:
            numerator = e
        size = numerator / (e + two)
        if not is_small:  # 1 - 2 / (e + 2) has more digits than e / (e + 2)
            size = one - size
        return math.copysign(size, x)

    @numba.njit(**OPTIONS)
    def sigmoid_(x):
        v = abs(x)
        if v > exp_top:  # not min: NaN must pass
            v = exp_top
        p, n = expm1_reduced(-v)
        half = integer(n >> integer_one)
        # Two factors: 2^n itself may be a denormal.
        e = (one + p) * power_of_two(half) * power_of_two(integer(n - half))
        numerator = one
        if x < zero:
            numerator = e
        return numerator / (one + e)

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


@overload(tanh, jit_options=OPTIONS)
def _tanh(x):
    if x == types.float32:
        return lambda x: _tanh32(x)
    return lambda x: _tanh64(x)


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


@overload(sigmoid, jit_options=OPTIONS)
def _sigmoid(x):
    if x == types.float32:
        return lambda x: _sigmoid32(x)
    return lambda x: _sigmoid64(x)


RELU, TANH, SIGMOID = range(3)
PHI = {torch.relu: RELU, torch.tanh: TANH, torch.sigmoid: SIGMOID}
"""Numbers that stand in kernels for the activations that a cell may choose."""
ACTIVATIONS = tuple(PHI)
"""The activations, in the order of their numbers."""
phi = RELU
"""Compile-time constant of some kernels: the number of the activation."""
by_phi = variants("phi", len(PHI))
"""Decorator that compiles a kernel for each activation; kernels are indexed by its number."""


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
