r"""Five networks of one dense step on the GPU: a block per few sequences, a thread per unit.

The basic RNN, the exponential, the antisymmetric and the Lipschitz RNN and coRNN share their
kernels, which are compiled for each of them (`form`). Forward and adjoint, and what is stored, are
those of `longrnn.kernels.cpu_rnn` and of `longrnn.kernels.cpu_cornn`. The two matrices of the
Lipschitz RNN lie one below the other, and so do its :math:`\delta_t` and :math:`\epsilon
\lambda_t`: one product serves the backward kernel, and one gives both gradients. Those of coRNN lie
side by side, and so do its positions and velocities.

One launch takes the sequences of several runs, one run after the other. What the sequences of a run
share then has the runs as its first axis.

The states at t and t - 1 take turns in two halves of the shared memory, so that one barrier a step
is enough. Neighbouring threads read neighbouring weights, of the matrix in the backward kernel and
of a transposed copy in the forward kernel; up to some 200 units they stay in the first cache. Each
weight read is used for all sequences of the block.
"""

import numpy as np
import torch

from longrnn.kernels._cuda import (
    cuda,
    d,
    engine,
    flag,
    kernel,
    launch_rows,
    most_units,
    real,
    tile,
)
from longrnn.kernels._cuda_chains import of_sequences
from longrnn.kernels._cuda_device import ONE, ZERO, load, locate_in_run, products, shared, tanh
from longrnn.kernels._recurrence import Recurrence, Sources, runs_of, state_products
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
arriving = 0
"""Compile-time constant: whether gradients of the outputs arrive."""
_BUFFERS = {BASIC: 2, MODRELU: 2, EULER: 3, LIPSCHITZ: 5, CORNN: 4}
"""Vectors in shared memory of the backward kernel; the forward kernel has two, coRNN's four."""


@kernel
def _forward_kernel(
    M_T, bias, g, x0, z0, outputs, y, z, x_end, z_end, dt, gamma, r, T, sequences, batch
):  # fmt: skip
    """`M_T` is transposed: (d, d), with A beside W (d, 2 d), of coRNN (2 d, d), of each run.

    `bias` (d) is the modReLU's b, `dt` is epsilon or coRNN's. `y` receives what tanh gives where
    that is not the state, `z` coRNN's velocities.
    """
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    g_t, total = cuda.local.array(tile, real), cuda.local.array(tile, real)
    linear = cuda.local.array(tile, real)
    run = locate_in_run(places, cuda.blockIdx.x, sequences, d)
    width = 2 * d if form == LIPSCHITZ else d
    height = 2 * d if form == CORNN else d
    matrix = run * width * height
    here = 0
    memory = cuda.shared.array(0, real)
    x, after = 0, height * tile
    other = d * tile  # the second half of coRNN's states is the velocity
    load(memory, x, x0, places, row, rows, d)
    if form == CORNN:
        load(memory, x + other, z0, places, row, rows, d)
    cuda.syncthreads()
    for _ in range(T):
        j = row  # no `range`, whose length is a division
        while j < d:
            for i in range(tile):
                g_t[i] = g[here + places[i] + j]  # under way during the product
            products(total, M_T, matrix + j, width, memory, x, height)
            if form == LIPSCHITZ:
                products(linear, M_T, matrix + d + j, width, memory, x, d)
            for i in range(tile):
                own, there = j * tile + i, here + places[i] + j
                value = total[i] + g_t[i]
                value = _modrelu(value, bias[run * d + j]) if form == MODRELU else tanh(value)
                if form >= EULER:
                    y[there] = value
                if form == LIPSCHITZ:
                    value += linear[i]
                if form == CORNN:
                    velocity = memory[x + other + own]
                    value, velocity = _oscillate(dt, gamma, r, value, memory[x + own], velocity)
                    memory[after + other + own], z[there] = velocity, velocity
                elif form >= EULER:
                    value = memory[x + own] + dt * value
                memory[after + own] = value
                outputs[there] = value
            j += rows
        cuda.syncthreads()
        x, after = after, x
        here += batch * d
    j = row
    while j < d:
        for i in range(tile):
            x_end[places[i] + j] = memory[x + j * tile + i]
            if form == CORNN:
                z_end[places[i] + j] = memory[x + other + j * tile + i]
        j += rows


