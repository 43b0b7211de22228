r"""Four networks of one dense step on the GPU: one block for some sequences, one thread for each row of the matrices.

The basic RNN, the exponential, the antisymmetric and the Lipschitz RNN share their kernels, which are compiled for each of them
(`form`). Forward and adjoint, and what is stored, are those of `lib.kernels.cpu_rnn`. The two matrices of the Lipschitz RNN lie one
below the other, and so do its :math:`\delta_t` and :math:`\epsilon \lambda_t`: one product serves the way back, and one gives both
gradients.

The states at t and t - 1 take turns in two halves of the shared memory, so that one barrier a step is enough. Neighbouring threads
read neighbouring weights, of the matrix on the way back and of a transposed copy on the way there; up to some 200 units they stay in
the first cache. Each weight read is used for all sequences of the block.
"""

import numpy as np
import torch

from lib.kernels._cuda import cuda, d, engine, kernel, launch_rows, real, tile
from lib.kernels._cuda_device import ONE, ZERO, load, locate, products, shared, tanh
from lib.kernels._recurrence import Recurrence, drive, per_chain, product
from lib.kernels.cpu_rnn import BASIC, EULER, LIPSCHITZ, MODRELU, NETWORKS, modrelu

_modrelu = shared(modrelu)

form = BASIC
"""In the text of a kernel: which of the four it is compiled for."""
_BUFFERS = {BASIC: 2, MODRELU: 2, EULER: 3, LIPSCHITZ: 5}
"""Vectors in shared memory: the way back needs them, the way there two."""


@kernel
def _forward(M_T, numbers, g, x0, outputs, y, T, batch):
    """`M_T` (d, d), or (d, 2 d) with A beside W, is transposed; `numbers` (d) are the modReLU's b, or epsilon.

    `y` receives what tanh gives where that is not the state.
    """
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    g_t, total = cuda.local.array(tile, real), cuda.local.array(tile, real)
    linear = cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, d)
    width = 2 * d if form == LIPSCHITZ else d
    here = 0
    memory = cuda.shared.array(0, real)
    x, after = 0, d * tile
    load(memory, x, x0, places, row, rows, d)
    cuda.syncthreads()
    for _ in range(T):
        for j in range(row, d, rows):
            for i in range(tile):
                g_t[i] = g[here + places[i] + j]  # under way during the product
            products(total, M_T, j, width, memory, x, d)
            if form == LIPSCHITZ:
                products(linear, M_T, d + j, width, memory, x, d)
            for i in range(tile):
                own, there = j * tile + i, here + places[i] + j
                value = total[i] + g_t[i]
                value = _modrelu(value, numbers[j]) if form == MODRELU else tanh(value)
                if form >= EULER:
                    y[there] = value
                    if form == LIPSCHITZ:
                        value += linear[i]
                    value = memory[x + own] + numbers[j] * value
                memory[after + own] = value
                outputs[there] = value
        cuda.syncthreads()
        x, after = after, x
        here += batch * d


@kernel
def _backward(M, numbers, y, from_outputs, carried, delta, T, batch):
    """`carried` is the gradient of the final state and becomes that of the initial one; `delta` is as wide as `M` is high."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    y_t, arrived = cuda.local.array(tile, real), cuda.local.array(tile, real)
    back = cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, d)
    height = 2 * d if form == LIPSCHITZ else d
    here = (T - 1) * batch * d
    memory = cuda.shared.array(0, real)
    deltas, after = 0, height * tile
    lambda_ = 2 * height * tile  # each thread's own
    for t in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            for i in range(tile):  # under way during the product
                y_t[i], arrived[i] = y[here + places[i] + j], from_outputs[here + places[i] + j]
            if t == T - 1:
                for i in range(tile):
                    back[i] = carried[places[i] + j]
            else:
                products(back, M, j, d, memory, after, height)
            for i in range(tile):
                own, there = j * tile + i, (here + places[i]) * (height // d) + j
                value = arrived[i] + back[i]
                if form >= EULER:
                    if t < T - 1:
                        value += memory[lambda_ + own]
                    memory[lambda_ + own] = value
                    value *= numbers[j]
                if form == LIPSCHITZ:
                    memory[deltas + d * tile + own], delta[there + d] = value, value
                if form == MODRELU:
                    value = ZERO if y_t[i] == ZERO else value
                else:
                    value *= ONE - y_t[i] * y_t[i]
                memory[deltas + own], delta[there] = value, value
        cuda.syncthreads()
        deltas, after = after, deltas
        here -= batch * d
    for j in range(row, d, rows):
        products(back, M, j, d, memory, after, height)
        for i in range(tile):
            value = back[i]
            if form >= EULER:
                value += memory[lambda_ + j * tile + i]
            carried[places[i] + j] = value


def _states(form, M, numbers, g, x0):
    outputs = torch.empty_like(g)
    y = torch.empty_like(g) if form >= EULER else g.new_empty(0)
    parts = M.T.contiguous(), numbers, g, x0, outputs, y
    launch_rows(_forward, x0, *parts, len(g), buffers=_BUFFERS[form], form=form)
    return outputs, [outputs[-1]], [outputs, y] if form >= EULER else [outputs]


def _gradients(form, M, numbers, x0, outputs, *more):
    *y, arrived, carried = more
    delta = outputs.new_empty(*outputs.shape[:2], len(M))
    parts = M, numbers, *(y or [outputs]), arrived, carried, delta
    launch_rows(_backward, x0, *parts, len(outputs), buffers=_BUFFERS[form], form=form)

    def of_numbers():
        return (delta * outputs.sign()).sum((0, 1))

    return product(delta, x0, outputs), of_numbers, delta[..., : x0.shape[1]], carried


_DENSE = Recurrence(_states, _gradients, saved=(0, 1, 2, 4), arrays=False)


def _register(cell: str) -> None:
    @engine(cell)
    def run(weights, state, u):
        form, W, A, numbers, R, b = NETWORKS[cell](*weights)
        M = W if A is None else torch.cat([W, A])
        if isinstance(numbers, list):  # one for each unit
            numbers = per_chain(*numbers, b) if numbers else W.new_empty(0)
        return _DENSE(form, M, numbers, drive(u, R, b), state[0])


for _cell in NETWORKS:
    _register(_cell)
