r"""UnICORNN on the CPU, a layer at a time: its neurons are independent of each other.

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

The way back needs y and z at every step. It always keeps g, recomputes s from it, and takes the states from

``stored``
    y (the layer's output, which exists anyway) and z: exact.
``recovered``
    y alone, with :math:`z_n = (y_n - y_{n-1}) / h`: the digits that the difference loses enter the gradient of h and no other.
``reversible``
    neither: from a checkpoint of both every K steps the states are taken back by the inverse (7) of the step. Rounding grows on the
    way, all the more the longer it is: the texts reverse the whole sequence, which is K = T.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cpu import (
    array,
    chains,
    drive,
    gradient_array,
    kernel,
    over_chains,
    scalar,
    tanh,
)
from lib.kernels._registry import register


@kernel
def _forward(w, h, alpha, g, y0, velocity, y, z, every, start, stop):
    """`velocity` starts as z0 and ends as z_T; `z` (kept, chains) receives it after every `every` steps."""
    w_, h_, z_now = w[start:stop], h[start:stop], velocity[start:stop]
    y_before, kept = y0[start:stop], 0
    for n in range(len(g)):
        g_n, y_n = g[n, start:stop], y[n, start:stop]
        for i in range(g_n.size):
            s = tanh(w_[i] * y_before[i] + g_n[i])
            z_now[i] -= h_[i] * (s + alpha * y_before[i])
            y_n[i] = y_before[i] + h_[i] * z_now[i]
        if n + 1 == (kept + 1) * every:
            z_kept = z[kept, start:stop]
            for i in range(z_kept.size):
                z_kept[i] = z_now[i]
            kept += 1
        y_before = y_n


@scalar
def _adjoint_step(w, h, alpha, one, s, y_before, z, arrived, mu):
    """Return lambda and mu as the step before finds them, delta, and the parts of the gradients of w and h."""
    mu = mu + h * arrived
    delta = -h * mu * (one - s * s)
    h_part = arrived * z - mu * (s + alpha * y_before)
    return arrived + w * delta - h * alpha * mu, mu, delta, delta * y_before, h_part


@kernel
def _backward(w, h, alpha, g, y0, y, z, from_y, lambda_, mu, delta, w_sum, h_sum, start, stop):
    """Without `z` recover it. The carried gradients, of the final state, become those of the initial one."""
    one = w.dtype.type(1)
    w_, h_, lambda_, mu = w[start:stop], h[start:stop], lambda_[start:stop], mu[start:stop]
    w_sum, h_sum = w_sum[start:stop], h_sum[start:stop]
    for n in range(len(y) - 1, -1, -1):
        g_n, o_n, delta_n = g[n, start:stop], from_y[n, start:stop], delta[n, start:stop]
        y_n, y_before = y[n, start:stop], y0[start:stop] if n == 0 else y[n - 1, start:stop]
        z_n = y_n if z is None else z[n, start:stop]  # decided when compiling
        for i in range(g_n.size):
            velocity = (y_n[i] - y_before[i]) / h_[i] if z is None else z_n[i]
            s = tanh(w_[i] * y_before[i] + g_n[i])
            lambda_[i], mu[i], delta_n[i], w_part, h_part = _adjoint_step(
                w_[i], h_[i], alpha, one, s, y_before[i], velocity, lambda_[i] + o_n[i], mu[i]
            )
            w_sum[i] += w_part
            h_sum[i] += h_part


@kernel
def _backward_reversing(
    w, h, alpha, g, y, z, y_end, z_end, every, from_y, lambda_, mu, delta, w_sum, h_sum, start, stop
):
    """As `_backward`, from `y` and `z` (kept, chains) after every `every` steps, and copies of the final state."""
    one, kept = w.dtype.type(1), len(y)
    w_, h_, lambda_, mu = w[start:stop], h[start:stop], lambda_[start:stop], mu[start:stop]
    w_sum, h_sum = w_sum[start:stop], h_sum[start:stop]
    y_now, z_now = y_end[start:stop], z_end[start:stop]
    for n in range(len(g) - 1, -1, -1):
        if n + 1 == kept * every:
            kept -= 1
            y_kept, z_kept = y[kept, start:stop], z[kept, start:stop]
            for i in range(y_kept.size):
                y_now[i], z_now[i] = y_kept[i], z_kept[i]
        g_n, o_n, delta_n = g[n, start:stop], from_y[n, start:stop], delta[n, start:stop]
        for i in range(g_n.size):
            y_before = y_now[i] - h_[i] * z_now[i]  # (7)
            s = tanh(w_[i] * y_before + g_n[i])
            lambda_[i], mu[i], delta_n[i], w_part, h_part = _adjoint_step(
                w_[i], h_[i], alpha, one, s, y_before, z_now[i], lambda_[i] + o_n[i], mu[i]
            )
            w_sum[i] += w_part
            h_sum[i] += h_part
            y_now[i] = y_before
            z_now[i] += h_[i] * (s + alpha * y_before)  # (7)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, h, alpha, g, y0, z0, backward, checkpoint) -> tuple[Tensor, ...]:
        w, h, g, y0, z0 = (array(part) for part in (w, h, g, y0, z0))
        T, alpha, z_end = len(g), w.dtype.type(alpha), z0.copy()
        every = {"stored": 1, "recovered": T + 1, "reversible": checkpoint}[backward]
        y, z = np.empty_like(g), np.empty((T // every, *y0.shape), g.dtype)
        w_, h_, *rest = chains(w, h, g, y0, z_end, y, z)
        over_chains(lambda *stretch: _forward(w_, h_, alpha, *rest, every, *stretch), T, w.size)
        w, h, g, y0, y, z, z_end = (torch.from_numpy(part) for part in (w, h, g, y0, y, z, z_end))
        y_end = y[-1].clone()
        kept = {
            "stored": (y0, y, z),
            "recovered": (y0, y),
            "reversible": (y[every - 1 :: every].contiguous(), z, y_end, z_end),
        }
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, h, g, *kept[backward])
        ctx.alpha, ctx.every, ctx.reversing = alpha, every, backward == "reversible"
        return y, y_end, z_end

    @staticmethod
    @once_differentiable
    def backward(ctx, from_y: Tensor | None, *from_final: Tensor | None) -> tuple:
        w, h, g, *kept = (array(saved) for saved in ctx.saved_tensors)
        carried = [gradient_array(part, w).copy() for part in from_final]
        delta, w_gradient, h_gradient = np.empty_like(g), np.zeros_like(w), np.zeros_like(w)
        ends = chains(gradient_array(from_y, g), *carried, delta, w_gradient, h_gradient)
        if ctx.reversing:
            y, z, *end = kept
            run, middle = _backward_reversing, (*chains(y, z, *(p.copy() for p in end)), ctx.every)
        else:
            run, middle = _backward, (*chains(*kept), None)[:3]
        arguments = (*chains(w, h), ctx.alpha, *chains(g), *middle, *ends)
        over_chains(lambda *stretch: run(*arguments, *stretch), len(g), w.size)
        gradients = (w_gradient, h_gradient, delta, *carried)
        w_gradient, h_gradient, *rest = (torch.from_numpy(part) for part in gradients)
        return w_gradient, h_gradient, None, *rest, None, None


@register(
    "numba-cpu",
    "unicornn",
    "stacked unicornn",
    devices=("cpu",),
    dtypes=(torch.float32, torch.float64),
    options=("backward", "checkpoint"),
)
def unicornn(weights, state, u, *, backward: str = "stored", checkpoint: int = 64):
    """UnICORNN, (6) of Rusch and Mishra; shapes as in `lib.cells.Cell.forward`.

    Parameters
    ----------
    weights
        `Weights` or `StackedWeights` of `lib.cells.unicornn`.
    state, u
        The initial state and the input.
    backward
        ``"stored"``, ``"recovered"`` or ``"reversible"``, see above.
    checkpoint
        Steps K between the checkpoints of the reversible way back.
    """
    layers, dts, alpha, skip, skips, masks = weights.stacked()
    handed, final = [u], []
    for k, ((w, V, b, c), dt) in enumerate(zip(layers, dts, strict=True), start=1):
        y0, z0 = state[2 * k - 2 : 2 * k]
        g = drive(handed[-1], V, b)
        if skips[k - 1] is not None:
            g = g + drive(handed[k - skip - 1], skips[k - 1])  # (103)
        # One weight per sequence makes the kernel's inner loop one stretch; autograd sums over them.
        w, h = (part.expand_as(y0).contiguous() for part in (w, dt * torch.sigmoid(c)))
        outputs, y, z = _Layer.apply(w, h, alpha, g, y0, z0, backward, checkpoint)
        final += [y, z]
        handed.append(outputs if masks[k - 1] is None else masks[k - 1] * outputs)
    return outputs, tuple(final)
