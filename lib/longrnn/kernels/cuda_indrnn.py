r"""IndRNN on the GPU, a layer at a time: one thread for each neuron of each sequence.

Forward and adjoint, and what is stored, are those of `longrnn.kernels.cpu_indrnn`.
"""

import torch

from longrnn.kernels._cuda import cuda, device, engine, kernel, launch_chains, real
from longrnn.kernels._cuda_device import activate, pipelined, times_slope
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels.cpu_indrnn import OPERATOR, run_layers


@device
def _fetch(arrays, t):
    g, _, at, size = arrays
    return g[at + t * size]


@device
def _step(neuron, h, g, arrays, t):
    phi, w = neuron
    _, outputs, at, size = arrays
    h = activate(phi, w * h + g)
    outputs[at + t * size] = h
    return h


_steps = pipelined(_fetch, _step)


@kernel
def _forward_kernel(phi, w, g, h0, outputs, T, chains):
    i = cuda.grid(1)
    if i < chains:
        _steps((phi, w[i]), h0[i], (g, outputs, i, chains), T)


@device
def _adjoint_fetch(arrays, n):
    outputs, from_outputs, _, end, size = arrays
    here = end - n * size
    return outputs[here - size], from_outputs[here]


@device
def _adjoint_step(neuron, state, inputs, arrays, n):
    phi, w = neuron
    h, back, w_sum = state
    before, arrived = inputs
    _, _, delta, end, size = arrays
    d = times_slope(phi, arrived + back, h)
    delta[end - n * size] = d
    return before, w * d, w_sum + d * before


_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward_kernel(phi, w, h0, outputs, from_outputs, carried, delta, w_sum, T, chains):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    i = cuda.grid(1)
    if i < chains:
        neuron, end = (phi, w[i]), i + (T - 1) * chains
        arrays = outputs, from_outputs, delta, end, chains
        state = _adjoint_steps(neuron, (outputs[end], carried[i], real(0)), arrays, T - 1)
        # What came before the first step is not among the outputs.
        _, carried[i], w_sum[i] = _adjoint_step(
            neuron, state, (h0[i], from_outputs[i]), arrays, T - 1
        )


def _forward(phi, g, w, h0, outputs, h_end):
    launch_chains(_forward_kernel, w.numel(), phi, w, g, h0, outputs, len(g))
    h_end.copy_(outputs[-1])


def _backward(phi, w, h0, outputs, from_outputs, carried):
    delta = torch.empty_like(outputs)
    of_w = torch.empty_like(w)
    states = w, h0, outputs, from_outputs, carried
    launch_chains(_backward_kernel, w.numel(), phi, *states, delta, of_w, len(delta))
    return delta, of_w, carried


_INDRNN = Recurrence("indrnn_cuda", forward=_forward, backward=_backward, arrays=False, **OPERATOR)


@engine("indrnn", runs=True)
def indrnn(weights, state, u):
    """Run IndRNN, section 3 of Li et al.; shapes as in `longrnn.cells.Cell.forward`."""
    return run_layers(_INDRNN, weights, state, u)
