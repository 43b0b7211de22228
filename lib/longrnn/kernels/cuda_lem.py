r"""LEM on the GPU: one block per group of sequences, one thread per hidden unit.

The forward and adjoint equations are those of `longrnn.kernels.cpu_lem`. Here p and q are the
values of the logistic functions in (3), before the factor :math:`\Delta t`; there q and q-bar
include this factor. Without `clip` the time steps are clipped to [0, 2], which never changes them.
With a single scale (Table 9) the weights of p and q are zero and their inputs are infinite, so that
both are 1 and their derivatives are 0.

The states are in shared memory. Neighboring threads read neighboring weights, as in
`longrnn.kernels.cuda_rnn`. Each time step needs two barriers, because y depends on all units of z.

One launch takes several runs, as in `longrnn.kernels.cuda_rnn`.

Stored for the backward pass: y (the output), z, and p q s r. Recomputed: the clipped time steps.
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
    roomy,
    tile,
)
from longrnn.kernels._cuda_device import ZERO, load, locate_in_run, products, shared, sigmoid, tanh
from longrnn.kernels._recurrence import (
    Recurrence,
    Sources,
    runs_of,
    scalars_like,
    state_products,
    sums_of_products,
)
from longrnn.kernels.cpu_lem import clip, pull_back, reference, relax

_clip, _relax, _pull_back = shared(clip), shared(relax), shared(pull_back)
_BUFFERS = 7  # vectors in shared memory of the backward kernel; the forward kernel has two
arriving = 0
"""Compile-time constant: whether gradients of the outputs arrive."""


@kernel
def _forward_kernel(
    W_T, W_y_T, g, y0, z0, y, y_end, z_end, z, gates, dt, least, most, T, sequences, batch
):  # fmt: skip
    """`gates` (time, batch, 4 d) receives p q s r."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    g_1, g_2 = cuda.local.array(tile, real), cuda.local.array(tile, real)
    g_z, g_y = cuda.local.array(tile, real), cuda.local.array(tile, real)
    by_1, by_2 = cuda.local.array(tile, real), cuda.local.array(tile, real)
    by_z, by_y = cuda.local.array(tile, real), cuda.local.array(tile, real)
    run = locate_in_run(places, cuda.blockIdx.x, sequences, d)
    W_of_run = run * 3 * d * d
    W_y_of_run = run * d * d
    here = 0
    memory = cuda.shared.array(0, real)
    y_, z_ = 0, d * tile
    load(memory, y_, y0, places, row, rows, d)
    load(memory, z_, z0, places, row, rows, d)
    cuda.syncthreads()
    for _ in range(T):
        j = row  # no `range`, whose length is a division
        while j < d:
            for i in range(tile):  # under way during the products
                k = 4 * (here + places[i]) + j
                g_1[i], g_2[i], g_z[i] = g[k], g[k + d], g[k + 2 * d]
            products(by_1, W_T, W_of_run + j, 3 * d, memory, y_, d)
            products(by_2, W_T, W_of_run + d + j, 3 * d, memory, y_, d)
            products(by_z, W_T, W_of_run + 2 * d + j, 3 * d, memory, y_, d)
            for i in range(tile):
                own, k = j * tile + i, 4 * (here + places[i]) + j
                p, q = sigmoid(by_1[i] + g_1[i]), sigmoid(by_2[i] + g_2[i])
                s = tanh(by_z[i] + g_z[i])
                gates[k], gates[k + d], gates[k + 2 * d] = p, q, s
                value = _relax(_clip(dt * p, least, most), memory[z_ + own], s)
                memory[z_ + own], z[here + places[i] + j] = value, value
            j += rows
        cuda.syncthreads()
        j = row
        while j < d:
            for i in range(tile):
                g_y[i] = g[4 * (here + places[i]) + 3 * d + j]
            products(by_y, W_y_T, W_y_of_run + j, d, memory, z_, d)
            for i in range(tile):
                own, k = j * tile + i, 4 * (here + places[i]) + j
                q, r = gates[k + d], tanh(by_y[i] + g_y[i])
                gates[k + 3 * d] = r
                value = _relax(_clip(dt * q, least, most), memory[y_ + own], r)
                memory[y_ + own], y[here + places[i] + j] = value, value
            j += rows
        cuda.syncthreads()
        here += batch * d
    j = row
    while j < d:
        for i in range(tile):
            own, there = j * tile + i, places[i] + j
            y_end[there], z_end[there] = memory[y_ + own], memory[z_ + own]
        j += rows


