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

The way back needs g, y and z at every step. It recomputes s, off the critical path, and keeps or recomputes the rest as
`lib.kernels.cpu_unicornn` does: ``stored`` keeps g, y and z; ``recovered`` keeps y, with :math:`z_n = (y_n - y_{n-1}) / h`;
``reversible`` keeps y and z every K steps and takes them back by the inverse (7).
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, device, kernel, launch_chains, real
from lib.kernels._cuda_device import ONE, origin, pipelined, tanh
from lib.kernels._cuda_engine import check_hidden, drive, engine, gradient, per_chain


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
    """One layer; its g is ``make(*sources)``, which the way back repeats."""

    @staticmethod
    def forward(
        ctx, w, h, alpha, y0, z0, backward, checkpoint, make, *sources
    ) -> tuple[Tensor, ...]:
        g = make(*sources)
        runs, T, *shape = g.shape
        every = {"stored": 1, "recovered": T + 1, "reversible": checkpoint}[backward]
        y, z, z_end = (
            torch.empty_like(g),
            g.new_empty(runs, T // every, *shape),
            torch.empty_like(z0),
        )
        arrays = w, h, alpha, g, y0, z0, y, z, z_end
        launch_chains(_forward, w.numel(), *arrays, every, T, w[0].numel())
        y_end = y[:, -1].clone()
        kept = {
            "stored": (y0, y, z),
            "recovered": (y0, y),
            "reversible": (y[:, every - 1 :: every].contiguous(), z, y_end, z_end),
        }[backward]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, h, alpha, *kept, *sources)
        ctx.every, ctx.backward, ctx.make, ctx.kept = every, backward, make, 3 + len(kept)
        return y, y_end, z_end

    @staticmethod
    @once_differentiable
    def backward(ctx, from_y: Tensor | None, *from_final: Tensor | None) -> tuple:
        w, h, alpha, *kept = ctx.saved_tensors[: ctx.kept]
        asked = ctx.needs_input_grad[8:]
        sources = [
            source.detach().requires_grad_(needed)
            for source, needed in zip(ctx.saved_tensors[ctx.kept :], asked, strict=True)
        ]
        with torch.enable_grad():
            g = ctx.make(*sources)
        carried = [gradient(part, w).clone() for part in from_final]
        w_gradient, h_gradient = torch.empty_like(w), torch.empty_like(w)
        g_ = g.detach()
        delta = torch.empty_like(g_)
        ends = gradient(from_y, g_), *carried, delta, w_gradient, h_gradient
        if ctx.backward == "reversible":
            run, middle = _backward_reversing, (*kept, ctx.every)
        else:
            run, middle = _backward, (*(*kept, kept[1])[:3], int(ctx.backward == "recovered"))
        launch_chains(run, w.numel(), w, h, alpha, g_, *middle, *ends, g_.shape[1], w[0].numel())
        needed = [source for source in sources if source.requires_grad]
        found = iter(torch.autograd.grad(g, needed, delta) if needed else ())
        of_sources = (next(found) if source.requires_grad else None for source in sources)
        return w_gradient, h_gradient, None, *carried, None, None, None, *of_sources


def _itself(g: Tensor) -> Tensor:
    return g


def _drive(below: Tensor, V: Tensor, b: Tensor, *skipped: Tensor) -> Tensor:
    """Return what a layer is driven by, (103) where there is a residual connection."""
    g = drive("unicornn", below, V, b)
    return g + drive("unicornn", *skipped) if skipped else g


@engine("unicornn", "stacked unicornn", options=("backward", "checkpoint"))
def unicornn(weights, state, u, *, backward: str = "stored", checkpoint: int = 64):
    """UnICORNN, (6) of Rusch and Mishra; shapes as in `lib.cells.Cell.forward`, with runs or without.

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
    check_hidden("unicornn", state, layers[0].w.shape[-1])
    handed, final = [u], []
    for k, ((w, V, b, c), dt) in enumerate(zip(layers, dts, strict=True), start=1):
        y0, z0 = (part.contiguous() for part in state[2 * k - 2 : 2 * k])
        h = per_chain(dt, y0) * per_chain(torch.sigmoid(c), y0)
        neurons = per_chain(w, y0), h, per_chain(alpha, y0)
        make, sources = _drive, (handed[-1], V, b)
        if skips[k - 1] is not None:
            sources += (handed[k - skip - 1], skips[k - 1])
        if backward == "stored":
            make, sources = _itself, (_drive(*sources),)
        outputs, y, z = _Layer.apply(*neurons, y0, z0, backward, checkpoint, make, *sources)
        final += [y, z]
        handed.append(outputs if masks[k - 1] is None else masks[k - 1][:, None] * outputs)
    return outputs, tuple(final)
