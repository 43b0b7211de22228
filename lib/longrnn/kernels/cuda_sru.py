r"""SRU on the GPU, a layer at a time: one thread for each neuron of each sequence.

Forward and adjoint are those of `longrnn.kernels.cpu_sru`, with q for its candidate :math:`\tilde
x` and :math:`\alpha x` for the highway :math:`k`. The drives of f, q and r are the blocks of one
array g, to which the kernels add the biases of f and r.

Stored: g, x and c. Recomputed: f and r, off the critical path.
"""

import torch

from longrnn.kernels._cuda import cuda, engine, flag, kernel, launch_chains, real, repeated
from longrnn.kernels._cuda_chains import (
    chains_per_run,
    of_sequences,
    place_of_weights,
    sum_over_batch,
)
from longrnn.kernels._cuda_device import ONE, ZERO, pipelined, shared
from longrnn.kernels._recurrence import Recurrence, drive
from longrnn.kernels.cpu_sru import pull_back, reference, step

_gated, _pull_back = shared(step), shared(pull_back)

arriving = last = 0
"""Compile-time constants: whether gradients of the outputs and of the last one arrive."""


@repeated
def _fetch(arrays, t):
    g, x, _, _, at, size, gates, d = arrays
    there = gates + 3 * t * size
    return g[there], g[there + d], g[there + 2 * d], x[at + t * size]


@repeated
def _step(neuron, state, inputs, arrays, t):
    """The state is c and the output, which no step reads."""
    v_f, v_r, b_f, b_r, alpha = neuron
    g_f, q, g_r, x = inputs
    c, _ = state
    _, _, states, outputs, at, size, _, _ = arrays
    _, r, c = _gated(v_f, v_r, g_f + b_f, q, g_r + b_r, c)
    output = r * c + (ONE - r) * (alpha * x)
    states[at + t * size] = c
    outputs[at + t * size] = output
    return c, output


_steps = pipelined(_fetch, _step)


@kernel
def _forward_kernel(
    g, x, v, b, c0, outputs, c_end, h_end, states, alpha, T, d, run_chains, chains
):  # fmt: skip
    i = cuda.grid(1)
    if i < chains:
        column = i % d
        own = 2 * place_of_weights(i, d, run_chains) - column
        neuron = v[own], v[d + own], b[own], b[d + own], alpha
        arrays = g, x, states, outputs, i, chains, 3 * (i - column) + column, d
        c_end[i], h_end[i] = _steps(neuron, (c0[i], real(0)), arrays, T)


@repeated
def _adjoint_fetch(arrays, n):
    g, x, states, from_outputs, _, _, end, size, gates, d, arriving, _ = arrays
    here, there = end - n * size, gates - 3 * n * size
    gate = g[there], g[there + d], g[there + 2 * d]
    return gate, x[here], states[here - size], from_outputs[here] if arriving else ZERO


@repeated
def _adjoint_step(neuron, state, inputs, arrays, n):
    """Pull the state's gradients back over a step.

    The state holds the gradient of c from the step after, that of the last output by itself, which
    the first call uses up, and the sums for the gradients of v and b.
    """
    v_f, v_r, b_f, b_r, alpha, nothing = neuron
    back, from_last, vf_sum, vr_sum, bf_sum, br_sum = state
    (g_f, q, g_r), x, before, arrived = inputs
    _, _, _, _, delta, x_gradient, end, size, gates, d, _, last = arrays
    if last:
        arrived = arrived + from_last
    f, r, c = _gated(v_f, v_r, g_f + b_f, q, g_r + b_r, before)
    d_f, d_q, d_r, d_x, through = _pull_back((f, r), (q, alpha * x), before, c, arrived, back)
    there = gates - 3 * n * size
    delta[there], delta[there + d], delta[there + 2 * d] = d_f, d_q, d_r
    x_gradient[end - n * size] = alpha * d_x
    back = through + v_f * d_f + v_r * d_r
    v_sums = vf_sum + d_f * before, vr_sum + d_r * before
    return back, nothing, *v_sums, bf_sum + d_f, br_sum + d_r


