r"""Networks with one dense step on the GPU: a block for a few sequences, a thread for each unit.

The basic RNN, the exponential, the antisymmetric and the Lipschitz RNN and coRNN share their
kernels, which are compiled for each of them (`form`). The forward and adjoint equations, and what
is stored, are those of `longrnn.kernels.cpu_rnn` and of `longrnn.kernels.cpu_cornn`. The two
matrices of the Lipschitz RNN are stacked vertically, and so are its :math:`\delta_t` and
:math:`\epsilon \lambda_t`: the backward kernel needs one product, and one product gives both
gradients. Those of coRNN are side by side, and its state is its positions and then its velocities.

The states at t and t - 1 alternate between two halves of the shared memory, so that one barrier per
step is enough. Neighboring threads read neighboring weights: of the matrix in the backward kernel,
and of a transposed copy in the forward kernel. Up to about 200 units the weights stay in the first
cache. A thread reads each weight once for all sequences of the block.

One launch takes several runs, whose batches follow one another. A block computes sequences of one
run, and reads the weights of one network.
"""

import numpy as np
import torch

from longrnn.kernels import cuda_persistent_rnn
from longrnn.kernels._cpu_dense import BASIC, EULER, FAST, LIPSCHITZ, MODRELU, modrelu
from longrnn.kernels._cpu_dense_operator import reference
from longrnn.kernels._cuda import cuda, engine
from longrnn.kernels._cuda_chains import of_sequences
from longrnn.kernels._cuda_dense import (
    dot_products,
    load_vectors,
    set_offsets_in_run,
    store_vectors,
)
from longrnn.kernels._cuda_device import ONE, ZERO, device_version, load_or_zero, tanh
from longrnn.kernels._cuda_kernel import d, kernel, real, tile
from longrnn.kernels._cuda_launch import is_present, launch_runs, most_units
from longrnn.kernels._cuda_persistent import is_persistent
from longrnn.kernels._drive import Sources
from longrnn.kernels._products import state_products
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels.cpu_cornn import OPERATOR, oscillate, pull_back, run_by
from longrnn.kernels.cpu_rnn import NETWORKS

_modrelu = device_version(modrelu)
_oscillate = device_version(oscillate)
_pull_back = device_version(pull_back)

CORNN = FAST  # the number is free: FastRNN has no kernel here. In both the state is not tanh(..)
form = BASIC
"""Compile-time constant: the network."""
arriving = 0
"""Compile-time constant: whether gradients of the outputs arrive."""
_BUFFERS = {BASIC: 2, MODRELU: 2, EULER: 3, LIPSCHITZ: 5, CORNN: 4}
"""Vectors in shared memory of the backward kernel. The forward kernel uses two, coRNN's four."""


