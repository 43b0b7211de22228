r"""SRU on the GPU, one layer at a time: one thread per neuron and sequence.

The forward and adjoint equations are those of `longrnn.kernels.cpu_sru`, with q for its candidate
:math:`\tilde x` and :math:`\alpha x` for the highway :math:`k`. The drives of f, q and r are the
blocks of one array g (time, batch, 3 d), to which the kernels add the biases of f and r.

Stored: g, x and c. Recomputed: f and r, off the critical path.
"""

from typing import NamedTuple

import torch

from longrnn.kernels._cuda import cuda, engine, inlined_late
from longrnn.kernels._cuda_chains import chains_per_run
from longrnn.kernels._cuda_chains_device import neuron_of
from longrnn.kernels._cuda_device import ONE, ZERO, device_version
from longrnn.kernels._cuda_kernel import arriving, kernel, real
from longrnn.kernels._cuda_launch import is_present, launch_chains
from longrnn.kernels._cuda_pipeline import pipelined
from longrnn.kernels._cuda_sums import sum_over_batch
from longrnn.kernels._drive import drive
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import broadcast_over_sequences
from longrnn.kernels.cpu_sru import pull_back, reference, step

_gates_and_state = device_version(step)
_pull_back = device_version(pull_back)

last = 0
"""Compile-time constant: whether a gradient of the final state h arrives."""


class _Arrays(NamedTuple):
    """Arrays of the forward kernel, and where the numbers of a chain are in them."""

    g: object
    x: object
    states: object
    outputs: object
    chain: int
    """Offset of the first time in x, `states` and `outputs`."""
    chains: int
    """Distance between two times there."""
    drives: int
    """Offset of the first time in g, which is 3 d wide. Its blocks are d apart."""
    d: int


@inlined_late
def _fetch(arrays, t):
    g = arrays.g
    drive = arrays.drives + 3 * t * arrays.chains
    x_t = arrays.x[arrays.chain + t * arrays.chains]
    return g[drive], g[drive + arrays.d], g[drive + 2 * arrays.d], x_t


@inlined_late
def _step(neuron, state, inputs, arrays, t):
    """Take one step; the state is c and the output, which no step reads."""
    v_f, v_r, b_f, b_r, alpha = neuron
    g_f, q, g_r, x = inputs
    c, _ = state
    _, r, c = _gates_and_state(v_f, v_r, g_f + b_f, q, g_r + b_r, c)
    output = r * c + (ONE - r) * (alpha * x)
    index = arrays.chain + t * arrays.chains
    arrays.states[index] = c
    arrays.outputs[index] = output
    return c, output


_run_steps = pipelined(_fetch, _step)


@kernel
def _forward_kernel(
    g, x, v, b, c0, outputs, c_end, h_end, states, alpha, T, d, run_chains, chains
):  # fmt: skip
    """Run all steps of a chain; `states` (time, batch, d) receives c after every step."""
    i = cuda.grid(1)
    if i < chains:
        j = i % d
        first = 2 * neuron_of(i, d, run_chains) - j  # weights are (2 d,), in the order f r
        neuron = v[first], v[d + first], b[first], b[d + first], alpha
        arrays = _Arrays(g, x, states, outputs, i, chains, 3 * (i - j) + j, d)
        c_end[i], h_end[i] = _run_steps(neuron, (c0[i], real(0)), arrays, T)


class _AdjointArrays(NamedTuple):
    """Arrays of the backward kernel, and where the numbers of a chain are in them.

    The backward kernel counts its steps n from the last time.
    """

    g: object
    x: object
    states: object
    grad_outputs: object
    delta: object
    grad_x: object
    end: int
    """Offset of the last time in the arrays that are d wide."""
    chains: int
    """Distance between two times there."""
    drives_end: int
    """Offset of the last time in g and `delta`, which are 3 d wide."""
    d: int
    arriving: int
    last: int


@inlined_late
def _adjoint_fetch(arrays, n):
    index = arrays.end - n * arrays.chains
    drive = arrays.drives_end - 3 * n * arrays.chains
    drives = arrays.g[drive], arrays.g[drive + arrays.d], arrays.g[drive + 2 * arrays.d]
    arrived = ZERO
    if arrays.arriving:
        arrived = arrays.grad_outputs[index]
    return drives, arrays.x[index], arrays.states[index - arrays.chains], arrived


@inlined_late
def _adjoint_step(neuron, state, inputs, arrays, n):
    """Backpropagate through one step.

    The state is the gradient of c from the step after, the gradient of the final state h, which
    only the first call uses, and the sums for the gradients of v and b.
    """
    v_f, v_r, b_f, b_r, alpha, zero = neuron
    back, grad_last, vf_sum, vr_sum, bf_sum, br_sum = state
    (g_f, q, g_r), x, before, arrived = inputs
    if arrays.last:
        arrived = arrived + grad_last
    f, r, c = _gates_and_state(v_f, v_r, g_f + b_f, q, g_r + b_r, before)
    d_f, d_q, d_r, d_x, through = _pull_back((f, r), (q, alpha * x), before, c, arrived, back)
    drive = arrays.drives_end - 3 * n * arrays.chains
    arrays.delta[drive] = d_f
    arrays.delta[drive + arrays.d] = d_q
    arrays.delta[drive + 2 * arrays.d] = d_r
    arrays.grad_x[arrays.end - n * arrays.chains] = alpha * d_x
    back = through + v_f * d_f + v_r * d_r
    vf_sum = vf_sum + d_f * before
    vr_sum = vr_sum + d_r * before
    return back, zero, vf_sum, vr_sum, bf_sum + d_f, br_sum + d_r


