r"""Networks with one dense step on the GPU: a block for a few sequences, a thread for each unit.

The basic RNN, the exponential, the antisymmetric and the Lipschitz RNN share these kernels, which
are compiled for each of them (`form`). The forward and adjoint equations, and what is stored, are
those of `longrnn.kernels.cpu_rnn`. The two matrices of the Lipschitz RNN are stacked vertically,
and so are its :math:`\delta_t` and :math:`\epsilon \lambda_t`. So a backward step is one product,
and both gradients are one product.

The states at t and t - 1 alternate between two halves of the shared memory, so that one barrier per
step is enough. Neighboring threads read neighboring weights: of the matrix in the backward kernel,
and of a transposed copy in the forward kernel. Up to about 200 units the weights stay in the L1
cache. A thread reads each weight once for all sequences of the block.

One launch takes several runs, whose batches follow one another. A block computes sequences of one
run, and reads the weights of one network. `longrnn.kernels._cuda_dense` explains the indices.
"""

import numpy as np
import torch

from longrnn.kernels import cuda_persistent_rnn
from longrnn.kernels._cpu_dense import BASIC, EULER, LIPSCHITZ, MODRELU, modrelu
from longrnn.kernels._cpu_dense_operator import reference, shapes
from longrnn.kernels._cuda import cuda, engine
from longrnn.kernels._cuda_dense import (
    dot_products,
    load_vectors,
    run_of,
    set_offsets_in_run,
    store_vectors,
)
from longrnn.kernels._cuda_device import ONE, ZERO, device_version, load_or_zero, tanh
from longrnn.kernels._cuda_kernel import arriving, d, kernel, real, tile
from longrnn.kernels._cuda_launch import is_present, launch_runs, most_units
from longrnn.kernels._cuda_persistent import is_persistent
from longrnn.kernels._drive import Sources
from longrnn.kernels._products import state_products
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import broadcast_over_sequences, sum_over_runs
from longrnn.kernels.cpu_rnn import NETWORKS

_modrelu = device_version(modrelu)

form = BASIC
"""Compile-time constant: the network."""
_BUFFERS = {BASIC: 2, MODRELU: 2, EULER: 3, LIPSCHITZ: 5}
"""Vectors in shared memory of the backward kernel. The forward kernel gets as many and uses two."""


