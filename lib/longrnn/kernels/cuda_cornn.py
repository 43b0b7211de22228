r"""coRNN on the GPU: a block for a few sequences, a thread for each unit.

The forward and adjoint equations, and what is stored, are those of `longrnn.kernels.cpu_cornn`, for
(3) of Rusch and Mishra 2021. The state is in shared memory, the positions y of a block and behind
them its velocities z. The forward kernel takes the two transposed matrices stacked, so that one
product multiplies both. As in `longrnn.kernels.cuda_rnn`, the states at n and n - 1 alternate
between two halves of the shared memory, so that one barrier per step is enough, and neighboring
threads read neighboring weights. One launch takes several runs, whose batches follow one another.
"""

import numpy as np
import torch

from longrnn.kernels._cuda import cuda, engine
from longrnn.kernels._cuda_dense import (
    dot_products,
    load_gradients,
    load_vectors,
    run_of,
    set_offsets_in_run,
    store_vectors,
)
from longrnn.kernels._cuda_device import ZERO, device_version, load_or_zero, tanh
from longrnn.kernels._cuda_kernel import arriving, d, kernel, real, tile
from longrnn.kernels._cuda_launch import is_present, launch_runs, most_units
from longrnn.kernels._products import state_products
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels.cpu_cornn import CORNN_DESCRIPTION, oscillate, pull_back, run_by

_oscillate = device_version(oscillate)
_pull_back = device_version(pull_back)
_BUFFERS = 4
"""Vectors in shared memory of each kernel."""


