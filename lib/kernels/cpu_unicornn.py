r"""UnICORNN on one CPU core, a layer at a time: its neurons are independent of each other.

Forward of one layer, with the drive :math:`g_n = V y^{l-1}_n + b` of all times computed before and the step
:math:`h = \Delta t \, \hat\sigma(c)` of each neuron:

.. math::
    s_n &= \tanh(w y_{n-1} + g_n) \\
    z_n &= z_{n-1} - h (s_n + \alpha y_{n-1}) \\
    y_n &= y_{n-1} + h z_n

Adjoint. Let :math:`\lambda_n, \mu_n` be the derivatives of the loss by :math:`y_n, z_n` through everything that follows, and
:math:`o_n` the part that arrives at the output at n (the gradients of the final state start the recurrence):

.. math::
    \lambda_n &= o_n + \lambda_{n+1} + w \delta_{n+1} - h \alpha \mu_{n+1} \\
    \mu_n &= \mu_{n+1} + h \lambda_n \\
    \delta_n &= -h \mu_n (1 - s_n^2)

Then :math:`\partial L / \partial g_n = \delta_n`, :math:`\partial L / \partial w = \sum_n \delta_n y_{n-1}` and
:math:`\partial L / \partial h = \sum_n [\lambda_n z_n - \mu_n (s_n + \alpha y_{n-1})]`.

Stored: y (the layer's output, which exists anyway), z and s. Neither z nor s is rebuilt from differences of y, which
would lose digits over long sequences.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cpu import array, drive, gradient_array, kernel, tanh
from lib.kernels._registry import register


@kernel
def _forward(w, h, alpha, g, y0, z0, y, z, s):
    y_before, z_before = y0.ravel(), z0.ravel()
    w_, h_ = w.ravel(), h.ravel()
    for n in range(len(g)):
        g_n, y_n, z_n, s_n = g[n].ravel(), y[n].ravel(), z[n].ravel(), s[n].ravel()
        for i in range(g_n.size):
            s_n[i] = tanh(w_[i] * y_before[i] + g_n[i])
            z_n[i] = z_before[i] - h_[i] * (s_n[i] + alpha * y_before[i])
            y_n[i] = y_before[i] + h_[i] * z_n[i]
        y_before, z_before = y_n, z_n


@kernel
def _backward(
    w, h, alpha, y0, y, z, s, from_y, y_carried, z_carried, delta, w_gradient, h_gradient
):
    """The carried gradients are those of the final state and become those of the initial one."""
    one = w.dtype.type(1)
    w_, h_, w_sum, h_sum = w.ravel(), h.ravel(), w_gradient.ravel(), h_gradient.ravel()
    lambda_, mu = y_carried.ravel(), z_carried.ravel()
    for n in range(len(y) - 1, -1, -1):
        y_before = (y[n - 1] if n > 0 else y0).ravel()
        z_n, s_n, o_n, delta_n = z[n].ravel(), s[n].ravel(), from_y[n].ravel(), delta[n].ravel()
        for i in range(z_n.size):
            arrived = lambda_[i] + o_n[i]
            m = mu[i] + h_[i] * arrived
            d = -h_[i] * m * (one - s_n[i] * s_n[i])
            h_sum[i] += arrived * z_n[i] - m * (s_n[i] + alpha * y_before[i])
            w_sum[i] += d * y_before[i]
            delta_n[i] = d
            lambda_[i] = arrived + w_[i] * d - h_[i] * alpha * m
            mu[i] = m


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        w: Tensor, h: Tensor, alpha: float, g: Tensor, y0: Tensor, z0: Tensor
    ) -> tuple[Tensor, ...]:
        w, h, g, y0, z0 = (array(part) for part in (w, h, g, y0, z0))
        y, z, s = (np.empty_like(g) for _ in range(3))
        _forward(w, h, w.dtype.type(alpha), g, y0, z0, y, z, s)
        results = (y, y[-1].copy(), z[-1].copy(), z, s)
        return tuple(torch.from_numpy(part) for part in results)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        w, h, ctx.alpha, _, y0, _ = inputs
        y, _, _, z, s = output
        ctx.mark_non_differentiable(z, s)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, h, y0, y, z, s)

    @staticmethod
    @once_differentiable
    def backward(ctx, from_y: Tensor | None, *from_final: Tensor | None) -> tuple:
        w, h, y0, y, z, s = (array(saved) for saved in ctx.saved_tensors)
        from_y = gradient_array(from_y, y)
        carried = tuple(gradient_array(part, y0).copy() for part in from_final[:2])
        delta, w_gradient, h_gradient = np.empty_like(y), np.zeros_like(w), np.zeros_like(w)
        alpha = w.dtype.type(ctx.alpha)
        _backward(w, h, alpha, y0, y, z, s, from_y, *carried, delta, w_gradient, h_gradient)
        gradients = (w_gradient, h_gradient, delta, *carried)
        w_, h_, *rest = (torch.from_numpy(part) for part in gradients)
        return w_, h_, None, *rest


@register("numba-cpu", "unicornn", devices=("cpu",), dtypes=(torch.float32, torch.float64))
def unicornn(weights, state, u):
    """UnICORNN, (6) of Rusch and Mishra; shapes as in `lib.cells.Cell.forward`."""
    layers, dt, alpha = weights
    below, final = u, []
    for (w, V, b, c), y0, z0 in zip(layers, state[::2], state[1::2], strict=True):
        # One weight per sequence makes the kernel's inner loop one stretch; autograd sums over them.
        w, h = (part.expand_as(y0).contiguous() for part in (w, dt * torch.sigmoid(c)))
        below, y, z, *_ = _Layer.apply(w, h, alpha, drive(below, V, b), y0, z0)
        final += [y, z]
    return below, tuple(final)
