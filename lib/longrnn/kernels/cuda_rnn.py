r"""Five networks of one dense step on the GPU: a block per few sequences, a thread per unit.

The basic RNN, the exponential, the antisymmetric and the Lipschitz RNN and coRNN share their
kernels, which are compiled for each of them (`form`). Forward and adjoint, and what is stored, are
those of `longrnn.kernels.cpu_rnn` and of `longrnn.kernels.cpu_cornn`. The two matrices of the
Lipschitz RNN lie one below the other, and so do its :math:`\delta_t` and :math:`\epsilon
\lambda_t`: one product serves the backward kernel, and one gives both gradients. Those of coRNN lie
side by side, and so do its positions and velocities.

The states at t and t - 1 take turns in two halves of the shared memory, so that one barrier a step
is enough. Neighbouring threads read neighbouring weights, of the matrix in the backward kernel and
of a transposed copy in the forward kernel; up to some 200 units they stay in the first cache. Each
weight read is used for all sequences of the block.
"""

import numpy as np
import torch

from longrnn.kernels._cuda import cuda, d, engine, kernel, launch_rows, most_units, real, tile
from longrnn.kernels._cuda_device import ONE, ZERO, load, locate, products, shared, tanh
from longrnn.kernels._recurrence import Recurrence, Sources, per_chain, state_product
from longrnn.kernels.cpu_cornn import OPERATOR, oscillate, pull_back, run_by
from longrnn.kernels.cpu_rnn import (
    BASIC,
    EULER,
    FAST,
    LIPSCHITZ,
    MODRELU,
    NETWORKS,
    modrelu,
    reference,
)

_modrelu, _oscillate, _pull_back = shared(modrelu), shared(oscillate), shared(pull_back)

CORNN = FAST  # whose state is not what tanh gives, either; FastRNN has no kernel here
form = BASIC
"""Compile-time constant: the network."""
_BUFFERS = {BASIC: 2, MODRELU: 2, EULER: 3, LIPSCHITZ: 5, CORNN: 4}
"""Vectors in shared memory of the backward kernel; the forward kernel has two, coRNN's four."""


@kernel
def _forward_kernel(M_T, numbers, g, x0, z0, outputs, y, z, T, batch):
    """`M_T` is transposed: (d, d), with A beside W (d, 2 d), of coRNN (2 d, d).

    `numbers` (d) are the modReLU's b, or epsilon; of coRNN dt, gamma, r. `y` receives what tanh
    gives where that is not the state, `z` coRNN's velocities.
    """
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    g_t, total = cuda.local.array(tile, real), cuda.local.array(tile, real)
    linear = cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, d)
    width = 2 * d if form == LIPSCHITZ else d
    height = 2 * d if form == CORNN else d
    here = 0
    memory = cuda.shared.array(0, real)
    x, after = 0, height * tile
    other = d * tile  # the second half of coRNN's states is the velocity
    load(memory, x, x0, places, row, rows, d)
    if form == CORNN:
        load(memory, x + other, z0, places, row, rows, d)
        dt, gamma, r = numbers[0], numbers[1], numbers[2]
    cuda.syncthreads()
    for _ in range(T):
        for j in range(row, d, rows):
            for i in range(tile):
                g_t[i] = g[here + places[i] + j]  # under way during the product
            products(total, M_T, j, width, memory, x, height)
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
                if form == CORNN:
                    velocity = memory[x + other + own]
                    value, velocity = _oscillate(dt, gamma, r, value, memory[x + own], velocity)
                    memory[after + other + own], z[there] = velocity, velocity
                elif form >= EULER:
                    value = memory[x + own] + numbers[j] * value
                memory[after + own] = value
                outputs[there] = value
        cuda.syncthreads()
        x, after = after, x
        here += batch * d


