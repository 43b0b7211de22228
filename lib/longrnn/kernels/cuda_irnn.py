r"""The incremental RNN on the GPU: one block for some sequences, one thread for each unit.

Forward and adjoint are those of `longrnn.kernels.cpu_irnn`, but a matrix of low rank is formed once
per call: as two products it would take a barrier more in every inner step, and leave most threads
idle during the first.

Stored: the outputs, what every product multiplies (s, in form (8) a too) and z, all of every inner
step. The backward kernel writes the deltas beside them, and PyTorch forms the gradients of the
matrix and the step sizes from both.
"""

import numpy as np
import torch

from longrnn.kernels._cpu import PHI
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
    unbounded,
)
from longrnn.kernels._cuda_device import ZERO, activate, locate, products, times_slope
from longrnn.kernels._recurrence import Recurrence, drive, sum_of_products
from longrnn.kernels.cpu_irnn import reference, step_sizes

_BUFFERS = 4  # vectors in shared memory
arriving = 0
"""Compile-time constant: whether gradients of the outputs arrive."""


@unbounded  # with bounds some of its registers spill
def _forward_kernel(
    phi, K, twice, previous, alpha, sign, U_T, eta, r, h0, factors, z, outputs, h_end, T, batch
):
    """`U_T` is transposed, `eta` is (time, batch, K).

    `factors` (time, batch, K or 2 K, d) receives all s and then all a, `z` (time, batch, K, d) the
    activations.
    """
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    r_t, total = cuda.local.array(tile, real), cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, 1)
    count = K + K * twice
    here = 0
    memory = cuda.shared.array(0, real)
    h, g, s, a = 0, d * tile, 2 * d * tile, 3 * d * tile
    for j in range(row, d, rows):
        for i in range(tile):
            memory[h + j * tile + i] = h0[places[i] * d + j]
    for _ in range(T):
        for j in range(row, d, rows):
            for i in range(tile):
                own = j * tile + i
                memory[g + own] = memory[h + own] if previous > 0 else ZERO
        for round_ in range(K):
            for j in range(row, d, rows):
                for i in range(tile):
                    own, at = j * tile + i, (here + places[i]) * count + round_
                    value = memory[g + own] + sign * memory[h + own]
                    memory[s + own], factors[at * d + j] = value, value
            cuda.syncthreads()
            factor = s  # what the matrix multiplies
            for turn in range(1 + twice):
                for j in range(row, d, rows):
                    for i in range(tile):
                        r_t[i] = r[(here + places[i]) * d + j]  # under way during the product
                    products(total, U_T, j, d, memory, factor, d)
                    for i in range(tile):
                        own, row_ = j * tile + i, here + places[i]
                        value = total[i]
                        if turn == 0:
                            value += r_t[i]
                        if turn < twice:
                            memory[a + own] = value
                            factors[(row_ * count + K + round_) * d + j] = value
                        else:
                            at = row_ * K + round_
                            value = activate(phi, value)
                            z[at * d + j] = value
                            memory[g + own] += eta[at] * (value - alpha * memory[s + own])
                if turn == 0:
                    cuda.syncthreads()
                factor = a
        for j in range(row, d, rows):
            for i in range(tile):
                own = j * tile + i
                memory[h + own] = memory[g + own]
                outputs[(here + places[i]) * d + j] = memory[g + own]
        here += batch
    for j in range(row, d, rows):
        for i in range(tile):
            h_end[places[i] * d + j] = memory[h + j * tile + i]


