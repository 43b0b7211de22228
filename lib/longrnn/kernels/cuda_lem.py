r"""LEM on the GPU: one block per group of sequences, one thread per hidden unit.

The forward and adjoint equations, and the names, are those of `longrnn.kernels.cpu_lem`, for (3)
of Rusch et al. 2022. The drive ``g`` and its gradient ``delta`` are one array each, with the blocks
1 2 z y. With a single scale (Table 9) the weights of the gates are zero and their drives are
infinite, so that both gates are 1 and their derivatives are 0.

The states are in shared memory, and neighboring threads read neighboring weights, as in
`longrnn.kernels.cuda_rnn`. Each time step needs two barriers, because y depends on all units of z.
One launch takes several runs, whose batches follow one another. `longrnn.kernels._cuda_dense`
explains the indices.

Stored for the backward pass: y (the output), z, and in the array ``gates`` both gates and both
targets. Recomputed: the time steps, which the kernels for the CPU store instead of the gates.
"""

from functools import partial

import numpy as np
import torch

from longrnn.kernels import _cuda_gates, cuda_persistent_lem
from longrnn.kernels._cuda import cuda, engine
from longrnn.kernels._cuda_dense import (
    dot_products,
    load_gradients,
    load_vectors,
    run_of,
    set_offsets_in_run,
    state_before,
    store_vectors,
)
from longrnn.kernels._cuda_device import ZERO, load_or_zero, sigmoid, tanh
from longrnn.kernels._cuda_gates import add_infinite_gates, clip_step, relax, relax_adjoint
from longrnn.kernels._cuda_kernel import arriving, d, many_registers, real, tile
from longrnn.kernels._cuda_launch import is_present, launch_runs, most_units
from longrnn.kernels._cuda_persistent import is_persistent
from longrnn.kernels._drive import Sources
from longrnn.kernels._products import state_products, sums_of_products
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels.cpu_lem import step_bounds

_BUFFERS = 7
"""Vectors in shared memory of the backward kernel. The forward kernel gets as many and uses two."""