_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward_kernel(
    g, x, v, b, c0, states, from_outputs, from_c_end, from_h_end, delta, x_gradient, of_c0, stored,
    has_c_end, alpha, T, d, run_chains, chains,
):  # fmt: skip
    """`stored` (2, batch, 2 d) receives sums for the gradients of v and b."""
    i = cuda.grid(1)
    if i < chains:
        column, zero = i % d, real(0)
        own = 2 * place_of_weights(i, d, run_chains) - column
        neuron = v[own], v[d + own], b[own], b[d + own], alpha, zero
        gates = 3 * (i - column) + column  # where the drives begin
        end, last_gates = i + (T - 1) * chains, gates + 3 * (T - 1) * chains
        out = delta, x_gradient, end, chains, last_gates, d
        arrays = g, x, states, from_outputs, *out, arriving, last
        back = from_c_end[i] if has_c_end else zero
        state = back, from_h_end[i] if last else zero, zero, zero, zero, zero
        state = _adjoint_steps(neuron, state, arrays, T - 1)
        # What came before the first step is not among the states.
        arrived = from_outputs[i] if arriving else ZERO
        first = (g[gates], g[gates + d], g[gates + 2 * d]), x[i], c0[i], arrived
        state = _adjoint_step(neuron, state, first, arrays, T - 1)
        of_c0[i], _, vf_sum, vr_sum, bf_sum, br_sum = state
        place, halves = 2 * (i - column) + column, 2 * chains
        stored[place], stored[place + d] = vf_sum, vr_sum
        stored[halves + place], stored[halves + place + d] = bf_sum, br_sum


def _forward(alpha, g, x, v, b, c0, outputs, c_end, h_end, c):
    tensors = g, x, v, b, c0, outputs, c_end, h_end, c
    numbers = alpha, len(x), c0.shape[1], chains_per_run(c0, v, vectors=2)
    launch_chains(_forward_kernel, c0.numel(), *tensors, *numbers)


def _backward(alpha, g, x, v, b, c0, c, from_outputs, from_c_end, from_h_end):
    batch, d = c0.shape
    of_g, of_x, of_c0 = torch.empty_like(g), torch.empty_like(x), torch.empty_like(c0)
    stored = c0.new_empty(2, batch, 2 * d)
    launch_chains(
        _backward_kernel,
        c0.numel(),
        *(g, x, v, b, c0, c, from_outputs, from_c_end, from_h_end, of_g, of_x, of_c0, stored),
        *(flag(from_c_end), alpha, len(x), d, chains_per_run(c0, v, vectors=2)),
        arriving=flag(from_outputs),
        last=flag(from_h_end),
    )
    of_v, of_b, _ = sum_over_batch(stored, 2, v)
    return of_g, of_x, of_v, of_b, of_c0


def _reference(alpha, g, x, v, b, c0):
    g_f, candidate, g_r = g.chunk(3, dim=-1)
    v_f, v_r = (of_sequences(part, c0) for part in v.chunk(2, dim=-1))
    b_f, b_r = (of_sequences(part, c0) for part in b.chunk(2, dim=-1))
    outputs, (c,) = reference(g_f + b_f, candidate, g_r + b_r, alpha * x, v_f, v_r, c0)
    return outputs, (c, outputs[-1])


_SRU = Recurrence(
    "sru_cuda",
    settings="float alpha",
    inputs="g:1 x:1 v b c0:0",
    results="outputs c_end h_end c",
    final=2,
    saved="g x v b c0 c",
    shapes=lambda a: [a.x.shape, a.c0.shape, a.c0.shape, a.x.shape],
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
    runs=True,
)


@engine("sru", runs=True)
def sru(weights, state, u):
    """Run SRU, section 3 of Lei et al.; shapes as in `longrnn.cells.Cell.forward`."""
    layers, alpha = weights
    below = u
    final = []
    for (W, v, b, skip), c0 in zip(layers, state[:-1], strict=True):
        highway = below.contiguous() if skip is None else drive(below, skip)
        below, (c, h) = _SRU(alpha, drive(below, W), highway, v, b, c0)
        final.append(c)
    return below, (*final, h)