@kernel
def _backward_kernel(
    phi, K, twice, previous, alpha, sign, U, eta, factors, z, from_outputs, from_h_end,
    deltas, shares, of_h0, has_h_end, T, batch,
):  # fmt: skip
    """`shares` sum to the gradients of eta."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places, total = cuda.local.array(tile, np.int64), cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, 1)
    count = K + K * twice
    here = (T - 1) * batch
    memory = cuda.shared.array(0, real)
    gamma, back, delta, rho = 0, d * tile, 2 * d * tile, 3 * d * tile
    for j in range(row, d, rows):
        for i in range(tile):
            memory[back + j * tile + i] = from_h_end[places[i] * d + j] if has_h_end else ZERO
    for _ in range(T):
        for j in range(row, d, rows):
            for i in range(tile):
                own = j * tile + i
                arrived = from_outputs[(here + places[i]) * d + j] if arriving else ZERO
                memory[gamma + own] = arrived + memory[back + own]
                memory[back + own] = ZERO
        for round_ in range(K - 1, -1, -1):
            for j in range(row, d, rows):
                for i in range(tile):
                    own, at = j * tile + i, (here + places[i]) * count + round_
                    of_K = (here + places[i]) * K + round_
                    value, gradient = z[of_K * d + j], memory[gamma + own]
                    shares[of_K * d + j] = gradient * (value - alpha * factors[at * d + j])
                    value = times_slope(phi, eta[of_K] * gradient, value)
                    memory[delta + own] = value
                    if twice > 0:
                        deltas[(at + K) * d + j] = value
            factor = delta  # what the transposed matrix multiplies
            for turn in range(1 + twice):
                cuda.syncthreads()
                for j in range(row, d, rows):
                    products(total, U, j, d, memory, factor, d)
                    for i in range(tile):
                        own, row_ = j * tile + i, here + places[i]
                        value = total[i]
                        if turn == twice:
                            step = eta[row_ * K + round_]
                            deltas[(row_ * count + round_) * d + j] = memory[factor + own]
                            value -= alpha * step * memory[gamma + own]
                            memory[gamma + own] += value
                            memory[back + own] += sign * value
                        else:
                            memory[rho + own] = value
                factor = rho
            cuda.syncthreads()
        for j in range(row, d, rows):
            for i in range(tile):
                own = j * tile + i
                memory[back + own] += memory[gamma + own] if previous > 0 else ZERO
        here -= batch
    for j in range(row, d, rows):
        for i in range(tile):
            of_h0[places[i] * d + j] = memory[back + j * tile + i]


def _forward(phi, K, twice, previous, alpha, sign, U, eta, r, h0, outputs, h_end, factors, z):
    numbers = phi, K, twice, previous, alpha, sign
    tensors = U.T.contiguous(), eta, r, h0, factors, z, outputs, h_end
    sizes = {"buffers": _BUFFERS, "weights": U.numel()}
    launch_rows(_forward_kernel, h0, *numbers, *tensors, len(r), **sizes)


def _backward(
    phi, K, twice, previous, alpha, sign, U, eta, r, h0, factors, z, from_outputs, from_h_end
):
    deltas, shares, of_h0 = torch.empty_like(factors), torch.empty_like(z), torch.empty_like(h0)
    numbers = phi, K, twice, previous, alpha, sign
    tensors = U, eta, factors, z, from_outputs, from_h_end, deltas, shares, of_h0
    sizes = {"buffers": _BUFFERS, "weights": U.numel(), "arriving": flag(from_outputs)}
    launch_rows(_backward_kernel, h0, *numbers, *tensors, flag(from_h_end), len(z), **sizes)
    of_U = lambda: sum_of_products(deltas, factors)  # noqa: E731
    of_r = deltas[:, :, :K].sum(dim=2)
    return of_U, shares.sum(dim=-1), of_r, of_h0


def _reference(phi, K, twice, previous, alpha, sign, U, eta, r, h0):
    return reference(phi, twice > 0, previous == 0, (alpha, sign), U, None, None, eta, r, h0)


def _shapes(a):
    T, batch, d = a.r.shape
    products = a.K + a.K * a.twice
    return [a.r.shape, a.h0.shape, (T, batch, products, d), (T, batch, a.K, d)]


# `r` is kept for second derivatives only; it is small beside the factors.
_IRNN = Recurrence(
    "irnn_cuda",
    settings="int phi, int K, int twice, int previous, float alpha, float sign",
    inputs="U eta:1 r:1 h0:0",
    results="outputs h_end factors z",
    saved="U eta r h0 factors z",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
)


@engine("irnn", most_units=most_units(_BUFFERS))
def irnn(weights, state, u):
    """Run the incremental RNN, (5) and (8) of Kag et al.; shapes as in `Cell.forward`."""
    U, V, H, W, b, eta, alpha, sign, form, from_zero, phi = weights
    h0, *rounds = state
    if U is None:
        U = alpha * torch.eye(len(V), dtype=V.dtype, device=V.device) + V @ H
    numbers = PHI[phi], len(eta), int(form == 8), int(not from_zero), float(alpha), float(sign)
    eta = step_sizes(eta, rounds, u)
    outputs, (h,) = _IRNN(*numbers, U, eta, drive(u, W, b), h0)
    return outputs, (h, *(part + len(u) for part in rounds))
