r"""A cell's step with matrix products in float32 and everything between them in float64.

Products are nearly all the arithmetic of a dense cell, and a tenth or less of its rounding that matters here: what an adjoint
state loses in float32 is lost where numbers cancel, in :math:`1 - x^2` of a tanh near its ends or in :math:`1 - \sigma` of a gate that
is open. Such numbers are few, and stay in float64. Two things are done beyond it:

- The slopes of tanh and the logistic function follow from what goes in, not from what comes out, so that they are no zero where the
  function has reached its end: :math:`\tanh'(a) = 4 e / (1 + e)^2` with :math:`e = \exp(-2 |a|)`, and
  :math:`\sigma'(a) = e / (1 + e)^2` with :math:`e = \exp(-|a|)`.
- What is pulled back through a product is divided by the largest number of its row first: nothing leaves float32's range.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Products(TorchFunctionMode):
    """Within this context a float64 step multiplies in float32.

    Parameters
    ----------
    kept
        The products of an earlier pass through the same step, which are then not computed again.

    Attributes
    ----------
    kept
        The products, float32, in their order.
    """

    def __init__(self, kept: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self._given = iter(kept)
        self.kept: list[Tensor] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ("matmul", "__matmul__"):
            product = next(self._given, None)
            if product is None:
                product = args[0].detach().float() @ args[1].detach().float()
            self.kept.append(product)
            return _Product.apply(*args, product)
        if name in ("tanh", "sigmoid"):
            return _SLOPED[name].apply(*args)
        return function(*args, **(kwargs or {}))


class _Product(torch.autograd.Function):
    """x @ M where the product is known; its way back is in float32."""

    @staticmethod
    def forward(x: Tensor, M: Tensor, product: Tensor) -> Tensor:
        return product.double()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, M = ctx.saved_tensors
        by_x, by_M = ctx.needs_input_grad[:2]
        return (
            _multiplied(gradient, M.mT) if by_x else None,
            _multiplied(x.mT, gradient) if by_M else None,
            None,
        )


def _multiplied(x: Tensor, M: Tensor) -> Tensor:
    largest = x.abs().amax(-1, keepdim=True)
    largest = torch.where(largest > 0, largest, torch.ones_like(largest))
    return (x / largest).float().matmul(M.float()).double() * largest


def tanh_slope(a: Tensor) -> Tensor:
    """Return the slope of tanh at `a`, no zero where tanh is 1 to the last digit."""
    e = (-2 * a.abs()).exp()
    return 4 * e / (1 + e).square()


def sigmoid_slope(a: Tensor) -> Tensor:
    """Return the slope of the logistic function at `a`, likewise."""
    return tanh_slope(a / 2) / 4


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(a: Tensor) -> Tensor:
        return a.tanh()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * tanh_slope(*ctx.saved_tensors)


class _Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(a: Tensor) -> Tensor:
        return a.sigmoid()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * sigmoid_slope(*ctx.saved_tensors)


_SLOPED = {"tanh": _Tanh, "sigmoid": _Sigmoid}