run_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)
"""Compile-time constant: how the backward kernel goes through the steps."""
_RUN_IN_FLOAT64 = pipelined(_adjoint_fetch, _adjoint_step, ahead=8)
"""The same for float64: the inputs of 16 steps would need more than 255 registers of a thread."""


@kernel
def _backward_kernel(
    g, x, v, b, c0, states, grad_outputs, grad_c_end, grad_h_end, delta, grad_x, grad_c0, stored,
    has_c_end, alpha, T, d, run_chains, chains,
):  # fmt: skip
    """Backpropagate through all steps of a chain.

    `stored` (2, batch, 2 d) receives sums over time for the gradients of v and b.
    """
    i = cuda.grid(1)
    if i < chains:
        j = i % d
        zero = real(0)
        first = 2 * neuron_of(i, d, run_chains) - j  # weights are (2 d,), in the order f r
        neuron = v[first], v[d + first], b[first], b[d + first], alpha, zero
        drives = 3 * (i - j) + j
        arrays = _AdjointArrays(
            g, x, states, grad_outputs, delta, grad_x,
            i + (T - 1) * chains, chains, drives + 3 * (T - 1) * chains, d, arriving, last,
        )  # fmt: skip
        back = zero
        if has_c_end:
            back = grad_c_end[i]
        grad_last = zero
        if last:
            grad_last = grad_h_end[i]
        state = back, grad_last, zero, zero, zero, zero
        state = run_adjoint_steps(neuron, state, arrays, T - 1)
        # The first step: the state before it is not among the states.
        arrived = ZERO
        if arriving:
            arrived = grad_outputs[i]
        inputs = (g[drives], g[drives + d], g[drives + 2 * d]), x[i], c0[i], arrived
        state = _adjoint_step(neuron, state, inputs, arrays, T - 1)
        grad_c0[i], _, vf_sum, vr_sum, bf_sum, br_sum = state
        grad_v = 2 * (i - j) + j
        grad_b = grad_v + 2 * chains
        stored[grad_v] = vf_sum
        stored[grad_v + d] = vr_sum
        stored[grad_b] = bf_sum
        stored[grad_b + d] = br_sum


def _forward(alpha, g, x, v, b, c0, outputs, c_end, h_end, c):
    tensors = g, x, v, b, c0, outputs, c_end, h_end, c
    numbers = alpha, len(x), c0.shape[1], chains_per_run(c0, v, vectors=2)
    launch_chains(_forward_kernel, c0.numel(), *tensors, *numbers)


def _backward(alpha, g, x, v, b, c0, c, grad_outputs, grad_c_end, grad_h_end):
    batch, d = c0.shape
    grad_g = torch.empty_like(g)
    grad_x = torch.empty_like(x)
    grad_c0 = torch.empty_like(c0)
    stored = c0.new_empty(2, batch, 2 * d)
    run_steps = run_adjoint_steps
    if c0.dtype == torch.float64:
        run_steps = _RUN_IN_FLOAT64
    launch_chains(
        _backward_kernel,
        c0.numel(),
        *(g, x, v, b, c0, c, grad_outputs, grad_c_end, grad_h_end, grad_g, grad_x, grad_c0, stored),
        *(is_present(grad_c_end), alpha, len(x), d, chains_per_run(c0, v, vectors=2)),
        arriving=is_present(grad_outputs),
        last=is_present(grad_h_end),
        run_adjoint_steps=run_steps,
    )
    grad_v, grad_b, _ = sum_over_batch(stored, 2, v)
    return grad_g, grad_x, grad_v, grad_b, grad_c0


def _reference(alpha, g, x, v, b, c0):
    g_f, candidate, g_r = g.chunk(3, dim=-1)
    v_f, v_r = (broadcast_over_sequences(part, c0) for part in v.chunk(2, dim=-1))
    b_f, b_r = (broadcast_over_sequences(part, c0) for part in b.chunk(2, dim=-1))
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
    takes_networks=True,
)


@engine("sru", takes_networks=True)
def sru(weights, state, u):
    """Run SRU, section 3 of Lei et al. 2018.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.sru.SRUCore.step`.
    state : tuple of (batch, d)
        (c^1, .., c^L, h^L) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        h^L after every input.
    state : tuple of (batch, d)
        (c^1, .., c^L, h^L) after the last input.
    """
    layers, alpha = weights
    below = u
    final = []
    for (W, v, b, skip), c0 in zip(layers, state[:-1], strict=True):
        if skip is None:
            highway = below.contiguous()
        else:
            highway = drive(below, skip)
        below, (c, h) = _SRU(float(alpha), drive(below, W), highway, v, b, c0)
        final.append(c)
    return below, (*final, h)
