r"""UnICORNN on the GPU, a layer at a time: one thread for each neuron of each sequence of each run.

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

Stored: y (the output, which exists anyway) and g. Recomputed: s, off the critical path. The states come from one of

``stored``
    y and z, both kept: exact.
``recovered``
    y alone, with :math:`z_n = (y_n - y_{n-1}) / h`: the digits that the difference loses enter the gradient of h and no other.
``reversible``
    a checkpoint of both every K steps, from which the inverse (7) of the step takes them back. Rounding grows on the way: the texts
    reverse the whole sequence, which is K = T.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import (
    AHEAD,
    ONE,
    cuda,
    device,
    drive,
    engine,
    gradient,
    kernel,
    launch_chains,
    load,
    origin,
    per_chain,
    real,
    tanh,
)

BACKWARD = ("stored", "recovered", "reversible")
"""Where the way back takes the states from."""
CHECKPOINT = 64
"""Steps K between the checkpoints of the reversible way back."""


@device
def _step(neuron, y, z, g, outputs, here):
    w, h, alpha = neuron
    z = z - h * (tanh(w * y + g) + alpha * y)
    y = y + h * z
    outputs[here] = y
    return y, z


@device
def _adjoint_step(neuron, state, s, y, z, arrived, delta, here):
    """`y` is the position before the step, `z` the velocity after it; `state` holds lambda, mu and the two sums."""
    w, h, alpha = neuron
    lambda_, mu, w_sum, h_sum = state
    lambda_ = lambda_ + arrived
    mu = mu + h * lambda_
    d = h * mu * (s * s - ONE)
    delta[here] = d
    w_sum = w_sum + d * y
    h_sum = h_sum + (lambda_ * z - mu * (s + alpha * y))
    return lambda_ + w * d - h * alpha * mu, mu, w_sum, h_sum


@kernel
def _forward(w, h, alpha, g, y0, z0, y, z, z_last, every, T, size, chains):
    """`z` (run, T // every, size) receives the velocity after every `every` steps."""
    i = cuda.grid(1)
    if i >= chains:
        return
    neuron, y_, z_ = (w[i], h[i], alpha[i]), y0[i], z0[i]
    at, keep, left = origin(i, T, size), origin(i, T // every, size), every
    whole = T // AHEAD * AHEAD
    if whole > 0:
        coming = load(g, at, size)
    for n in range(0, whole, AHEAD):
        now, coming = coming, load(g, at + min(n + AHEAD, whole - AHEAD) * size, size)
        for k in range(AHEAD):
            y_, z_ = _step(neuron, y_, z_, now[k], y, at + (n + k) * size)
            left -= 1
            if left == 0:
                z[keep] = z_
                keep, left = keep + size, every
    for n in range(whole, T):
        y_, z_ = _step(neuron, y_, z_, g[at + n * size], y, at + n * size)
        left -= 1
        if left == 0:
            z[keep] = z_
            keep, left = keep + size, every
    z_last[i] = z_


@kernel
def _backward(
    w, h, alpha, g, y0, y, z, recover, from_y, y_carried, z_carried, delta, w_sum, h_sum, T, size, chains
):  # fmt: skip
    """To `recover` velocities, `z` is y. The carried gradients, of the final state, become those of the initial one."""
    i = cuda.grid(1)
    if i >= chains:
        return
    neuron, state = (w[i], h[i], alpha[i]), (y_carried[i], z_carried[i], real(0), real(0))
    per_h = real(1) / h[i]
    end = origin(i, T, size) + (T - 1) * size
    whole = (T - 1) // AHEAD * AHEAD  # what came before the first step is not in y
    if whole > 0:
        coming = (
            load(g, end, -size),
            load(y, end - size, -size),
            load(z, end, -size),
            load(from_y, end, -size),
        )
    for n in range(0, whole, AHEAD):
        g_n, before, z_n, o_n = coming
        ahead = end - min(n + AHEAD, whole - AHEAD) * size
        coming = (
            load(g, ahead, -size),
            load(y, ahead - size, -size),
            load(z, ahead, -size),
            load(from_y, ahead, -size),
        )
        for k in range(AHEAD):
            s = tanh(w[i] * before[k] + g_n[k])
            velocity = (z_n[k] - before[k]) * per_h if recover else z_n[k]
            state = _adjoint_step(
                neuron, state, s, before[k], velocity, o_n[k], delta, end - (n + k) * size
            )
    for n in range(whole, T):
        here = end - n * size
        before_n = y[here - size] if n < T - 1 else y0[i]
        s = tanh(w[i] * before_n + g[here])
        velocity = (z[here] - before_n) * per_h if recover else z[here]
        state = _adjoint_step(neuron, state, s, before_n, velocity, from_y[here], delta, here)
    y_carried[i], z_carried[i], w_sum[i], h_sum[i] = state


@device
def _undo(neuron, y, z, g):
    """Return the position before a step, s, and the velocity before it: the inverse (7)."""
    w, h, alpha = neuron
    y = y - h * z
    s = tanh(w * y + g)
    return y, s, z + h * (s + alpha * y)


@kernel
def _backward_reversing(
    w, h, alpha, g, y, z, y_last, z_last, every, from_y, y_carried, z_carried, delta, w_sum, h_sum, T, size, chains
):  # fmt: skip
    """As `_backward`, from `y` and `z` (run, T // every, size) after every `every` steps, and after the last."""
    i = cuda.grid(1)
    if i >= chains:
        return
    neuron, state = (w[i], h[i], alpha[i]), (y_carried[i], z_carried[i], real(0), real(0))
    y_, z_ = y_last[i], z_last[i]
    between = (T - 1) // every  # checkpoints before the last step
    keep, left = origin(i, T // every, size) + between * size, T - between * every
    end, whole = origin(i, T, size) + (T - 1) * size, T // AHEAD * AHEAD
    if whole > 0:
        coming = load(g, end, -size), load(from_y, end, -size)
    for n in range(0, whole, AHEAD):
        g_n, o_n = coming
        ahead = end - min(n + AHEAD, whole - AHEAD) * size
        coming = load(g, ahead, -size), load(from_y, ahead, -size)
        for k in range(AHEAD):
            before, s, z_before = _undo(neuron, y_, z_, g_n[k])
            state = _adjoint_step(neuron, state, s, before, z_, o_n[k], delta, end - (n + k) * size)
            y_, z_ = before, z_before
            left -= 1
            if left == 0 and n + k < T - 1:
                keep, left = keep - size, every
                y_, z_ = y[keep], z[keep]
    for n in range(whole, T):
        here = end - n * size
        before, s, z_before = _undo(neuron, y_, z_, g[here])
        state = _adjoint_step(neuron, state, s, before, z_, from_y[here], delta, here)
        y_, z_ = before, z_before
        left -= 1
        if left == 0 and n < T - 1:
            keep, left = keep - size, every
            y_, z_ = y[keep], z[keep]
    y_carried[i], z_carried[i], w_sum[i], h_sum[i] = state


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, h, alpha, g, y0, z0, backward, checkpoint) -> tuple[Tensor, ...]:
        runs, T, *shape = g.shape
        size = shape[0] * shape[1]
        every = {"stored": 1, "recovered": T + 1, "reversible": checkpoint}[backward]
        y, z, z_last = (
            torch.empty_like(g),
            g.new_empty(runs, T // every, *shape),
            torch.empty_like(z0),
        )
        launch_chains(_forward, w.numel(), w, h, alpha, g, y0, z0, y, z, z_last, every, T, size)
        y_last = y[:, -1].clone()
        kept = {
            "stored": (y0, y, z),
            "recovered": (y0, y, y),
            "reversible": (y[:, every - 1 :: every].contiguous(), z, y_last, z_last),
        }[backward]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, h, alpha, g, *kept)
        ctx.backward, ctx.every = backward, every
        return y, y_last, z_last

    @staticmethod
    @once_differentiable
    def backward(ctx, from_y: Tensor | None, *from_final: Tensor | None) -> tuple:
        w, h, alpha, g, *kept = ctx.saved_tensors
        carried = [gradient(part, w).clone() for part in from_final]
        delta, w_gradient, h_gradient = (
            torch.empty_like(g),
            torch.empty_like(w),
            torch.empty_like(w),
        )
        if ctx.backward == "reversible":
            run, how = _backward_reversing, ctx.every
        else:
            run, how = _backward, int(ctx.backward == "recovered")
        ends = gradient(from_y, g), *carried, delta, w_gradient, h_gradient
        size = g[0, 0].numel()
        launch_chains(run, w.numel(), w, h, alpha, g, *kept, how, *ends, g.shape[1], size)
        return w_gradient, h_gradient, None, delta, *carried, None, None


@engine("unicornn")
def unicornn(weights, state, u, *, backward: str = "recovered", checkpoint: int = CHECKPOINT):
    """UnICORNN, (6) of Rusch and Mishra; shapes as in `lib.cells.Cell.forward`, with runs or without.

    Parameters
    ----------
    weights
        `Weights` of `lib.cells.unicornn`.
    state, u
        The initial state and the input.
    backward
        One of `BACKWARD`.
    checkpoint
        Steps K between the checkpoints of the reversible way back.
    """
    if backward not in BACKWARD or checkpoint < 1:
        raise ValueError(
            f"unicornn: expected backward among {', '.join(BACKWARD)} and checkpoint >= 1, "
            f"got {backward!r} and {checkpoint}"
        )
    layers, dt, alpha = weights
    below, final = u, []
    for (w, V, b, c), y0, z0 in zip(layers, state[::2], state[1::2], strict=True):
        g = drive("unicornn", below, V, b)
        neurons = (per_chain(part, y0) for part in (w, dt * torch.sigmoid(c), alpha))
        below, y, z = _Layer.apply(
            *neurons, g, y0.contiguous(), z0.contiguous(), backward, checkpoint
        )
        final += [y, z]
    return below, tuple(final)