@kernel
def _backward_kernel(
    M, y, from_outputs, from_x_end, from_z_end, delta, of_x0, of_z0,
    has_x_end, has_z_end, dt, gamma, r, T, sequences, batch,
):  # fmt: skip
    """`delta` is as wide as `M` is high."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    y_t, arrived = cuda.local.array(tile, real), cuda.local.array(tile, real)
    back, of_z = cuda.local.array(tile, real), cuda.local.array(tile, real)
    run = locate_in_run(places, cuda.blockIdx.x, sequences, d)
    height = 2 * d if form == LIPSCHITZ else d
    width = 2 * d if form == CORNN else d
    matrix = run * width * height
    here = (T - 1) * batch * d
    memory = cuda.shared.array(0, real)
    deltas, after = 0, height * tile
    lambda_, mu = 2 * height * tile, 3 * height * tile  # each thread's own
    for t in range(T - 1, -1, -1):
        j = row
        while j < d:
            for i in range(tile):  # under way during the product
                y_t[i] = y[here + places[i] + j]
                arrived[i] = from_outputs[here + places[i] + j] if arriving else ZERO
            if t == T - 1:
                for i in range(tile):
                    back[i] = from_x_end[places[i] + j] if has_x_end else ZERO
                    of_z[i] = from_z_end[places[i] + j] if has_z_end else ZERO
                    if form == CORNN:
                        memory[lambda_ + j * tile + i], memory[mu + j * tile + i] = ZERO, ZERO
            else:
                products(back, M, matrix + j, width, memory, after, height)
                if form == CORNN:
                    products(of_z, M, matrix + d + j, width, memory, after, height)
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
                    value *= dt
                if form == LIPSCHITZ:
                    memory[deltas + d * tile + own], delta[there + d] = value, value
                if form == MODRELU:
                    value = ZERO if y_t[i] == ZERO else value
                elif form != CORNN:
                    value *= ONE - y_t[i] * y_t[i]
                memory[deltas + own], delta[there] = value, value
            j += rows
        cuda.syncthreads()
        deltas, after = after, deltas
        here -= batch * d
    j = row
    while j < d:
        products(back, M, matrix + j, width, memory, after, height)
        if form == CORNN:
            products(of_z, M, matrix + d + j, width, memory, after, height)
        for i in range(tile):
            value = back[i]
            if form >= EULER:
                value += memory[lambda_ + j * tile + i]
            of_x0[places[i] + j] = value
            if form == CORNN:
                of_z0[places[i] + j] = memory[mu + j * tile + i] + of_z[i]
        j += rows


def _sizes(form, M):
    """Return what `launch_rows` has to know of networks and their matrices."""
    runs = runs_of(M)
    return {"buffers": _BUFFERS[form], "weights": M.numel() // runs, "form": form, "runs": runs}


def _forward(form, epsilon, M, bias, g, x0, outputs, x_end, y):
    tensors = M.mT.contiguous(), bias, g, x0, None, outputs, y, None, x_end, None
    numbers = epsilon, 0.0, 0.0, len(g), len(x0) // runs_of(M)
    launch_rows(_forward_kernel, x0, *tensors, *numbers, **_sizes(form, M))


def _backward(form, epsilon, M, bias, x0, outputs, y, from_outputs, from_x_end):
    y = y if form >= EULER else outputs
    delta = outputs.new_empty(*outputs.shape[:2], M.shape[-2])
    of_x0 = torch.empty_like(x0)
    tensors = M, y, from_outputs, from_x_end, None, delta, of_x0, None
    numbers = flag(from_x_end), 0, epsilon, 0.0, 0.0, len(y), len(x0) // runs_of(M)
    sizes = _sizes(form, M)
    launch_rows(_backward_kernel, x0, *tensors, *numbers, **sizes, arriving=flag(from_outputs))

    def of_bias():
        parts = delta * outputs.sign()
        if M.dim() == 2:
            return parts.sum((0, 1))
        return parts.unflatten(1, (len(M), -1)).sum((0, 2))

    of_g = delta[..., : x0.shape[1]].contiguous() if form == LIPSCHITZ else delta
    return state_products(M, delta, x0, outputs), None if bias is None else of_bias, of_g, of_x0


def _reference(form, epsilon, M, bias, g, x0):
    d = x0.shape[1]
    W = M[..., :d, :]
    A = M[..., d:, :]
    if bias is not None:
        bias = of_sequences(bias, x0)
    numbers = g.new_full((1,), epsilon)
    return reference(form, None, W, A, numbers, g, bias, x0)


def _shapes(a):
    y = a.g.shape if a.form >= EULER else (0, *a.x0.shape)
    return [a.g.shape, a.x0.shape, y]


_DENSE = Recurrence(
    "dense_cuda",
    settings="int form, float epsilon",
    inputs="M bias? g:1 x0:0",
    results="outputs x_end y",
    saved="M bias x0 outputs y",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
    runs=True,
)


def _cornn_forward(dt, gamma, r, M, g, y0, z0, y, y_end, z_end, z, f):
    tensors = M.mT.contiguous(), None, g, y0, z0, y, f, z, y_end, z_end
    numbers = dt, gamma, r, len(g), len(y0) // runs_of(M)
    launch_rows(_forward_kernel, y0, *tensors, *numbers, **_sizes(CORNN, M))


def _cornn_backward(dt, gamma, r, M, y0, z0, y, z, f, from_y, from_y_end, from_z_end):
    delta, of_y0, of_z0 = torch.empty_like(f), torch.empty_like(y0), torch.empty_like(z0)
    tensors = M, f, from_y, from_y_end, from_z_end, delta, of_y0, of_z0
    flags = flag(from_y_end), flag(from_z_end)
    numbers = *flags, dt, gamma, r, len(y), len(y0) // runs_of(M)
    sizes = _sizes(CORNN, M)
    launch_rows(_backward_kernel, y0, *tensors, *numbers, **sizes, arriving=flag(from_y))

    def of_M():
        of_W = state_products(M, delta, y0, y)()
        of_W_z = state_products(M, delta, z0, z)()
        return torch.cat([of_W, of_W_z], dim=-1)

    return of_M, delta, of_y0, of_z0


_CORNN = Recurrence(
    "cornn_cuda", forward=_cornn_forward, backward=_cornn_backward, arrays=False, **OPERATOR
)


@engine("cornn", most_units=most_units(_BUFFERS[CORNN]), runs=True)
def cornn(weights, state, u):
    """Run coRNN, (3) of Rusch and Mishra; shapes as in `longrnn.cells.Cell.forward`."""
    return run_by(_CORNN, weights, state, u)


def _register(cell: str, form: int) -> None:
    @engine(cell, most_units=most_units(_BUFFERS[form]), runs=True)
    def run(weights, state, u):
        _, W, A, numbers, bias, R, b = NETWORKS[cell](*weights)
        M = W if A is None else torch.cat([W, A])
        (epsilon,) = numbers or [0.0]
        sources = Sources(u, R, b)
        return _DENSE(form, float(epsilon), M, bias, sources.drive(), state[0], sources=sources)


_register("rnn", BASIC)
_register("exponential", MODRELU)
_register("antisymmetric", EULER)
_register("lipschitz", LIPSCHITZ)