@kernel
def _backward_kernel(M, numbers, y, from_outputs, carried, z_carried, delta, T, batch):
    """The carried gradients are those of the final state and become those of the initial one.

    `delta` is as wide as `M` is high.
    """
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    y_t, arrived = cuda.local.array(tile, real), cuda.local.array(tile, real)
    back, of_z = cuda.local.array(tile, real), cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, d)
    height = 2 * d if form == LIPSCHITZ else d
    width = 2 * d if form == CORNN else d
    here = (T - 1) * batch * d
    memory = cuda.shared.array(0, real)
    deltas, after = 0, height * tile
    lambda_, mu = 2 * height * tile, 3 * height * tile  # each thread's own
    if form == CORNN:
        dt, gamma, r = numbers[0], numbers[1], numbers[2]
        load(memory, lambda_, carried, places, row, rows, d)
        load(memory, mu, z_carried, places, row, rows, d)
    for t in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            for i in range(tile):  # under way during the product
                y_t[i], arrived[i] = y[here + places[i] + j], from_outputs[here + places[i] + j]
            if t == T - 1:
                for i in range(tile):
                    back[i] = ZERO if form == CORNN else carried[places[i] + j]
                    of_z[i] = ZERO
            else:
                products(back, M, j, width, memory, after, height)
                if form == CORNN:
                    products(of_z, M, d + j, width, memory, after, height)
            for i in range(tile):
                own, there = j * tile + i, (here + places[i]) * (height // d) + j
                value = arrived[i] + back[i]
                if form == CORNN:
                    left = arrived[i] + memory[lambda_ + own] + back[i]
                    velocity = memory[mu + own] + of_z[i]
                    left, velocity, value = _pull_back(dt, gamma, r, y_t[i], left, velocity)
                    memory[lambda_ + own], memory[mu + own] = left, velocity
                elif form >= EULER:
                    if t < T - 1:
                        value += memory[lambda_ + own]
                    memory[lambda_ + own] = value
                    value *= numbers[j]
                if form == LIPSCHITZ:
                    memory[deltas + d * tile + own], delta[there + d] = value, value
                if form == MODRELU:
                    value = ZERO if y_t[i] == ZERO else value
                elif form != CORNN:
                    value *= ONE - y_t[i] * y_t[i]
                memory[deltas + own], delta[there] = value, value
        cuda.syncthreads()
        deltas, after = after, deltas
        here -= batch * d
    for j in range(row, d, rows):
        products(back, M, j, width, memory, after, height)
        if form == CORNN:
            products(of_z, M, d + j, width, memory, after, height)
        for i in range(tile):
            value = back[i]
            if form >= EULER:
                value += memory[lambda_ + j * tile + i]
            carried[places[i] + j] = value
            if form == CORNN:
                z_carried[places[i] + j] = memory[mu + j * tile + i] + of_z[i]


def _sizes(form, M):
    """Return what `launch_rows` has to know of a network and its matrices."""
    return {"buffers": _BUFFERS[form], "weights": M.numel(), "form": form}


def _forward(form, M, numbers, g, x0, outputs, x_end, y):
    unused = g.new_empty(0)
    parts = M.T.contiguous(), numbers, g, x0, unused, outputs, y, unused
    launch_rows(_forward_kernel, x0, *parts, len(g), **_sizes(form, M))
    x_end.copy_(outputs[-1])


def _backward(form, M, numbers, x0, outputs, y, from_outputs, carried):
    y = y if form >= EULER else outputs
    delta = outputs.new_empty(*outputs.shape[:2], len(M))
    parts = M, numbers, y, from_outputs, carried, y.new_empty(0), delta
    launch_rows(_backward_kernel, x0, *parts, len(outputs), **_sizes(form, M))

    def of_numbers():
        return (delta * outputs.sign()).sum((0, 1))

    of_g = delta[..., : x0.shape[1]].contiguous() if form == LIPSCHITZ else delta
    return state_product(delta, x0, outputs), of_numbers, of_g, carried


def _reference(form, M, numbers, g, x0):
    d = x0.shape[1]
    W, A = M[:d], M[d:]
    return reference(form, None, W, A, numbers, g, numbers, x0)


def _shapes(a):
    y = a.g.shape if a.form >= EULER else (0, *a.x0.shape)
    return [a.g.shape, a.x0.shape, y]


_DENSE = Recurrence(
    "dense_cuda",
    settings="int form",
    inputs="M numbers g:1 x0:0",
    results="outputs x_end y",
    saved="M numbers x0 outputs y",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
)


def _cornn_forward(scalars, M, g, y0, z0, y, y_end, z_end, z, f):
    parts = M.T.contiguous(), scalars, g, y0, z0, y, f, z
    launch_rows(_forward_kernel, y0, *parts, len(g), **_sizes(CORNN, M))
    y_end.copy_(y[-1])
    z_end.copy_(z[-1])


def _cornn_backward(scalars, M, y0, z0, y, z, f, from_y, y_carried, z_carried):
    delta = torch.empty_like(f)
    parts = M, scalars, f, from_y, y_carried, z_carried, delta
    launch_rows(_backward_kernel, y0, *parts, len(y), **_sizes(CORNN, M))

    def of_M():
        return torch.cat([state_product(delta, y0, y)(), state_product(delta, z0, z)()], dim=1)

    return None, of_M, delta, y_carried, z_carried


_CORNN = Recurrence(
    "cornn_cuda", forward=_cornn_forward, backward=_cornn_backward, arrays=False, **OPERATOR
)


@engine("cornn", most_units=most_units(_BUFFERS[CORNN]))
def cornn(weights, state, u):
    """Run coRNN, (3) of Rusch and Mishra; shapes as in `longrnn.cells.Cell.forward`."""
    return run_by(_CORNN, weights, state, u)


def _register(cell: str, form: int) -> None:
    @engine(cell, most_units=most_units(_BUFFERS[form]))
    def run(weights, state, u):
        _, W, A, numbers, bias, R, b = NETWORKS[cell](*weights)
        M = W if A is None else torch.cat([W, A])
        if bias is not None:
            numbers = bias
        elif numbers is None:
            numbers = W.new_empty(0)
        else:  # epsilon, one for each unit
            numbers = per_chain(*numbers, b)
        sources = Sources(u, R, b)
        return _DENSE(form, M, numbers, sources.drive(), state[0], sources=sources)


_register("rnn", BASIC)
_register("exponential", MODRELU)
_register("antisymmetric", EULER)
_register("lipschitz", LIPSCHITZ)
