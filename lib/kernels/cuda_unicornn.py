r"""UnICORNN on the GPU, a layer at a time: one thread for each neuron of each sequence.

Forward, adjoint and the three ways back are those of `lib.kernels.cpu_unicornn`; here the way back recomputes s off the critical
path.
"""

import torch

from lib.kernels._cuda import cuda, device, engine, kernel, launch_chains, real
from lib.kernels._cuda_device import pipelined, shared, tanh
from lib.kernels._recurrence import per_chain
from lib.kernels.cpu_unicornn import oscillate, pull_back, recurrence_of, run_layers

_oscillate, _pull_back = shared(oscillate), shared(pull_back)


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
    y, z = _oscillate(w, h, alpha, g, y, z)
    outputs[at + n * size] = y
    left -= 1
    if left == 0:
        kept[keep] = z
        left, keep = every, keep + size
    return y, z, left, keep


_steps = pipelined(_fetch, _step)


@kernel
def _forward(w, h, alpha, g, y0, z0, y, z, z_last, every, T, chains):
    """`z` (T // every, chains) receives the velocity after every `every` steps."""
    i = cuda.grid(1)
    if i < chains:
        arrays = g, y, z, every, i, chains
        state = y0[i], z0[i], every, i
        _, z_last[i], _, _ = _steps((w[i], h[i], alpha[i]), state, arrays, T)


@device
def _adjoint(neuron, state, s, y, z, arrived):
    """Return delta and the next state: lambda, mu, and the sums for the gradients of w and h."""
    w, h, alpha = neuron
    lambda_, mu, w_sum, h_sum = state
    lambda_, mu, delta, h_part = _pull_back(w, h, alpha, s, y, z, lambda_ + arrived, mu)
    return delta, (lambda_, mu, w_sum + delta * y, h_sum + h_part)


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
    w, h, alpha, g, y0, y, z, recover, from_y, y_carried, z_carried, delta, w_sum, h_sum, T, chains
):  # fmt: skip
    """To `recover` velocities, `z` is y. The carried gradients, of the final state, become those of the initial one."""
    i = cuda.grid(1)
    if i < chains:
        neuron = w[i], h[i], alpha[i]
        arrays = g, y, z, from_y, delta, recover, i + (T - 1) * chains, chains
        state = y_carried[i], z_carried[i], real(0), real(0)
        state = _adjoint_steps(neuron, state, arrays, T - 1)
        first = g[i], y0[i], z[i], from_y[i]  # what came before it is not in y
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
    w, h, alpha, g, y, z, y_last, z_last, every, from_y, y_carried, z_carried, delta, w_sum, h_sum, T, chains
):  # fmt: skip
    """As `_backward`, from `y` and `z` (T // every, chains) after every `every` steps, and after the last."""
    i = cuda.grid(1)
    if i < chains:
        arrays = g, y, z, every, from_y, delta, i + (T - 1) * chains, chains
        between = (T - 1) // every  # checkpoints before the last step
        keep, left = i + between * chains, T - between * every
        state = (y_carried[i], z_carried[i], real(0), real(0)), y_last[i], z_last[i], left, keep
        state, _, _, _, _ = _reverse_steps((w[i], h[i], alpha[i]), state, arrays, T)
        y_carried[i], z_carried[i], w_sum[i], h_sum[i] = state


def _there(w, h, alpha, g, y0, z0, every):
    y, z_end = torch.empty_like(g), torch.empty_like(z0)
    z = g.new_empty(len(g) // every, *z0.shape)
    alpha = per_chain(alpha, w)
    launch_chains(_forward, w.numel(), w, h, alpha, g, y0, z0, y, z, z_end, every, len(g))
    return y, z, z_end


def _back(w, h, alpha, g, way, kept, every, arrived, *carried):
    by_w, by_h, by_g = torch.empty_like(w), torch.empty_like(w), torch.empty_like(g)
    if way == "reversible":
        run, middle = _backward_reversing, (*kept, every)
    else:
        run, middle = _backward, (*(*kept, kept[1])[:3], int(way == "recovered"))
    ends = arrived, *carried, by_g, by_w, by_h
    launch_chains(run, w.numel(), w, h, per_chain(alpha, w), g, *middle, *ends, len(g))
    return by_w, by_h, by_g, *carried


_LAYER = recurrence_of(_there, _back)


@engine("unicornn", "stacked unicornn", options=("backward", "checkpoint"))
def unicornn(weights, state, u, *, backward: str = "stored", checkpoint: int = 64):
    """UnICORNN, as `lib.kernels.cpu_unicornn.unicornn`."""
    return run_layers(_LAYER, weights, state, u, backward=backward, checkpoint=checkpoint)
