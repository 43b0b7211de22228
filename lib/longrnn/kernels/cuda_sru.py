r"""SRU on the GPU, a layer at a time: one thread for each neuron of each sequence.

Forward and adjoint are those of `longrnn.kernels.cpu_sru`, with q for its candidate :math:`\tilde
x` and x for the highway :math:`k`. The drives of f, q and r are the blocks of one array g; q has no
bias.

Stored: g, x and c. Recomputed: f and r, off the critical path.
"""

import torch

from longrnn.kernels._cuda import cuda, device, engine, kernel, launch_chains, real
from longrnn.kernels._cuda_device import ONE, pipelined, shared
from longrnn.kernels._recurrence import Recurrence, drive, per_chain
from longrnn.kernels.cpu_sru import pull_back, reference, step

_gated, _pull_back = shared(step), shared(pull_back)


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
    _, r, c = _gated(v_f, v_r, g_f, q, g_r, c)
    states[at + t * size] = c
    outputs[at + t * size] = r * c + (ONE - r) * x
    return c


_steps = pipelined(_fetch, _step)


@kernel
def _forward_kernel(v_f, v_r, g, x, c0, states, outputs, T, d, chains):
    i = cuda.grid(1)
    if i < chains:
        arrays = g, x, states, outputs, i, chains, 3 * (i // d * d) + i % d, d
        _steps((v_f[i], v_r[i]), c0[i], arrays, T)


@device
def _adjoint_fetch(arrays, n):
    g, x, states, from_outputs, _, _, end, size, gates, d = arrays
    here, there = end - n * size, gates - 3 * n * size
    gate = g[there], g[there + d], g[there + 2 * d]
    return gate, x[here], states[here - size], from_outputs[here]


@device
def _adjoint_step(neuron, state, inputs, arrays, n):
    """The state is c's gradient from the step after and the sums for v_f's and v_r's gradients."""
    v_f, v_r = neuron
    back, f_sum, r_sum = state
    (g_f, q, g_r), x, before, arrived = inputs
    _, _, _, _, delta, x_gradient, end, size, gates, d = arrays
    f, r, c = _gated(v_f, v_r, g_f, q, g_r, before)
    d_f, d_q, d_r, d_x, through = _pull_back((f, r), (q, x), before, c, arrived, back)
    there = gates - 3 * n * size
    delta[there], delta[there + d], delta[there + 2 * d] = d_f, d_q, d_r
    x_gradient[end - n * size] = d_x
    return through + v_f * d_f + v_r * d_r, f_sum + d_f * before, r_sum + d_r * before


_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward_kernel(
    v_f, v_r, g, x, c0, states, from_outputs, carried, delta, x_gradient, f_sum, r_sum, T, d, chains
):  # fmt: skip
    """`carried` is the gradient of the final c and becomes that of the initial one."""
    i = cuda.grid(1)
    if i < chains:
        neuron, gates = (v_f[i], v_r[i]), 3 * (i // d * d) + i % d  # where the drives begin
        end, last = i + (T - 1) * chains, gates + 3 * (T - 1) * chains
        arrays = g, x, states, from_outputs, delta, x_gradient, end, chains, last, d
        state = _adjoint_steps(neuron, (carried[i], real(0), real(0)), arrays, T - 1)
        # What came before the first step is not among the states.
        first = (g[gates], g[gates + d], g[gates + 2 * d]), x[i], c0[i], from_outputs[i]
        carried[i], f_sum[i], r_sum[i] = _adjoint_step(neuron, state, first, arrays, T - 1)


def _forward(g, x, v_f, v_r, c0, outputs, c_end, c):
    launch_chains(_forward_kernel, c0.numel(), v_f, v_r, g, x, c0, c, outputs, len(x), c0.shape[1])
    c_end.copy_(c[-1])


def _backward(g, x, v_f, v_r, c0, c, from_outputs, carried):
    of_g, of_x, of_v_f, of_v_r = (torch.empty_like(part) for part in (g, x, v_f, v_r))
    states = v_f, v_r, g, x, c0, c, from_outputs, carried
    gradients = of_g, of_x, of_v_f, of_v_r
    launch_chains(_backward_kernel, c0.numel(), *states, *gradients, len(x), c0.shape[1])
    return of_g, of_x, of_v_f, of_v_r, carried


def _reference(g, x, v_f, v_r, c0):
    g_f, candidate, g_r = g.chunk(3, dim=-1)
    return reference(g_f, candidate, g_r, x, v_f, v_r, c0)


_SRU = Recurrence(
    "sru_cuda",
    inputs="g:1 x:1 v_f:0 v_r:0 c0:0",
    results="outputs c_end c",
    saved="g x v_f v_r c0 c",
    shapes=lambda a: [a.x.shape, a.c0.shape, a.x.shape],
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
)


@engine("sru", runs=True)
def sru(weights, state, u):
    """Run SRU, section 3 of Lei et al.; shapes as in `longrnn.cells.Cell.forward`."""
    layers, alpha = weights
    below = u
    final = []
    for (W, v, b, skip), c0 in zip(layers, state[:-1], strict=True):
        v_f, v_r = (per_chain(part, c0) for part in v.chunk(2))
        b_f, b_r = b.chunk(2)
        g = drive(below, W, torch.cat([b_f, torch.zeros_like(b_f), b_r]))
        highway = alpha * (below if skip is None else drive(below, skip))
        below, (c,) = _SRU(g, highway.contiguous(), v_f, v_r, c0)
        final.append(c)
    return below, (*final, below[-1].clone())
