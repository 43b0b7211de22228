r"""coRNN on the GPU: one block for some sequences, one thread for each unit.

Forward and adjoint, and what is stored, are those of `lib.kernels.cpu_cornn`. The states are in shared memory, where those at n and
n - 1 take turns, so that one barrier a step is enough; neighbouring threads read neighbouring weights, as in `lib.kernels.cuda_rnn`.
"""

import numpy as np
import torch

from lib.kernels._cuda import cuda, d, engine, in_one, kernel, launch_rows, real, tile
from lib.kernels._cuda_device import ZERO, load, locate, products, shared, tanh
from lib.kernels._recurrence import Recurrence, product
from lib.kernels.cpu_cornn import oscillate, pull_back, run_by

_oscillate, _pull_back = shared(oscillate), shared(pull_back)

_BUFFERS = 4  # vectors in shared memory


@kernel
def _forward(M_T, scalars, g, y0, z0, y, z, f, T, batch):
    """`M_T` (2 d, d) holds both matrices, transposed, `scalars` dt, gamma, r."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    g_n, total = cuda.local.array(tile, real), cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, d)
    dt, gamma, r = scalars[0], scalars[1], scalars[2]
    here = 0
    memory = cuda.shared.array(0, real)
    both, after, other = 0, 2 * d * tile, d * tile  # the second half of both is the velocity
    load(memory, both, y0, places, row, rows, d)
    load(memory, both + other, z0, places, row, rows, d)
    cuda.syncthreads()
    for _ in range(T):
        for j in range(row, d, rows):
            for i in range(tile):
                g_n[i] = g[here + places[i] + j]  # under way during the product
            products(total, M_T, j, d, memory, both, 2 * d)
            for i in range(tile):
                own, there = j * tile + i, here + places[i] + j
                position, velocity = memory[both + own], memory[both + other + own]
                force = tanh(total[i] + g_n[i])
                position, velocity = _oscillate(dt, gamma, r, force, position, velocity)
                memory[after + own], memory[after + other + own] = position, velocity
                f[there], y[there], z[there] = force, position, velocity
        cuda.syncthreads()
        both, after = after, both
        here += batch * d


@kernel
def _backward(M, scalars, f, from_y, y_carried, z_carried, delta, T, batch):
    """`M` is (d, 2 d). The carried gradients are those of the final state and become those of the initial one."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    force, arrived = cuda.local.array(tile, real), cuda.local.array(tile, real)
    by_y, by_z = cuda.local.array(tile, real), cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, d)
    dt, gamma, r = scalars[0], scalars[1], scalars[2]
    here = (T - 1) * batch * d
    memory = cuda.shared.array(0, real)
    deltas, after = 0, d * tile
    lambda_, mu = 2 * d * tile, 3 * d * tile  # each thread's own
    load(memory, lambda_, y_carried, places, row, rows, d)
    load(memory, mu, z_carried, places, row, rows, d)
    for n in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            for i in range(tile):  # under way during the products
                force[i], arrived[i] = f[here + places[i] + j], from_y[here + places[i] + j]
                by_y[i], by_z[i] = ZERO, ZERO
            if n < T - 1:
                products(by_y, M, j, 2 * d, memory, after, d)
                products(by_z, M, d + j, 2 * d, memory, after, d)
            for i in range(tile):
                own = j * tile + i
                of_y = arrived[i] + memory[lambda_ + own] + by_y[i]
                of_z = memory[mu + own] + by_z[i]
                of_y, of_z, value = _pull_back(dt, gamma, r, force[i], of_y, of_z)
                memory[deltas + own], delta[here + places[i] + j] = value, value
                memory[lambda_ + own], memory[mu + own] = of_y, of_z
        cuda.syncthreads()
        deltas, after = after, deltas
        here -= batch * d
    for j in range(row, d, rows):
        products(by_y, M, j, 2 * d, memory, after, d)
        products(by_z, M, d + j, 2 * d, memory, after, d)
        for i in range(tile):
            own, there = j * tile + i, places[i] + j
            y_carried[there] = memory[lambda_ + own] + by_y[i]
            z_carried[there] = memory[mu + own] + by_z[i]


def _states(scalars, M, g, y0, z0):
    y, z, f = (torch.empty_like(g) for _ in range(3))
    parts = M.T.contiguous(), in_one(g, *scalars), g, y0, z0, y, z, f
    launch_rows(_forward, y0, *parts, len(g), buffers=_BUFFERS)
    return y, [y[-1], z[-1]], [y, z, f]


def _gradients(scalars, M, y0, z0, y, z, f, arrived, *carried):
    delta = torch.empty_like(f)
    parts = M, in_one(f, *scalars), f, arrived, *carried, delta
    launch_rows(_backward, y0, *parts, len(y), buffers=_BUFFERS)
    of_W, of_W_z = product(delta, y0, y), product(delta, z0, z)
    return lambda: torch.cat([of_W(), of_W_z()], dim=1), delta, *carried


_CORNN = Recurrence(_states, _gradients, saved=(0, 1, 3, 4), arrays=False)


@engine("cornn")
def cornn(weights, state, u):
    """coRNN, (3) of Rusch and Mishra; shapes as in `lib.cells.Cell.forward`."""
    return run_by(_CORNN, weights, state, u)
