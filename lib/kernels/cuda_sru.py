r"""SRU on the GPU, a layer at a time: one thread for each neuron of each sequence of each run.

Forward and adjoint are those of `lib.kernels.cpu_sru`, with q for its candidate :math:`\tilde x` and x for the highway :math:`k`. The
drives of f, q and r are the blocks of one array g; q has no bias.

Stored: g, x and c. Recomputed: f and r, off the critical path.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, device, kernel, launch_chains, real
from lib.kernels._cuda_device import ONE, origin, pipelined, sigmoid
from lib.kernels._cuda_engine import check_hidden, drive, engine, gradient, per_chain


@device
def _fetch(arrays, t):
    g, x, _, _, at, size, gates, d = arrays
    there = gates + 3 * t * size
    return g[there], g[there + d], g[there + 2 * d], x[at + t * size]


@device
def _step(neuron, c, inputs, arrays, t):
    v_f, v_r = neuron
    g_f, q, g_r, x = inputs
    _, _, states, outputs, at, size, _, _ = arrays
    f, r = sigmoid(g_f + v_f * c), sigmoid(g_r + v_r * c)
    c = f * c + (ONE - f) * q
    states[at + t * size] = c
    outputs[at + t * size] = r * c + (ONE - r) * x
    return c


_steps = pipelined(_fetch, _step)


@device
def _gates(i, T, size, d):
    """Return where the drives of a chain begin in (run, time, batch, 3 d)."""
    within = i % size
    return 3 * (i // size * T * size + within // d * d) + within % d


@kernel
def _forward(v_f, v_r, g, x, c0, states, outputs, T, size, d, chains):
    i = cuda.grid(1)
    if i < chains:
        arrays = g, x, states, outputs, origin(i, T, size), size, _gates(i, T, size, d), d
        _steps((v_f[i], v_r[i]), c0[i], arrays, T)


@device
def _adjoint_fetch(arrays, n):
    g, x, states, from_outputs, _, _, end, size, gates, d = arrays
    here, there = end - n * size, gates - 3 * n * size
    gate = g[there], g[there + d], g[there + 2 * d]
    return gate, x[here], states[here - size], from_outputs[here]


@device
def _adjoint_step(neuron, state, inputs, arrays, n):
    """The state holds what arrives at c from the step after, and the sums for the gradients of v_f and v_r."""
    v_f, v_r = neuron
    back, f_sum, r_sum = state
    (g_f, q, g_r), x, before, arrived = inputs
    _, _, _, _, delta, x_gradient, end, size, gates, d = arrays
    f, r = sigmoid(g_f + v_f * before), sigmoid(g_r + v_r * before)
    c = f * before + (ONE - f) * q
    lambda_ = arrived * r + back
    d_f = lambda_ * (before - q) * f * (ONE - f)
    d_r = arrived * (c - x) * r * (ONE - r)
    there = gates - 3 * n * size
    delta[there], delta[there + d], delta[there + 2 * d] = d_f, lambda_ * (ONE - f), d_r
    x_gradient[end - n * size] = arrived * (ONE - r)
    return f * lambda_ + v_f * d_f + v_r * d_r, f_sum + d_f * before, r_sum + d_r * before


_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward(
    v_f, v_r, g, x, c0, states, from_outputs, carried, delta, x_gradient, f_sum, r_sum, T, size, d, chains
):  # fmt: skip
    """`carried` is the gradient of the final c and becomes that of the initial one."""
    i = cuda.grid(1)
    if i < chains:
        neuron, at, gates = (v_f[i], v_r[i]), origin(i, T, size), _gates(i, T, size, d)
        end, last = at + (T - 1) * size, gates + 3 * (T - 1) * size
        arrays = g, x, states, from_outputs, delta, x_gradient, end, size, last, d
        state = _adjoint_steps(neuron, (carried[i], real(0), real(0)), arrays, T - 1)
        # What came before the first step is not among the states.
        first = (g[gates], g[gates + d], g[gates + 2 * d]), x[at], c0[i], from_outputs[at]
        carried[i], f_sum[i], r_sum[i] = _adjoint_step(neuron, state, first, arrays, T - 1)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v_f, v_r, g, x, c0) -> tuple[Tensor, ...]:
        states, outputs = torch.empty_like(x), torch.empty_like(x)
        sizes = g.shape[1], c0[0].numel(), c0.shape[2]
        launch_chains(_forward, c0.numel(), v_f, v_r, g, x, c0, states, outputs, *sizes)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(v_f, v_r, g, x, c0, states)
        ctx.sizes = sizes
        return outputs, states[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, from_outputs: Tensor | None, from_final: Tensor | None) -> tuple:
        v_f, v_r, g, x, c0, _ = saved = ctx.saved_tensors
        from_outputs, carried = gradient(from_outputs, x), gradient(from_final, c0).clone()
        delta, x_gradient, f_sum, r_sum = (torch.empty_like(part) for part in (g, x, v_f, v_r))
        found = carried, delta, x_gradient, f_sum, r_sum
        launch_chains(_backward, c0.numel(), *saved, from_outputs, *found, *ctx.sizes)
        return f_sum, r_sum, delta, x_gradient, carried


@engine("sru")
def sru(weights, state, u):
    """SRU, section 3 of Lei et al.; shapes as in `lib.cells.Cell.forward`, with runs or without."""
    layers, alpha = weights
    check_hidden("sru", state, layers[0].v.shape[-1] // 2)
    below, final = u, []
    for (W, v, b, skip), c0 in zip(layers, state[:-1], strict=True):
        (v_f, v_r), (b_f, b_r) = v.chunk(2, dim=-1), b.chunk(2, dim=-1)
        g = drive("sru", below, W, torch.cat([b_f, torch.zeros_like(b_f), b_r], dim=-1))
        carried = below if skip is None else drive("sru", below, skip)
        x = (alpha if not isinstance(alpha, Tensor) else alpha.to(g)[:, None, None, None]) * carried
        x = x.expand(*g.shape[:3], -1).contiguous()
        below, c = _Layer.apply(per_chain(v_f, c0), per_chain(v_r, c0), g, x, c0.contiguous())
        final.append(c)
    return below, (*final, below[:, -1])
