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
    ONE,
    cuda,
    device,
    drive,
    engine,
    gradient,
    kernel,
    launch_chains,
    origin,
    per_chain,
    pipelined,
    real,
    tanh,
)

BACKWARD = ("stored", "recovered", "reversible")
"""Where the way back takes the states from."""
CHECKPOINT = 64
"""Steps K between the checkpoints of the reversible way back."""


@device
def _fetch(arrays, n):
    g, _, _, _, at, size = arrays
    return g[at + n * size]


@device
def _step(neuron, state, g, arrays, n):
    """The state counts the steps `left` to the next checkpoint, which goes to `keep`."""
    w, h, alpha = neuron
    y, z, left, keep = state
    _, outputs, kept, every, at, size = arrays
    z = z - h * (tanh(w * y + g) + alpha * y)
    y = y + h * z
    outputs[at + n * size] = y
    left -= 1
    if left == 0:
        kept[keep] = z
        left, keep = every, keep + size
    return y, z, left, keep


_steps = pipelined(_fetch, _step)


@kernel
def _forward(w, h, alpha, g, y0, z0, y, z, z_last, every, T, size, chains):
    """`z` (run, T // every, size) receives the velocity after every `every` steps."""
    i = cuda.grid(1)
    if i < chains:
        arrays = g, y, z, every, origin(i, T, size), size
        state = y0[i], z0[i], every, origin(i, T // every, size)
        _, z_last[i], _, _ = _steps((w[i], h[i], alpha[i]), state, arrays, T)


@device
def _adjoint(neuron, state, s, y, z, arrived):
    """Return delta and the next state: lambda, mu, and the sums for the gradients of w and h.

    `y` is the position before the step, `z` the velocity after it.
    """
    w, h, alpha = neuron
    lambda_, mu, w_sum, h_sum = state
    lambda_ = lambda_ + arrived
    mu = mu + h * lambda_
    delta = h * mu * (s * s - ONE)
    h_sum = h_sum + (lambda_ * z - mu * (s + alpha * y))
    return delta, (lambda_ + w * delta - h * alpha * mu, mu, w_sum + delta * y, h_sum)


@device
def _adjoint_fetch(arrays, n):
    g, y, z, from_y, _, _, end, size = arrays
    here = end - n * size
    return g[here], y[here - size], z[here], from_y[here]


@device
def _adjoint_step(neuron, state, inputs, arrays, n):
    w, h, _ = neuron
    g, before, z, arrived = inputs
    _, _, _, _, delta, recover, end, size = arrays
    if recover:
        z = (z - before) / h
    d, state = _adjoint(neuron, state, tanh(w * before + g), before, z, arrived)
    delta[end - n * size] = d
    return state


_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward(
    w, h, alpha, g, y0, y, z, recover, from_y, y_carried, z_carried, delta, w_sum, h_sum, T, size, chains
):  # fmt: skip
    """To `recover` velocities, `z` is y. The carried gradients, of the final state, become those of the initial one."""
    i = cuda.grid(1)
    if i < chains:
        neuron, at = (w[i], h[i], alpha[i]), origin(i, T, size)
        arrays = g, y, z, from_y, delta, recover, at + (T - 1) * size, size
        state = y_carried[i], z_carried[i], real(0), real(0)
        state = _adjoint_steps(neuron, state, arrays, T - 1)
        first = g[at], y0[i], z[at], from_y[at]  # what came before it is not in y
        y_carried[i], z_carried[i], w_sum[i], h_sum[i] = _adjoint_step(
            neuron, state, first, arrays, T - 1
        )


@device
def _reverse_fetch(arrays, n):
    g, _, _, _, from_y, _, end, size = arrays
    return g[end - n * size], from_y[end - n * size]


@device
def _reverse_step(neuron, state, inputs, arrays, n):
    w, h, alpha = neuron
    adjoint, y, z, left, keep = state
    g, arrived = inputs
    _, y_kept, z_kept, every, _, delta, end, size = arrays
    before = y - h * z  # (7), first line
    s = tanh(w * before + g)
    delta[end - n * size], adjoint = _adjoint(neuron, adjoint, s, before, z, arrived)
    y, z, left = before, z + h * (s + alpha * before), left - 1  # (7), second line
    if left == 0:
        left, keep = every, keep - size
        if keep >= 0:
            y, z = y_kept[keep], z_kept[keep]
    return adjoint, y, z, left, keep


_reverse_steps = pipelined(_reverse_fetch, _reverse_step)


@kernel
def _backward_reversing(
    w, h, alpha, g, y, z, y_last, z_last, every, from_y, y_carried, z_carried, delta, w_sum, h_sum, T, size, chains
):  # fmt: skip
    """As `_backward`, from `y` and `z` (run, T // every, size) after every `every` steps, and after the last."""
    i = cuda.grid(1)
    if i < chains:
        arrays = g, y, z, every, from_y, delta, origin(i, T, size) + (T - 1) * size, size
        between = (T - 1) // every  # checkpoints before the last step
        keep, left = origin(i, T // every, size) + between * size, T - between * every
        state = (y_carried[i], z_carried[i], real(0), real(0)), y_last[i], z_last[i], left, keep
        state, _, _, _, _ = _reverse_steps((w[i], h[i], alpha[i]), state, arrays, T)
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