@kernel
def _forward_kernel(
    M_T, bias, g, x0, outputs, activations, x_end, epsilon, T, sequences, batch
):  # fmt: skip
    """Run all steps of the sequences of a block.

    `M_T` is the transposed matrix of each run, (d, d), or (d, 2 d) with W and A. There are
    `sequences` per run, together `batch`. `bias` (runs, d) is the modReLU's b; the other networks
    have none. `epsilon` is the size of an Euler step. If the state is not the value of tanh,
    `activations` receives that value.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_t = cuda.local.array(tile, real)
    total = cuda.local.array(tile, real)
    linear = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    columns = d  # of `M_T`
    if form == LIPSCHITZ:
        columns = 2 * d
    M_start = run * d * columns
    memory = cuda.shared.array(0, real)
    now_at = 0
    next_at = d * tile
    load_vectors(memory, now_at, x0, offsets, thread, threads, d)
    cuda.syncthreads()  # the initial state is complete
    base = 0  # offset of the time step
    for _ in range(T):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the product, which hides the latency
                g_t[i] = g[base + offsets[i] + j]
            dot_products(total, M_T, M_start + j, columns, memory, now_at, d)
            if form == LIPSCHITZ:
                dot_products(linear, M_T, M_start + d + j, columns, memory, now_at, d)
            for i in range(tile):
                slot = j * tile + i
                index = base + offsets[i] + j
                value = total[i] + g_t[i]
                if form == MODRELU:
                    value = _modrelu(value, bias[run * d + j])
                else:
                    value = tanh(value)
                if form >= EULER:  # the state is not the value of tanh
                    activations[index] = value
                if form == LIPSCHITZ:
                    value += linear[i]
                if form >= EULER:
                    value = memory[now_at + slot] + epsilon * value
                memory[next_at + slot] = value
                outputs[index] = value
            j += threads
        cuda.syncthreads()  # the next state is complete, and this one is read
        now_at, next_at = next_at, now_at
        base += batch * d
    store_vectors(x_end, memory, now_at, offsets, thread, threads, d)


@kernel
def _backward_kernel(
    M, activations, grad_outputs, grad_x_end, delta, grad_x0, has_x_end, epsilon, T,
    sequences, batch,
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    `M` is (d, d), or (2 d, d) with W and A. `delta` (time, batch, rows of `M`) receives the
    gradients with respect to the products: those with respect to W x, and behind them those with
    respect to A x.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    y_t = cuda.local.array(tile, real)
    arrived = cuda.local.array(tile, real)
    back = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    rows = d  # of `M`
    if form == LIPSCHITZ:
        rows = 2 * d
    M_start = run * rows * d
    memory = cuda.shared.array(0, real)
    now_at = 0  # the deltas of this step
    later_at = rows * tile  # and those of the step after it
    # Only the thread that wrote lambda reads it: the part of the gradient with respect to the state
    # that bypasses the products.
    lambda_at = 2 * rows * tile
    base = (T - 1) * batch * d  # offset of the time step
    for t in range(T - 1, -1, -1):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the product, which hides the latency
                y_t[i] = activations[base + offsets[i] + j]
                arrived[i] = load_or_zero(grad_outputs, base + offsets[i] + j, arriving)
            if t == T - 1:
                for i in range(tile):
                    back[i] = load_or_zero(grad_x_end, offsets[i] + j, has_x_end)
            else:
                dot_products(back, M, M_start + j, d, memory, later_at, rows)
            for i in range(tile):
                slot = j * tile + i
                index = (base + offsets[i]) * (rows // d) + j
                d_t = arrived[i] + back[i]
                if form >= EULER:
                    if t < T - 1:
                        d_t += memory[lambda_at + slot]
                    memory[lambda_at + slot] = d_t
                    d_t *= epsilon
                if form == LIPSCHITZ:  # A x bypasses tanh
                    memory[now_at + d * tile + slot] = d_t
                    delta[index + d] = d_t
                if form == MODRELU:
                    if y_t[i] == ZERO:
                        d_t = ZERO
                else:
                    d_t *= ONE - y_t[i] * y_t[i]
                memory[now_at + slot] = d_t
                delta[index] = d_t
            j += threads
        cuda.syncthreads()  # the deltas are complete, and the later ones are read
        now_at, later_at = later_at, now_at
        base -= batch * d
    j = thread
    while j < d:
        dot_products(back, M, M_start + j, d, memory, later_at, rows)
        for i in range(tile):
            gradient = back[i]
            if form >= EULER:
                gradient += memory[lambda_at + j * tile + i]
            grad_x0[offsets[i] + j] = gradient
        j += threads


def _forward(form, epsilon, M, bias, g, x0, outputs, x_end, y):
    tensors = M.mT.contiguous(), bias, g, x0, outputs, y, x_end
    options = {"buffers": _BUFFERS[form], "form": form}
    launch_runs(_forward_kernel, x0, (M,), *tensors, epsilon, len(g), **options)


def _backward(form, epsilon, M, bias, x0, outputs, y, grad_outputs, grad_x_end):
    if form < EULER:
        y = outputs
    delta = outputs.new_empty(*outputs.shape[:2], M.shape[-2])
    grad_x0 = torch.empty_like(x0)
    tensors = M, y, grad_outputs, grad_x_end, delta, grad_x0
    numbers = is_present(grad_x_end), epsilon, len(y)
    options = {"buffers": _BUFFERS[form], "form": form, "arriving": is_present(grad_outputs)}
    launch_runs(_backward_kernel, x0, (M,), *tensors, *numbers, **options)

    grad_M = state_products(M, delta, x0, outputs)
    grad_bias = None
    if form == MODRELU:

        def grad_bias():
            return sum_over_runs(M, delta * outputs.sign())

    grad_g = delta
    if form == LIPSCHITZ:
        grad_g = delta[..., : x0.shape[1]].contiguous()
    return grad_M, grad_bias, grad_g, grad_x0


def _reference(form, epsilon, M, bias, g, x0):
    d = x0.shape[1]
    W = M[..., :d, :]
    A = M[..., d:, :]
    if bias is not None:
        bias = broadcast_over_sequences(bias, x0)
    numbers = g.new_full((1,), epsilon)
    return reference(form, None, W, A, numbers, g, bias, x0)


_DENSE = Recurrence(
    "dense_cuda",
    settings="int form, float epsilon",
    inputs="M bias? g:1 x0:0",
    results="outputs x_end y",
    saved="M bias x0 outputs y",
    shapes=shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
    takes_networks=True,
)


def _register(cell: str, form: int) -> None:
    options = ()
    if form == BASIC:
        options = ("variant",)

    @engine(cell, most_units=most_units(_BUFFERS[form]), takes_networks=True, options=options)
    def run(weights, state, u, *, variant: str = "auto"):
        """Run the cell; the basic RNN by a `variant`, see `is_persistent`."""
        if form == BASIC and is_persistent(cell, variant, cuda_persistent_rnn.layouts, state[0]):
            W, R, b = weights
            sources = Sources(u, R, b)
            return cuda_persistent_rnn.RNN(W, sources.drive(), state[0], sources=sources)
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