@kernel
def _forward_kernel(
    M_T, g, y0, z0, y, z, f, y_end, z_end, dt, gamma, r, T, sequences, batch
):  # fmt: skip
    """Run all steps of the sequences of a block.

    `M_T` (2 d, d) holds the transposed W and script W of each run. There are `sequences` per run,
    together `batch`. `f` (time, batch, d) gets the values of tanh.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_n = cuda.local.array(tile, real)
    total = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    M_start = run * 2 * d * d
    memory = cuda.shared.array(0, real)
    now_at = 0
    next_at = 2 * d * tile
    to_velocity = d * tile  # distance of the velocities from the positions
    load_vectors(memory, now_at, y0, offsets, thread, threads, d)
    load_vectors(memory, now_at + to_velocity, z0, offsets, thread, threads, d)
    cuda.syncthreads()  # the initial state is complete
    base = 0  # offset of the time step
    for _ in range(T):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the product, which hides the latency
                g_n[i] = g[base + offsets[i] + j]
            dot_products(total, M_T, M_start + j, d, memory, now_at, 2 * d)
            for i in range(tile):
                slot = j * tile + i
                index = base + offsets[i] + j
                force = tanh(total[i] + g_n[i])
                position = memory[now_at + slot]
                velocity = memory[now_at + to_velocity + slot]
                position, velocity = _oscillate(dt, gamma, r, force, position, velocity)
                memory[next_at + slot] = position
                memory[next_at + to_velocity + slot] = velocity
                f[index] = force
                y[index] = position
                z[index] = velocity
            j += threads
        cuda.syncthreads()  # the next state is complete, and this one is read
        now_at, next_at = next_at, now_at
        base += batch * d
    store_vectors(y_end, memory, now_at, offsets, thread, threads, d)
    store_vectors(z_end, memory, now_at + to_velocity, offsets, thread, threads, d)


@kernel
def _backward_kernel(
    W, W_z, f, grad_y, grad_y_end, grad_z_end, delta, grad_y0, grad_z0,
    has_y_end, has_z_end, dt, gamma, r, T, sequences, batch,
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    `W` and `W_z` (d, d) of each run multiply positions and velocities. `delta` (time, batch, d)
    gets the gradients of the drive.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    f_n = cuda.local.array(tile, real)
    arrived = cuda.local.array(tile, real)
    back = cuda.local.array(tile, real)
    back_z = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    W_start = run * d * d
    memory = cuda.shared.array(0, real)
    now_at = 0  # the deltas of this step
    later_at = d * tile  # and those of the step after it
    # Only the thread that wrote lambda and mu reads them: the parts of the gradients with respect
    # to positions and velocities that bypass the products.
    lambda_at = 2 * d * tile
    mu_at = 3 * d * tile
    load_gradients(memory, lambda_at, grad_y_end, has_y_end, offsets, thread, threads, d)
    load_gradients(memory, mu_at, grad_z_end, has_z_end, offsets, thread, threads, d)
    base = (T - 1) * batch * d  # offset of the time step
    for n in range(T - 1, -1, -1):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the product, which hides the latency
                f_n[i] = f[base + offsets[i] + j]
                arrived[i] = load_or_zero(grad_y, base + offsets[i] + j, arriving)
                back[i] = ZERO
                back_z[i] = ZERO
            if n < T - 1:
                dot_products(back, W, W_start + j, d, memory, later_at, d)
                dot_products(back_z, W_z, W_start + j, d, memory, later_at, d)
            for i in range(tile):
                slot = j * tile + i
                lambda_ = arrived[i] + memory[lambda_at + slot] + back[i]
                mu = memory[mu_at + slot] + back_z[i]
                lambda_, mu, d_n = _pull_back(dt, gamma, r, f_n[i], lambda_, mu)
                memory[lambda_at + slot] = lambda_
                memory[mu_at + slot] = mu
                memory[now_at + slot] = d_n
                delta[base + offsets[i] + j] = d_n
            j += threads
        cuda.syncthreads()  # the deltas are complete, and the later ones are read
        now_at, later_at = later_at, now_at
        base -= batch * d
    j = thread
    while j < d:
        dot_products(back, W, W_start + j, d, memory, later_at, d)
        dot_products(back_z, W_z, W_start + j, d, memory, later_at, d)
        for i in range(tile):
            slot = j * tile + i
            grad_y0[offsets[i] + j] = back[i] + memory[lambda_at + slot]
            grad_z0[offsets[i] + j] = memory[mu_at + slot] + back_z[i]
        j += threads


def _forward(dt, gamma, r, W, W_z, g, y0, z0, y, y_end, z_end, z, f):
    M_T = torch.cat([W.mT, W_z.mT], dim=-2)
    tensors = M_T, g, y0, z0, y, z, f, y_end, z_end
    numbers = dt, gamma, r, len(g)
    launch_runs(_forward_kernel, y0, (M_T,), *tensors, *numbers, buffers=_BUFFERS)


def _backward(dt, gamma, r, W, W_z, y0, z0, y, z, f, grad_y, grad_y_end, grad_z_end):
    delta = torch.empty_like(f)
    grad_y0 = torch.empty_like(y0)
    grad_z0 = torch.empty_like(z0)
    tensors = W, W_z, f, grad_y, grad_y_end, grad_z_end, delta, grad_y0, grad_z0
    flags = is_present(grad_y_end), is_present(grad_z_end)
    numbers = *flags, dt, gamma, r, len(y)
    options = {"buffers": _BUFFERS, "arriving": is_present(grad_y)}
    launch_runs(_backward_kernel, y0, (W, W_z), *tensors, *numbers, **options)
    grad_W = state_products(W, delta, y0, y)
    grad_W_z = state_products(W_z, delta, z0, z)
    return grad_W, grad_W_z, delta, grad_y0, grad_z0


_CORNN = Recurrence(
    "cornn_cuda", forward=_forward, backward=_backward, arrays=False, **CORNN_DESCRIPTION
)


@engine("cornn", most_units=most_units(_BUFFERS), takes_networks=True)
def cornn(weights, state, u):
    """Run coRNN, equation (3) of Rusch and Mishra 2021.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.cornn.CoRNNCore.step`.
    state : tuple of (batch, d)
        (y, z) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        y after every input.
    state : tuple of (batch, d)
        (y, z) after the last input.
    """
    return run_by(_CORNN, weights, state, u)
