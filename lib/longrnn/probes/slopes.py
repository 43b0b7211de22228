r"""Accurate derivatives of saturated tanh and logistic functions, which never round to zero.

Automatic differentiation computes them from the function's value y as :math:`1 - y^2` and
:math:`y (1 - y)`. These round to zero when y rounds to its limit, and lose digits long before. Here
they are computed from the argument instead,

.. math::
    \tanh'(a) = 4 e / (1 + e)^2, \quad e = \exp(-2 |a|), \qquad
    \sigma'(a) = \tanh'(a / 2) / 4, \qquad 1 - \sigma(a) = \sigma(-a)
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


def tanh_slope(a: Tensor) -> Tensor:
    """Return the derivative of tanh.

    Parameters
    ----------
    a : Tensor
        Arguments of tanh.

    Returns
    -------
    Tensor
        Derivatives, elementwise; positive even if tanh is saturated.
    """
    e = (-2 * a.abs()).exp()
    return 4 * e / (1 + e).square()


def sigmoid_slope(a: Tensor) -> Tensor:
    """Return the derivative of the logistic function.

    Parameters
    ----------
    a : Tensor
        Arguments of the logistic function.

    Returns
    -------
    Tensor
        Derivatives, elementwise; positive even if the function is saturated.
    """
    return tanh_slope(a / 2) / 4


class Slopes(TorchFunctionMode):
    """Context manager in which autograd uses these derivatives for tanh and sigmoid.

    It also computes 1 - sigma(a) as sigma(-a), so that a closed gate keeps its digits.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if not args:  # all arguments have keywords, ``torch.tanh(input=a)``
            return function(**(kwargs or {}))
        name = getattr(function, "__name__", "")
        if name == "tanh":
            return _WithSlope.apply(*args, torch.tanh, tanh_slope)
        if name == "sigmoid":
            gate = _WithSlope.apply(*args, torch.sigmoid, sigmoid_slope)
            gate.argument = args[0]
            return gate
        argument = getattr(args[0], "argument", None)
        if argument is not None and _is_one(args[1:]):
            if name in ("__mul__", "mul", "__rmul__"):
                return args[0]  # Delta t times a gate, with Delta t = 1
            if name in ("__rsub__", "rsub"):
                return _WithSlope.apply(-argument, torch.sigmoid, sigmoid_slope)
        return function(*args, **(kwargs or {}))


def _is_one(others: tuple) -> bool:
    """Return whether `others` is a single argument equal to one."""
    return len(others) == 1 and isinstance(others[0], int | float) and others[0] == 1


class _WithSlope(torch.autograd.Function):
    """An elementwise function of `a` whose derivative is `slope`."""

    @staticmethod
    def forward(ctx, a: Tensor, function: Callable, slope: Callable) -> Tensor:
        ctx.save_for_backward(a)
        ctx.slope = slope
        return function(a)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * ctx.slope(*ctx.saved_tensors), None, None