@roomy  # without room a register spills at width 1,024
def _backward_kernel(
    W, W_y, y0, z0, y, z, gates, from_y, from_y_end, from_z_end, delta, of_y0, of_z0,
    has_y_end, has_z_end, dt, least, most, T, sequences, batch,
):  # fmt: skip
    """Backward pass; `of_y0` and `of_z0` receive the gradients of the initial state."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    gate, candidate = cuda.local.array(tile, real), cuda.local.array(tile, real)
    before, arrived = cuda.local.array(tile, real), cuda.local.array(tile, real)
    total = cuda.local.array(tile, real)
    run = locate_in_run(places, cuda.blockIdx.x, sequences, d)
    W_of_run = run * 3 * d * d
    W_y_of_run = run * d * d
    here = (T - 1) * batch * d
    memory = cuda.shared.array(0, real)
    delta_12z, delta_y = 0, 3 * d * tile
    # Offsets in shared memory of values that only one thread uses: lambda and mu of the step
    # before, and delta_2 until the other threads may read it.
    lambda_, mu, held = 4 * d * tile, 5 * d * tile, 6 * d * tile
    j = row
    while j < d:
        for i in range(tile):
            own, there = j * tile + i, places[i] + j
            memory[lambda_ + own] = from_y_end[there] if has_y_end else ZERO
            memory[mu + own] = from_z_end[there] if has_z_end else ZERO
        j += rows
    for n in range(T - 1, -1, -1):
        j = row
        while j < d:
            for i in range(tile):  # under way during the product
                there, k = here + places[i] + j, 4 * (here + places[i]) + j
                gate[i], candidate[i] = gates[k + d], gates[k + 3 * d]
                arrived[i] = from_y[there] if arriving else ZERO
                before[i] = y[there - batch * d] if n > 0 else y0[places[i] + j]
                total[i] = ZERO
            if n < T - 1:
                products(total, W, W_of_run + j, d, memory, delta_12z, 3 * d)
            for i in range(tile):
                own, k = j * tile + i, 4 * (here + places[i]) + j
                q, r = gate[i], candidate[i]
                gradient_y = arrived[i] + memory[lambda_ + own] + total[i]
                step = _clip(dt * q, least, most)
                of_y, of_2, left = _pull_back(q, dt * q, step, before[i], r, gradient_y)
                memory[held + own], memory[delta_y + own] = of_2, of_y
                memory[lambda_ + own] = left
                delta[k + d], delta[k + 3 * d] = of_2, of_y
            j += rows
        cuda.syncthreads()
        j = row
        while j < d:
            for i in range(tile):
                there, k = here + places[i] + j, 4 * (here + places[i]) + j
                gate[i], candidate[i] = gates[k], gates[k + 2 * d]
                before[i] = z[there - batch * d] if n > 0 else z0[places[i] + j]
            products(total, W_y, W_y_of_run + j, d, memory, delta_y, d)
            for i in range(tile):
                own, k = j * tile + i, 4 * (here + places[i]) + j
                p, s = gate[i], candidate[i]
                gradient_z = memory[mu + own] + total[i]
                step = _clip(dt * p, least, most)
                of_z, of_1, left = _pull_back(p, dt * p, step, before[i], s, gradient_z)
                memory[delta_12z + own] = of_1
                memory[delta_12z + d * tile + own] = memory[held + own]
                memory[delta_12z + 2 * d * tile + own] = of_z
                memory[mu + own] = left
                delta[k], delta[k + 2 * d] = of_1, of_z
            j += rows
        cuda.syncthreads()
        here -= batch * d
    j = row
    while j < d:
        products(total, W, W_of_run + j, d, memory, delta_12z, 3 * d)
        for i in range(tile):
            own, there = j * tile + i, places[i] + j
            of_y0[there] = memory[lambda_ + own] + total[i]
            of_z0[there] = memory[mu + own]
        j += rows


def _forward(dt, least, most, W, W_y, g, y0, z0, y, y_end, z_end, z, gates):
    tensors = W.mT.contiguous(), W_y.mT.contiguous(), g, y0, z0, y, y_end, z_end, z, gates
    runs = runs_of(W)
    numbers = dt, least, most, len(g), len(y0) // runs
    launch_rows(_forward_kernel, y0, *tensors, *numbers, **_sizes(W, W_y))


def _sizes(W, W_y):
    """Return what `launch_rows` has to know of networks and their matrices."""
    runs = runs_of(W)
    weights = (W.numel() + W_y.numel()) // runs
    return {"buffers": _BUFFERS, "weights": weights, "runs": runs}


def _backward(dt, least, most, W, W_y, y0, z0, y, z, gates, from_y, from_y_end, from_z_end):
    delta, of_y0, of_z0 = torch.empty_like(gates), torch.empty_like(y0), torch.empty_like(z0)
    d = y.shape[2]
    tensors = W, W_y, y0, z0, y, z, gates, from_y, from_y_end, from_z_end, delta, of_y0, of_z0
    flags = flag(from_y_end), flag(from_z_end)
    numbers = *flags, dt, least, most, len(y), len(y0) // runs_of(W)
    sizes = _sizes(W, W_y)
    launch_rows(_backward_kernel, y0, *tensors, *numbers, **sizes, arriving=flag(from_y))
    of_W = state_products(W, delta[..., : 3 * d], y0, y)
    of_W_y = lambda: sums_of_products(W_y, delta[..., 3 * d :], z)  # noqa: E731
    return of_W, of_W_y, delta, of_y0, of_z0


def _reference(dt, least, most, W, W_y, g, y0, z0):
    rows = W.shape[-2]
    steps = scalars_like(g, dt, least, most)
    return reference(steps, W, W_y, g[..., :rows], g[..., rows:], y0, z0)


def _split_drive(drive, arguments):
    return (_with_single_scale(drive, arguments.W),)


def _with_single_scale(g, W):
    """Return the input terms of all blocks; with a single scale those of p and q are infinite."""
    missing = sum(W.shape[-2:]) - g.shape[2]
    if missing == 0:
        return g
    return torch.cat([torch.full_like(g, torch.inf), g], dim=-1)


def _shapes(a):
    sequence = (len(a.g), *a.y0.shape)
    return [sequence, a.y0.shape, a.z0.shape, sequence, a.g.shape]


_LEM = Recurrence(
    "lem_cuda",
    settings="float dt, float least, float most",
    inputs="W W_y g:1 y0:0 z0:0",
    results="y y_end z_end z gates",
    final=2,
    saved="W W_y y0 z0 y z gates",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    split=_split_drive,
    arrays=False,
    runs=True,
)


@engine("lem", most_units=most_units(_BUFFERS), runs=True)
def lem(weights, state, u):
    """Run LEM, (3) of Rusch et al.; shapes as in `longrnn.cells.Cell.forward`."""
    W, W_y, V, b, dt, clip, single_scale = weights
    if single_scale:
        W = torch.cat([torch.zeros_like(W), torch.zeros_like(W), W])
    sources = Sources(u, V, b)
    g = _with_single_scale(sources.drive(), W)
    least, most = (0.0, 2.0) if clip is None else (float(clip), 1.0)
    return _LEM(float(dt), least, most, W, W_y, g, *state, sources=sources)
