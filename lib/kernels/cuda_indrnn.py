r"""IndRNN on the GPU, a layer at a time: one thread for each neuron of each sequence of each run.

Forward and adjoint, and what is stored, are those of `lib.kernels.cpu_indrnn`.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, device, kernel, launch_chains, real
from lib.kernels._cuda_device import PHI, activate, origin, pipelined, times_slope
from lib.kernels._cuda_engine import check_hidden, drive, engine, gradient, per_chain


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
def _forward(phi, w, g, h0, outputs, T, size, chains):
    i = cuda.grid(1)
    if i < chains:
        _steps((phi, w[i]), h0[i], (g, outputs, origin(i, T, size), size), T)


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
def _backward(phi, w, h0, outputs, from_outputs, carried, delta, w_sum, T, size, chains):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    i = cuda.grid(1)
    if i < chains:
        neuron, at = (phi, w[i]), origin(i, T, size)
        end = at + (T - 1) * size
        arrays = outputs, from_outputs, delta, end, size
        state = _adjoint_steps(neuron, (outputs[end], carried[i], real(0)), arrays, T - 1)
        # What came before the first step is not among the outputs.
        _, carried[i], w_sum[i] = _adjoint_step(
            neuron, state, (h0[i], from_outputs[at]), arrays, T - 1
        )


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, phi: int, w: Tensor, g: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
        outputs = torch.empty_like(g)
        size = h0[0].numel()
        launch_chains(_forward, w.numel(), phi, w, g, h0, outputs, g.shape[1], size)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, h0, outputs)
        ctx.phi = phi
        return outputs, outputs[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, from_outputs: Tensor | None, from_final: Tensor | None) -> tuple:
        w, h0, outputs = ctx.saved_tensors
        from_outputs, carried = gradient(from_outputs, outputs), gradient(from_final, h0).clone()
        delta, w_gradient = torch.empty_like(outputs), torch.empty_like(w)
        parts = w, h0, outputs, from_outputs, carried, delta, w_gradient
        launch_chains(_backward, w.numel(), ctx.phi, *parts, outputs.shape[1], h0[0].numel())
        return None, w_gradient, delta, carried


@engine("indrnn")
def indrnn(weights, state, u):
    """IndRNN, section 3 of Li et al.; shapes as in `lib.cells.Cell.forward`, with runs or without."""
    layers, phi = weights
    check_hidden("indrnn", state, layers[0].w.shape[-1])
    below, final = u, []
    for (W, w, b), h0 in zip(layers, state, strict=True):
        g = drive("indrnn", below, W, b)
        below, h = _Layer.apply(PHI[phi], per_chain(w, h0), g, h0.contiguous())
        final.append(h)
    return below, tuple(final)