@many_registers  # otherwise registers spill in float64
def _forward_kernel(
    W_T, W_y_T, g, y0, z0, y, y_end, z_end, z, gates, dt, least, most, T, sequences, batch
):  # fmt: skip
    """Run all steps of the sequences of a block.

    `W_T` (d, 3 d) and `W_y_T` (d, d) are transposed, one after the other for all runs. There are
    `sequences` per run, together `batch`. `g` (time, batch, 4 d) is the drive, in the order 1 2 z
    y. `y` and `z` are (time, batch, d), the initial and final states (batch, d). `gates` (time,
    batch, 4 d) gets gate_z, gate_y, target_z and target_y.

    A step has two halves, with a product each. The first computes both gates and z from y, the
    second y from z.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_1 = cuda.local.array(tile, real)
    g_2 = cuda.local.array(tile, real)
    g_z = cuda.local.array(tile, real)
    g_y = cuda.local.array(tile, real)
    a_1 = cuda.local.array(tile, real)
    a_2 = cuda.local.array(tile, real)
    a_z = cuda.local.array(tile, real)
    a_y = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    W_start = run * 3 * d * d
    W_y_start = run * d * d
    memory = cuda.shared.array(0, real)
    y_at = 0  # (d, tile)
    z_at = d * tile  # (d, tile)
    load_vectors(memory, y_at, y0, offsets, thread, threads, d)
    load_vectors(memory, z_at, z0, offsets, thread, threads, d)
    cuda.syncthreads()  # the initial states are complete
    base = 0  # offset of the time step in arrays that are d wide
    for _ in range(T):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the products, which hide the latency
                k = 4 * (base + offsets[i]) + j
                g_1[i] = g[k]
                g_2[i] = g[k + d]
                g_z[i] = g[k + 2 * d]
            dot_products(a_1, W_T, W_start + j, 3 * d, memory, y_at, d)
            dot_products(a_2, W_T, W_start + d + j, 3 * d, memory, y_at, d)
            dot_products(a_z, W_T, W_start + 2 * d + j, 3 * d, memory, y_at, d)
            for i in range(tile):
                slot = z_at + j * tile + i
                k = 4 * (base + offsets[i]) + j
                gate_z = sigmoid(a_1[i] + g_1[i])
                gate_y = sigmoid(a_2[i] + g_2[i])
                target_z = tanh(a_z[i] + g_z[i])
                gates[k] = gate_z
                gates[k + d] = gate_y
                gates[k + 2 * d] = target_z
                value = relax(clip_step(dt * gate_z, least, most), memory[slot], target_z)
                memory[slot] = value
                z[base + offsets[i] + j] = value
            j += threads
        cuda.syncthreads()  # z is complete, and y is read
        j = thread
        while j < d:
            for i in range(tile):
                g_y[i] = g[4 * (base + offsets[i]) + 3 * d + j]
            dot_products(a_y, W_y_T, W_y_start + j, d, memory, z_at, d)
            for i in range(tile):
                slot = y_at + j * tile + i
                k = 4 * (base + offsets[i]) + j
                gate_y = gates[k + d]  # which this thread wrote above
                target_y = tanh(a_y[i] + g_y[i])
                gates[k + 3 * d] = target_y
                value = relax(clip_step(dt * gate_y, least, most), memory[slot], target_y)
                memory[slot] = value
                y[base + offsets[i] + j] = value
            j += threads
        cuda.syncthreads()  # y is complete, and z is read
        base += batch * d
    store_vectors(y_end, memory, y_at, offsets, thread, threads, d)
    store_vectors(z_end, memory, z_at, offsets, thread, threads, d)


@many_registers  # otherwise a register spills at width 1,024
def _backward_kernel(
    W, W_y, y0, z0, y, z, gates, grad_y, grad_y_end, grad_z_end, delta, grad_y0, grad_z0,
    has_y_end, has_z_end, dt, least, most, T, sequences, batch,
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    `W` (3 d, d) and `W_y` (d, d) are stored one after the other for all runs. `y`, `z` and `gates`
    are what the forward kernel wrote. `grad_y` (time, batch, d), `grad_y_end` and `grad_z_end`
    (batch, d) arrive, or are absent. `delta` (time, batch, 4 d) gets the gradients with respect to
    the drives, in the order 1 2 z y. `grad_y0` and `grad_z0` (batch, d) get those with respect to
    the initial state.

    A step has the halves of a forward step in reverse order. The first goes from the gradient of y
    to delta_2 and delta_y, the second from that of z to delta_1 and delta_z. What a step passes to
    the y before it through W is computed at the start of the next round of the loop.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    gate = cuda.local.array(tile, real)
    target = cuda.local.array(tile, real)
    before = cuda.local.array(tile, real)
    arrived = cuda.local.array(tile, real)
    total = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    W_start = run * 3 * d * d
    W_y_start = run * d * d
    memory = cuda.shared.array(0, real)
    delta_12z_at = 0  # (3 d, tile)
    delta_y_at = 3 * d * tile  # (d, tile), as all vectors that follow
    # Only the thread that wrote the other vectors reads them: lambda and mu, the parts of the
    # gradients with respect to the previous y and z that bypass the gates; and delta_2, which waits
    # here until all threads have read delta_12z of the later step.
    lambda_at = 4 * d * tile
    mu_at = 5 * d * tile
    delta_2_at = 6 * d * tile
    load_gradients(memory, lambda_at, grad_y_end, has_y_end, offsets, thread, threads, d)
    load_gradients(memory, mu_at, grad_z_end, has_z_end, offsets, thread, threads, d)
    base = (T - 1) * batch * d  # offset of the time step in arrays that are d wide
    for n in range(T - 1, -1, -1):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the product, which hides the latency
                index = base + offsets[i] + j
                k = 4 * (base + offsets[i]) + j
                gate[i] = gates[k + d]
                target[i] = gates[k + 3 * d]
                arrived[i] = load_or_zero(grad_y, index, arriving)
                before[i] = state_before(y, index - batch * d, y0, offsets[i] + j, n)
                total[i] = ZERO
            if n < T - 1:
                dot_products(total, W, W_start + j, d, memory, delta_12z_at, 3 * d)
            for i in range(tile):
                slot = j * tile + i
                k = 4 * (base + offsets[i]) + j
                gate_y = gate[i]
                gradient = arrived[i] + memory[lambda_at + slot] + total[i]
                step_y = dt * gate_y
                clipped = clip_step(step_y, least, most)
                d_y, d_2, direct = relax_adjoint(
                    gate_y, step_y, clipped, before[i], target[i], gradient
                )
                memory[delta_2_at + slot] = d_2
                memory[delta_y_at + slot] = d_y
                memory[lambda_at + slot] = direct
                delta[k + d] = d_2
                delta[k + 3 * d] = d_y
            j += threads
        cuda.syncthreads()  # delta_y is complete, and delta_12z of the later step is read
        j = thread
        while j < d:
            for i in range(tile):
                index = base + offsets[i] + j
                k = 4 * (base + offsets[i]) + j
                gate[i] = gates[k]
                target[i] = gates[k + 2 * d]
                before[i] = state_before(z, index - batch * d, z0, offsets[i] + j, n)
            dot_products(total, W_y, W_y_start + j, d, memory, delta_y_at, d)
            for i in range(tile):
                slot = j * tile + i
                k = 4 * (base + offsets[i]) + j
                gate_z = gate[i]
                gradient = memory[mu_at + slot] + total[i]
                step_z = dt * gate_z
                clipped = clip_step(step_z, least, most)
                d_z, d_1, direct = relax_adjoint(
                    gate_z, step_z, clipped, before[i], target[i], gradient
                )
                memory[delta_12z_at + slot] = d_1
                memory[delta_12z_at + d * tile + slot] = memory[delta_2_at + slot]
                memory[delta_12z_at + 2 * d * tile + slot] = d_z
                memory[mu_at + slot] = direct
                delta[k] = d_1
                delta[k + 2 * d] = d_z
            j += threads
        cuda.syncthreads()  # delta_12z is complete, and delta_y is read
        base -= batch * d
    j = thread
    while j < d:
        dot_products(total, W, W_start + j, d, memory, delta_12z_at, 3 * d)
        for i in range(tile):
            slot = j * tile + i
            grad_y0[offsets[i] + j] = memory[lambda_at + slot] + total[i]
            grad_z0[offsets[i] + j] = memory[mu_at + slot]
        j += threads


def _forward(dt, least, most, W, W_y, g, y0, z0, y, y_end, z_end, z, gates):
    tensors = W.mT.contiguous(), W_y.mT.contiguous(), g, y0, z0, y, y_end, z_end, z, gates
    numbers = dt, least, most, len(g)
    launch_runs(_forward_kernel, y0, (W, W_y), *tensors, *numbers, buffers=_BUFFERS)


def _backward(dt, least, most, W, W_y, y0, z0, y, z, gates, grad_y, grad_y_end, grad_z_end):
    delta = torch.empty_like(gates)
    grad_y0 = torch.empty_like(y0)
    grad_z0 = torch.empty_like(z0)
    d = y.shape[2]
    tensors = W, W_y, y0, z0, y, z, gates, grad_y, grad_y_end, grad_z_end, delta, grad_y0, grad_z0
    flags = is_present(grad_y_end), is_present(grad_z_end)
    numbers = *flags, dt, least, most, len(y)
    options = {"buffers": _BUFFERS, "arriving": is_present(grad_y)}
    launch_runs(_backward_kernel, y0, (W, W_y), *tensors, *numbers, **options)
    # Both gradients of weights are functions, which `Recurrence` calls only if they are wanted.
    grad_W = state_products(W, delta[..., : 3 * d], y0, y)
    grad_W_y = partial(sums_of_products, W_y, delta[..., 3 * d :], z)
    return grad_W, grad_W_y, delta, grad_y0, grad_z0


_LEM = Recurrence("lem_cuda", forward=_forward, backward=_backward, **_cuda_gates.LEM_DESCRIPTION)


@engine("lem", most_units=most_units(_BUFFERS), takes_networks=True, options=("variant",))
def lem(weights, state, u, *, variant: str = "auto"):
    """Run LEM, equation (3) of Rusch et al. 2022.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.lem.LEMCore.step`.
    state : tuple of (batch, d)
        (y, z) before the first input.
    u : (time, batch, p)
        The inputs.
    variant : {"auto", "persistent", "rows"}
        See `longrnn.kernels._cuda_persistent.is_persistent`.

    Returns
    -------
    outputs : (time, batch, d)
        y after every input.
    state : tuple of (batch, d)
        (y, z) after the last input.
    """
    W, W_y, V, b, dt, clip, single_scale = weights
    if single_scale:
        W = torch.cat([torch.zeros_like(W), torch.zeros_like(W), W])
    sources = Sources(u, V, b)
    g = add_infinite_gates(sources.drive(), W)
    least, most = step_bounds(clip)
    run = _LEM
    if is_persistent("lem", variant, cuda_persistent_lem.layouts, state[0]):
        run = cuda_persistent_lem.LEM
    return run(float(dt), float(least), most, W, W_y, g, *state, sources=sources)