@kernel
def _forward_kernel(
    M_T, bias, g, x0, z0, outputs, y, z, x_end, z_end, dt, gamma, r, T, sequences, batch
):  # fmt: skip
    """Run all steps of the sequences of a block.

    `M_T` is the transposed matrix of each run: (d, d), (d, 2 d) with W and A, or (2 d, d) of coRNN.
    There are `sequences` per run, together `batch`. `bias` (runs, d) is the modReLU's b. `dt` is
    the step size of an Euler step or of coRNN. If the state is not the value of tanh, `y` receives
    that value. `z` receives coRNN's velocities.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_t = cuda.local.array(tile, real)
    total = cuda.local.array(tile, real)
    linear = cuda.local.array(tile, real)
    run = cuda.blockIdx.y
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    columns = d  # of `M_T`
    rows = d
    if form == LIPSCHITZ:
        columns = 2 * d
    if form == CORNN:
        rows = 2 * d
    matrix = run * rows * columns  # where the run's matrix begins
    memory = cuda.shared.array(0, real)
    now = 0
    following = rows * tile
    velocities = d * tile  # offset of coRNN's velocities from its positions
    load_vectors(memory, now, x0, offsets, thread, threads, d)
    if form == CORNN:
        load_vectors(memory, now + velocities, z0, offsets, thread, threads, d)
    cuda.syncthreads()
    base = 0  # offset of the time step
    for _ in range(T):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the product, which hides the latency
                g_t[i] = g[base + offsets[i] + j]
            dot_products(total, M_T, matrix + j, columns, memory, now, rows)
            if form == LIPSCHITZ:
                dot_products(linear, M_T, matrix + d + j, columns, memory, now, d)
            for i in range(tile):
                slot = j * tile + i
                index = base + offsets[i] + j
                value = total[i] + g_t[i]
                if form == MODRELU:
                    value = _modrelu(value, bias[run * d + j])
                else:
                    value = tanh(value)
                if form >= EULER:
                    y[index] = value
                if form == LIPSCHITZ:
                    value += linear[i]
                if form == CORNN:
                    velocity = memory[now + velocities + slot]
                    position = memory[now + slot]
                    value, velocity = _oscillate(dt, gamma, r, value, position, velocity)
                    memory[following + velocities + slot] = velocity
                    z[index] = velocity
                elif form >= EULER:
                    value = memory[now + slot] + dt * value
                memory[following + slot] = value
                outputs[index] = value
            j += threads
        cuda.syncthreads()
        now, following = following, now
        base += batch * d
    store_vectors(x_end, memory, now, offsets, thread, threads, d)
    if form == CORNN:
        store_vectors(z_end, memory, now + velocities, offsets, thread, threads, d)


@kernel
def _backward_kernel(
    M, y, grad_outputs, grad_x_end, grad_z_end, delta, grad_x0, grad_z0,
    has_x_end, has_z_end, dt, gamma, r, T, sequences, batch,
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    `M` is (d, d), (2 d, d) with W and A, or (d, 2 d) of coRNN. `delta` (time, batch, rows of `M`)
    receives the gradients of its products.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    y_t = cuda.local.array(tile, real)
    arrived = cuda.local.array(tile, real)
    back = cuda.local.array(tile, real)
    back_z = cuda.local.array(tile, real)
    run = cuda.blockIdx.y
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    rows = d  # of `M`
    columns = d
    if form == LIPSCHITZ:
        rows = 2 * d
    if form == CORNN:
        columns = 2 * d
    matrix = run * rows * columns  # where the run's matrix begins
    memory = cuda.shared.array(0, real)
    now = 0  # the deltas of this step, and of the one after it
    following = rows * tile
    lambda_ = 2 * rows * tile  # values that only one thread uses
    mu = 3 * rows * tile
    base = (T - 1) * batch * d  # offset of the time step
    for t in range(T - 1, -1, -1):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the product, which hides the latency
                y_t[i] = y[base + offsets[i] + j]
                arrived[i] = load_or_zero(grad_outputs, base + offsets[i] + j, arriving)
            if t == T - 1:
                for i in range(tile):
                    back[i] = load_or_zero(grad_x_end, offsets[i] + j, has_x_end)
                    back_z[i] = load_or_zero(grad_z_end, offsets[i] + j, has_z_end)
                    if form == CORNN:
                        memory[lambda_ + j * tile + i] = ZERO
                        memory[mu + j * tile + i] = ZERO
            else:
                dot_products(back, M, matrix + j, columns, memory, following, rows)
                if form == CORNN:
                    dot_products(back_z, M, matrix + d + j, columns, memory, following, rows)
            for i in range(tile):
                slot = j * tile + i
                index = (base + offsets[i]) * (rows // d) + j
                value = arrived[i] + back[i]
                if form == CORNN:
                    direct = arrived[i] + memory[lambda_ + slot] + back[i]
                    direct_z = memory[mu + slot] + back_z[i]
                    direct, direct_z, value = _pull_back(dt, gamma, r, y_t[i], direct, direct_z)
                    memory[lambda_ + slot] = direct
                    memory[mu + slot] = direct_z
                elif form >= EULER:
                    if t < T - 1:
                        value += memory[lambda_ + slot]
                    memory[lambda_ + slot] = value
                    value *= dt
                if form == LIPSCHITZ:
                    memory[now + d * tile + slot] = value
                    delta[index + d] = value
                if form == MODRELU:
                    if y_t[i] == ZERO:
                        value = ZERO
                elif form != CORNN:
                    value *= ONE - y_t[i] * y_t[i]
                memory[now + slot] = value
                delta[index] = value
            j += threads
        cuda.syncthreads()
        now, following = following, now
        base -= batch * d
    j = thread
    while j < d:
        dot_products(back, M, matrix + j, columns, memory, following, rows)
        if form == CORNN:
            dot_products(back_z, M, matrix + d + j, columns, memory, following, rows)
        for i in range(tile):
            slot = j * tile + i
            value = back[i]
            if form >= EULER:
                value += memory[lambda_ + slot]
            grad_x0[offsets[i] + j] = value
            if form == CORNN:
                grad_z0[offsets[i] + j] = memory[mu + slot] + back_z[i]
        j += threads


def _forward(form, epsilon, M, bias, g, x0, outputs, x_end, y):
    tensors = M.mT.contiguous(), bias, g, x0, None, outputs, y, None, x_end, None
    numbers = epsilon, 0.0, 0.0, len(g)
    forms = {"buffers": _BUFFERS[form], "form": form}
    launch_runs(_forward_kernel, x0, (M,), *tensors, *numbers, **forms)


def _backward(form, epsilon, M, bias, x0, outputs, y, grad_outputs, grad_x_end):
    y = y if form >= EULER else outputs
    delta = outputs.new_empty(*outputs.shape[:2], M.shape[-2])
    grad_x0 = torch.empty_like(x0)
    tensors = M, y, grad_outputs, grad_x_end, None, delta, grad_x0, None
    numbers = is_present(grad_x_end), 0, epsilon, 0.0, 0.0, len(y)
    forms = {"buffers": _BUFFERS[form], "form": form, "arriving": is_present(grad_outputs)}
    launch_runs(_backward_kernel, x0, (M,), *tensors, *numbers, **forms)

    def grad_bias():
        parts = delta * outputs.sign()
        if M.dim() == 2:
            return parts.sum((0, 1))
        return parts.unflatten(1, (len(M), -1)).sum((0, 2))

    grad_g = delta[..., : x0.shape[1]].contiguous() if form == LIPSCHITZ else delta
    grad_M = state_products(M, delta, x0, outputs)
    return grad_M, grad_bias if form == MODRELU else None, grad_g, grad_x0


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
    numbers = dt, gamma, r, len(g)
    forms = {"buffers": _BUFFERS[CORNN], "form": CORNN}
    launch_runs(_forward_kernel, y0, (M,), *tensors, *numbers, **forms)


def _cornn_backward(dt, gamma, r, M, y0, z0, y, z, f, grad_y, grad_y_end, grad_z_end):
    delta = torch.empty_like(f)
    grad_y0 = torch.empty_like(y0)
    grad_z0 = torch.empty_like(z0)
    tensors = M, f, grad_y, grad_y_end, grad_z_end, delta, grad_y0, grad_z0
    flags = is_present(grad_y_end), is_present(grad_z_end)
    numbers = *flags, dt, gamma, r, len(y)
    forms = {"buffers": _BUFFERS[CORNN], "form": CORNN, "arriving": is_present(grad_y)}
    launch_runs(_backward_kernel, y0, (M,), *tensors, *numbers, **forms)

    def grad_M():
        grad_W = state_products(M, delta, y0, y)()
        grad_W_z = state_products(M, delta, z0, z)()
        return torch.cat([grad_W, grad_W_z], dim=-1)

    return grad_M, delta, grad_y0, grad_z0


_CORNN = Recurrence(
    "cornn_cuda", forward=_cornn_forward, backward=_cornn_backward, arrays=False, **OPERATOR
)


@engine("cornn", most_units=most_units(_BUFFERS[CORNN]), runs=True)
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


def _register(cell: str, form: int) -> None:
    options = ("variant",) if form == BASIC else ()

    @engine(cell, most_units=most_units(_BUFFERS[form]), runs=True, options=options)
    def run(weights, state, u, *, variant: str = "auto"):
        """Run the cell; the basic RNN by a `variant`, see `is_persistent`."""
        if form == BASIC and is_persistent(cell, variant, cuda_persistent_rnn.GATES, state[0]):
            W, R, b = weights
            sources = Sources(u, R, b)
            return cuda_persistent_rnn.RECURRENCE(W, sources.drive(), state[0], sources=sources)
        network = NETWORKS[cell](*weights)
        M = network.W
        if network.A is not None:
            M = torch.cat([network.W, network.A])
        epsilon = 0.0
        if network.numbers:
            epsilon = float(network.numbers[0])
        sources = Sources(u, network.R, network.b)
        g = sources.drive()
        return _DENSE(form, epsilon, M, network.bias, g, state[0], sources=sources)


_register("rnn", BASIC)
_register("exponential", MODRELU)
_register("antisymmetric", EULER)
_register("lipschitz", LIPSCHITZ)
