r"""UnICORNN on the GPU, a layer at a time: one thread for each neuron of each sequence.

Forward, adjoint and the ways back are those of `longrnn.kernels.cpu_unicornn`, ``reversible`` left
out: with several layers it keeps hardly less than ``recovered``. Here the backward kernel
recomputes s off the critical path.
"""

import torch

from longrnn.kernels._cuda import cuda, device, engine, kernel, launch_chains, real
from longrnn.kernels._cuda_device import pipelined, shared, tanh
from longrnn.kernels._recurrence import Recurrence, per_chain
from longrnn.kernels.cpu_unicornn import OPERATOR, oscillate, pull_back, run_layers

_oscillate, _pull_back = shared(oscillate), shared(pull_back)


@device
def _fetch(arrays, n):
    g, _, _, _, at, size = arrays
    return g[at + n * size]


@device
def _step(neuron, state, g, arrays, n):
    w, h, alpha = neuron
    y, z = state
    _, outputs, velocities, keep, at, size = arrays
    y, z = _oscillate(w, h, alpha, g, y, z)
    outputs[at + n * size] = y
    if keep:
        velocities[at + n * size] = z
    return y, z


_steps = pipelined(_fetch, _step)


@kernel
def _forward_kernel(w, h, alpha, g, y0, z0, y, z, z_last, keep, T, chains):
    """`z` receives the velocities at all times, to `keep` them."""
    i = cuda.grid(1)
    if i < chains:
        arrays = g, y, z, keep, i, chains
        _, z_last[i] = _steps((w[i], h[i], alpha[i]), (y0[i], z0[i]), arrays, T)


@device
def _adjoint_fetch(arrays, n):
    g, y, z, from_y, _, _, end, size = arrays
    here = end - n * size
    return g[here], y[here - size], z[here], from_y[here]


@device
def _adjoint_step(neuron, state, inputs, arrays, n):
    """The state holds lambda, mu, and the sums for the gradients of w and h."""
    w, h, alpha = neuron
    lambda_, mu, w_sum, h_sum = state
    g, before, z, arrived = inputs
    _, _, _, _, delta, recover, end, size = arrays
    if recover:
        z = (z - before) / h
    s = tanh(w * before + g)
    lambda_, mu, d, h_part = _pull_back(w, h, alpha, s, before, z, lambda_ + arrived, mu)
    delta[end - n * size] = d
    return lambda_, mu, w_sum + d * before, h_sum + h_part


_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward_kernel(
    w, h, alpha, g, y0, y, z, recover, from_y, y_carried, z_carried, delta, w_sum, h_sum, T, chains
):  # fmt: skip
    """To `recover` velocities, `z` is y.

    The carried gradients are those of the final state and become those of the initial one.
    """
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


def _forward(way, checkpoint, alpha, g, w, h, y0, z0, y, y_end, z_end, z, y_kept):
    alpha = per_chain(alpha, w)
    launch_chains(_forward_kernel, w.numel(), w, h, alpha, g, y0, z0, y, z, z_end, len(z), len(g))
    y_end.copy_(y[-1])


def _backward(
    way, checkpoint, alpha, g, w, h, y0, z0, y, y_end, z_end, z, y_kept, from_y, lambda_, mu
):
    of_g, of_w, of_h = torch.empty_like(g), torch.empty_like(w), torch.empty_like(w)
    recover = int(way == "recovered")
    states = g, y0, y, y if recover else z, recover
    gradients = from_y, lambda_, mu, of_g, of_w, of_h
    alpha = per_chain(alpha, w)
    launch_chains(_backward_kernel, w.numel(), w, h, alpha, *states, *gradients, len(g))
    return of_g, of_w, of_h, lambda_, mu


_LAYER = Recurrence("unicornn_cuda", forward=_forward, backward=_backward, arrays=False, **OPERATOR)


@engine("unicornn", options=("backward",), runs=True)
def unicornn(weights, state, u, *, backward: str = "stored"):
    """Run UnICORNN, as `longrnn.kernels.cpu_unicornn.unicornn`."""
    return run_layers(_LAYER, weights, state, u, backward=backward)
