r"""UnICORNN on the CPU, a layer at a time: its neurons are independent of each other.

Forward of one layer, with the drive :math:`g_n = V y^{l-1}_n + b` of all times computed before and the step
:math:`h = \Delta t \, \hat\sigma(c)` of each neuron:

.. math::
    s_n &= \tanh(w y_{n-1} + g_n) \\
    z_n &= z_{n-1} - h (s_n + \alpha y_{n-1}) \\
    y_n &= y_{n-1} + h z_n

Adjoint (symbols as in `longrnn.kernels._recurrence`, :math:`\lambda_n, \mu_n` of :math:`y_n, z_n`):

.. math::
    \lambda_n &= o_n + \lambda_{n+1} + w \delta_{n+1} - h \alpha \mu_{n+1} \\
    \mu_n &= \mu_{n+1} + h \lambda_n \\
    \delta_n &= -h \mu_n (1 - s_n^2)

Then :math:`\partial L / \partial g_n = \delta_n`, :math:`\partial L / \partial w = \sum_n \delta_n y_{n-1}` and
:math:`\partial L / \partial h = \sum_n [\lambda_n z_n - \mu_n (s_n + \alpha y_{n-1})]`.

The way back needs g, y and z at every step. It recomputes s, and keeps or recomputes the rest:

``stored``
    keeps g, y (the layer's output, which exists anyway) and z: exact.
``recovered``
    keeps y alone: no more memory than the output itself. :math:`z_n = (y_n - y_{n-1}) / h`, and the digits that the difference
    loses enter the gradient of h and no other. g is computed again from the layer's input.
``reversible``
    keeps y and z every K steps, from where they are taken back by the inverse (7) of the step; g is computed again. Rounding
    grows on the way, all the more the longer it is. The texts reverse whole sequences, which is K = T.

That input, the output of the layer below, is kept in any case: the gradient of V needs it.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._cpu import ONE, engine, kernel, run_chains, scalar, tanh, variants
from longrnn.kernels._recurrence import Recurrence, as_tensor, drive, per_chain

STORED, RECOVERED, REVERSIBLE = range(3)
WAYS = ("stored", "recovered", "reversible")
way = STORED
"""In the text of a kernel: the way back that it is compiled for."""


@scalar
def oscillate(w, h, alpha, g, y, z):
    """Return the position and the velocity after a step."""
    z = z - h * (tanh(w * y + g) + alpha * y)
    return y + h * z, z


@kernel
def _forward(w, h, alpha, g, y0, velocity, y, z, every, start, stop):
    """`velocity` starts as z0 and ends as z_T; `z` (kept, chains) receives it after every `every` steps."""
    w_, h_, z_now = w[start:stop], h[start:stop], velocity[start:stop]
    y_before, kept = y0[start:stop], 0
    for n in range(len(g)):
        g_n, y_n = g[n, start:stop], y[n, start:stop]
        for i in range(g_n.size):
            y_n[i], z_now[i] = oscillate(w_[i], h_[i], alpha, g_n[i], y_before[i], z_now[i])
        if n + 1 == (kept + 1) * every:
            z_kept = z[kept, start:stop]
            for i in range(z_kept.size):
                z_kept[i] = z_now[i]
            kept += 1
        y_before = y_n


@scalar
def pull_back(w, h, alpha, s, y, z, arrived, mu):
    """Return lambda and mu as the step before finds them, delta, and the part of the gradient of h.

    `y` is the position before the step, `z` the velocity after it.
    """
    mu = mu + h * arrived
    delta = -h * mu * (ONE - s * s)
    h_part = arrived * z - mu * (s + alpha * y)
    return arrived + w * delta - h * alpha * mu, mu, delta, h_part


@variants("way", len(WAYS))
def _backward(
    w, h, alpha, g, y, z, y_now, z_now, every, from_y, lambda_, mu, delta, w_sum, h_sum, start, stop
):
    """The carried gradients, of the final state, become those of the initial one.

    `y` and `z` (time, chains) hold all states and `y_now` the initial one, or in the reversible way `y` and `z` (kept, chains) those
    after every `every` steps, and `y_now`, `z_now` copies of the final ones. Recovered velocities need no `z`.
    """
    w_, h_, lambda_, mu = w[start:stop], h[start:stop], lambda_[start:stop], mu[start:stop]
    w_sum, h_sum = w_sum[start:stop], h_sum[start:stop]
    y_now, z_now, kept = y_now[start:stop], z_now[start:stop], len(y)
    for n in range(len(g) - 1, -1, -1):
        g_n, o_n, delta_n = g[n, start:stop], from_y[n, start:stop], delta[n, start:stop]
        y_before, y_n, z_n = y_now, y_now, z_now
        if way != REVERSIBLE:
            y_before, y_n = y_now if n == 0 else y[n - 1, start:stop], y[n, start:stop]
            z_n = z[n, start:stop]
        elif n + 1 == kept * every:
            kept -= 1
            y_kept, z_kept = y[kept, start:stop], z[kept, start:stop]
            for i in range(y_kept.size):
                y_now[i], z_now[i] = y_kept[i], z_kept[i]
        for i in range(g_n.size):
            velocity, before = z_n[i], y_before[i]
            if way == REVERSIBLE:
                before = y_now[i] - h_[i] * velocity  # (7)
            elif way == RECOVERED:
                velocity = (y_n[i] - before) / h_[i]
            s = tanh(w_[i] * before + g_n[i])
            lambda_[i], mu[i], delta_n[i], h_part = pull_back(
                w_[i], h_[i], alpha, s, before, velocity, lambda_[i] + o_n[i], mu[i]
            )
            w_sum[i] += delta_n[i] * before
            h_sum[i] += h_part
            if way == REVERSIBLE:
                y_now[i] = before
                z_now[i] = velocity + h_[i] * (s + alpha * before)  # (7)


def states(w, h, alpha, g, y0, z0, every: int = 1) -> tuple[np.ndarray, ...]:
    """Run one layer forward, without a graph, on arrays; arguments and results as for ``there`` of `recurrence_of`."""
    T, alpha, z_end = len(g), w.dtype.type(alpha), z0.copy()
    y, z = np.empty_like(g), np.empty((T // every, *y0.shape), g.dtype)
    run_chains(_forward, T, w, h, alpha, g, y0, z_end, y, z, every)
    return y, z, z_end


def _back(w, h, alpha, g, way, kept, every, arrived, *carried):
    by_g, by_w, by_h = np.empty_like(g), np.zeros_like(w), np.zeros_like(w)
    ends = arrived, *carried, by_g, by_w, by_h
    y, z, *now = kept
    now = (part.copy() for part in now)  # the reversible way writes over them
    run = _backward[WAYS.index(way)]
    run_chains(run, len(g), w, h, w.dtype.type(alpha), g, y, z, *now, every, *ends)
    return by_w, by_h, by_g, *carried


def recurrence_of(there: Callable, back: Callable, *, arrays: bool) -> Recurrence:
    """Return one layer as a function ``(way, checkpoint, *sources, w, h, alpha, g, y0, z0) -> (y, (y_T, z_T))``.

    The way back keeps the `sources` in place of g, which `_drive` makes of them again. `w` and `h` are the weights and steps of
    each chain, (batch, hidden).

    ``there(w, h, alpha, g, y0, z0, every) -> (y, z, z_T)`` gives positions at all times, velocities (time // every, batch, hidden)
    after every `every` steps, and the last velocity; ``back(w, h, alpha, g, way, kept, every, arrived, *carried) -> (by_w, by_h,
    by_g, by_y0, by_z0)`` the gradients, from what the way back keeps: y, z (``recovered``: y again) and y0 twice, or ``reversible`` y and z
    after every `every` steps and after the last.
    """

    def forward(way, checkpoint, *inputs):
        *_, w, h, alpha, g, y0, z0 = inputs
        every = {"stored": 1, "recovered": len(g) + 1, "reversible": checkpoint}[way]
        y, z, z_end = there(w, h, alpha, g, y0, z0, every)
        kept = y, y if way == "recovered" else z, y0 * 1, y0  # the caller may write into his y0
        if way == "reversible":
            kept = y[every - 1 :: every].copy(), z, y[-1].copy(), z_end
        return y, [y[-1], z_end], kept

    def backward(way, checkpoint, below, V, b, skipped, skip, w, h, alpha, *more):
        *kept, arrived, of_y, of_z = more
        g = layer.taken(_drive(*map(as_tensor, (below, V, b, skipped, skip))))
        by_w, by_h, *others = back(w, h, alpha, g, way, kept, checkpoint, arrived, of_y, of_z)
        return by_w, by_h, None, *others

    layer = Recurrence(forward, backward, saved=tuple(range(10)), arrays=arrays)
    return layer


def run_layers(
    recurrence: Recurrence, weights, state, u: Tensor, *, backward: str, checkpoint: int = 0
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run all layers, each as `recurrence` does on its device; arguments and results as for `unicornn`."""
    layers, dts, alpha, skip, skips, masks = weights
    handed, final = [u], []
    for k, ((w, V, b, c), dt) in enumerate(zip(layers, dts, strict=True), start=1):
        y0, z0 = state[2 * k - 2 : 2 * k]
        w, h = per_chain(w, y0), per_chain(dt * torch.sigmoid(c), y0)
        skipped = None if skips[k - 1] is None else handed[k - skip - 1]
        sources = handed[-1], V, b, skipped, skips[k - 1]
        g = _drive(*sources)
        if backward == "stored":
            sources = g, None, None, None, None  # the drive is kept as it is
        kept = (None if part is None else part.detach() for part in sources)
        outputs, ends = recurrence(backward, checkpoint, *kept, w, h, alpha, g, y0, z0)
        final += ends
        # The mask is the same at all times.
        handed.append(outputs if masks[k - 1] is None else masks[k - 1] * outputs)
    return outputs, tuple(final)


def _drive(below, V, b, skipped, skip) -> Tensor:
    """Return what a layer is driven by, as below (103) where there is a residual connection."""
    if V is None:
        return below
    g = drive(below, V, b)
    return g if skip is None else g + drive(skipped, skip)


LAYER = recurrence_of(states, _back, arrays=True)


@engine("unicornn", options=("backward", "checkpoint"))
def unicornn(weights, state, u, *, backward: str = "stored", checkpoint: int = 64):
    """UnICORNN, (6) of Rusch and Mishra; shapes as in `longrnn.cells.Cell.forward`.

    The way back is ``"stored"``, ``"recovered"`` or ``"reversible"`` (see above), the last with K = `checkpoint` steps between
    its checkpoints.
    """
    return run_layers(LAYER, weights, state, u, backward=backward, checkpoint=checkpoint)
