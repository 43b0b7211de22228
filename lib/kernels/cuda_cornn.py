r"""coRNN on the GPU: one block for some sequences of a run, one thread for each unit.

Forward and adjoint, and what is stored, are those of `lib.kernels.cpu_cornn`. The states are in shared memory, where those at n and
n - 1 take turns, so that one barrier a step is enough; neighbouring threads read neighbouring weights, as in `lib.kernels.cuda_rnn`.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, d, kernel, launch_rows, real, tile
from lib.kernels._cuda_device import ONE, ZERO, locate, products, tanh
from lib.kernels._cuda_engine import (
    check_hidden,
    drive,
    engine,
    gradient,
    per_chain,
    recurrent_gradient,
)

_BUFFERS = 4  # vectors in shared memory


@kernel
def _forward(M_T, scalars, g, y0, z0, y, z, f, T, batch):
    """`M_T` (run, 2 d, d) and `scalars` (run, 4) hold both matrices, transposed, and dt, gamma, s, r."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    g_n, total = cuda.local.array(tile, real), cuda.local.array(tile, real)
    run = locate(places, cuda.blockIdx.x, batch, d)
    dt, gamma = scalars[4 * run], scalars[4 * run + 1]
    s, r = scalars[4 * run + 2], scalars[4 * run + 3]
    weights, start, here = 2 * run * d * d, run * batch * d, run * T * batch * d
    memory = cuda.shared.array(0, real)
    both, after, other = 0, 2 * d * tile, d * tile  # the second half of both is the velocity
    for j in range(row, d, rows):
        for i in range(tile):
            own, there = both + j * tile + i, start + places[i] + j
            memory[own], memory[own + other] = y0[there], z0[there]
    cuda.syncthreads()
    for _ in range(T):
        for j in range(row, d, rows):
            for i in range(tile):
                g_n[i] = g[here + places[i] + j]  # under way during the product
            products(total, M_T, weights + j, d, memory, both, 2 * d)
            for i in range(tile):
                own, there = j * tile + i, here + places[i] + j
                position, velocity = memory[both + own], memory[both + other + own]
                force = tanh(total[i] + g_n[i])
                velocity = s * (r * velocity + dt * (force - gamma * position))
                position += dt * velocity
                memory[after + own], memory[after + other + own] = position, velocity
                f[there], y[there], z[there] = force, position, velocity
        cuda.syncthreads()
        both, after = after, both
        here += batch * d


@kernel
def _backward(M, scalars, f, from_y, y_carried, z_carried, delta, T, batch):
    """`M` is (run, d, 2 d). The carried gradients are those of the final state and become those of the initial one."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    force, arrived = cuda.local.array(tile, real), cuda.local.array(tile, real)
    by_y, by_z = cuda.local.array(tile, real), cuda.local.array(tile, real)
    run = locate(places, cuda.blockIdx.x, batch, d)
    dt, gamma = scalars[4 * run], scalars[4 * run + 1]
    s, r = scalars[4 * run + 2], scalars[4 * run + 3]
    weights, start, here = 2 * run * d * d, run * batch * d, (run * T + T - 1) * batch * d
    memory = cuda.shared.array(0, real)
    deltas, after = 0, d * tile
    lambda_, mu = 2 * d * tile, 3 * d * tile  # each thread's own
    for j in range(row, d, rows):
        for i in range(tile):
            own, there = j * tile + i, start + places[i] + j
            memory[lambda_ + own], memory[mu + own] = y_carried[there], z_carried[there]
    for n in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            for i in range(tile):  # under way during the products
                force[i], arrived[i] = f[here + places[i] + j], from_y[here + places[i] + j]
                by_y[i], by_z[i] = ZERO, ZERO
            if n < T - 1:
                products(by_y, M, weights + j, 2 * d, memory, after, d)
                products(by_z, M, weights + d + j, 2 * d, memory, after, d)
            for i in range(tile):
                own = j * tile + i
                position = arrived[i] + memory[lambda_ + own] + by_y[i]
                m = s * (memory[mu + own] + by_z[i] + dt * position)
                value = dt * m * (ONE - force[i] * force[i])
                memory[deltas + own], delta[here + places[i] + j] = value, value
                memory[lambda_ + own], memory[mu + own] = position - dt * gamma * m, r * m
        cuda.syncthreads()
        deltas, after = after, deltas
        here -= batch * d
    for j in range(row, d, rows):
        products(by_y, M, weights + j, 2 * d, memory, after, d)
        products(by_z, M, weights + d + j, 2 * d, memory, after, d)
        for i in range(tile):
            own, there = j * tile + i, start + places[i] + j
            y_carried[there] = memory[lambda_ + own] + by_y[i]
            z_carried[there] = memory[mu + own] + by_z[i]


class _CoRNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, M: Tensor, scalars: Tensor, g: Tensor, y0: Tensor, z0: Tensor) -> tuple:
        y, z, f = (torch.empty_like(g) for _ in range(3))
        parts = M.mT.contiguous(), scalars, g, y0, z0, y, z, f
        launch_rows(_forward, y0, *parts, g.shape[1], buffers=_BUFFERS)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(M, scalars, y0, z0, y, z, f)
        return y, y[:, -1].clone(), z[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, from_y: Tensor | None, *from_final: Tensor | None) -> tuple:
        M, scalars, y0, z0, y, z, f = ctx.saved_tensors
        carried = [gradient(part, y0).clone() for part in from_final]
        delta = torch.empty_like(f)
        parts = M.contiguous(), scalars, f, gradient(from_y, y), *carried, delta
        launch_rows(_backward, y0, *parts, y.shape[1], buffers=_BUFFERS)
        M_gradient = None
        if ctx.needs_input_grad[0]:
            halves = recurrent_gradient(delta, y0, y), recurrent_gradient(delta, z0, z)
            M_gradient = torch.cat(halves, dim=-1)
        return M_gradient, None, delta, *carried


@engine("cornn")
def cornn(weights, state, u):
    """coRNN, (3) of Rusch and Mishra; shapes as in `lib.cells.Cell.forward`, with runs or without."""
    W, W_z, V, b, dt, gamma, epsilon, implicit = weights
    check_hidden("cornn", state, W.shape[-1])
    y0, z0 = (part.contiguous() for part in state)
    dt, gamma, epsilon = (per_chain(part, y0)[:, 0, 0] for part in (dt, gamma, epsilon))
    s, r = (
        (1 / (1 + dt * epsilon), torch.ones_like(dt))
        if implicit
        else (torch.ones_like(dt), 1 - dt * epsilon)
    )
    scalars = torch.stack([dt, gamma, s, r], dim=-1)
    y, *final = _CoRNN.apply(torch.cat([W, W_z], dim=-1), scalars, drive("cornn", u, V, b), y0, z0)
    return y, tuple(final)
