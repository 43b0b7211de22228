r"""The incremental RNN on the GPU: one block for some sequences of a run, one thread for each unit.

Forward and adjoint are those of `lib.kernels.cpu_irnn`. A product is one thread for each row; of low rank it takes two turns,
V of what H makes of the vector, with a barrier between.

Stored: the outputs, what every product multiplies (s, in form (8) a too) and z, all of every inner step. The way back writes the
deltas beside them, and PyTorch forms the gradients of the matrices and the step sizes from both.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, d, kernel, launch_rows, rank, real, tile
from lib.kernels._cuda_device import PHI, ZERO, activate, locate, products, times_slope
from lib.kernels._cuda_engine import check_hidden, drive, engine, gradient, per_chain

_BUFFERS = 5  # vectors in shared memory


@kernel
def _forward(
    phi, K, twice, previous, U, V, H, scalars, eta, r, h0, factors, z, outputs, T, batch
):  # fmt: skip
    """The matrices are transposed, `scalars` (run, 2) holds alpha and the sign, `eta` is (run, time, batch, K).

    `factors` (run, time, batch, K or 2 K, d) receives all s and then all a, `z` (run, time, batch, K, d) the activations.
    """
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    r_t, total = cuda.local.array(tile, real), cuda.local.array(tile, real)
    run = locate(places, cuda.blockIdx.x, batch, 1)
    alpha, sign = scalars[2 * run], scalars[2 * run + 1]
    U_at, V_at, count = run * d * d, run * d * rank, K + K * twice
    here = run * T * batch
    memory = cuda.shared.array(0, real)
    h, g, s, a, inner = 0, d * tile, 2 * d * tile, 3 * d * tile, 4 * d * tile
    for j in range(row, d, rows):
        for i in range(tile):
            memory[h + j * tile + i] = h0[(run * batch + places[i]) * d + j]
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
            if rank > 0:
                for j in range(row, rank, rows):
                    products(total, H, V_at + j, rank, memory, s, d)
                    for i in range(tile):
                        memory[inner + j * tile + i] = total[i]
                cuda.syncthreads()
            for j in range(row, d, rows):
                for i in range(tile):
                    r_t[i] = r[(here + places[i]) * d + j]  # under way during the product
                if rank > 0:
                    products(total, V, V_at + j, d, memory, inner, rank)
                else:
                    products(total, U, U_at + j, d, memory, s, d)
                for i in range(tile):
                    own, at = j * tile + i, (here + places[i]) * count + K + round_
                    value = total[i] + r_t[i]
                    if rank > 0:
                        value += alpha * memory[s + own]
                    memory[a + own] = value
                    if twice > 0:
                        factors[at * d + j] = value
            cuda.syncthreads()
            if twice * rank > 0:
                for j in range(row, rank, rows):
                    products(total, H, V_at + j, rank, memory, a, d)
                    for i in range(tile):
                        memory[inner + j * tile + i] = total[i]
                cuda.syncthreads()
            for j in range(row, d, rows):
                if twice > 0:
                    if rank > 0:
                        products(total, V, V_at + j, d, memory, inner, rank)
                    else:
                        products(total, U, U_at + j, d, memory, a, d)
                for i in range(tile):
                    own, at = j * tile + i, (here + places[i]) * K + round_
                    value = memory[a + own]
                    if twice > 0:
                        value = total[i] + (alpha * value if rank > 0 else ZERO)
                    value = activate(phi, value)
                    z[at * d + j] = value
                    memory[g + own] += eta[at] * (value - alpha * memory[s + own])
        for j in range(row, d, rows):
            for i in range(tile):
                own = j * tile + i
                memory[h + own] = memory[g + own]
                outputs[(here + places[i]) * d + j] = memory[g + own]
        here += batch


@kernel
def _backward(
    phi, K, twice, previous, U, V, H, scalars, eta, factors, z, from_outputs, carried, deltas, shares,
    T, batch,
):  # fmt: skip
    """`carried` is the gradient of the final state and becomes that of the initial one; `shares` add up to those of eta."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places, total = cuda.local.array(tile, np.int64), cuda.local.array(tile, real)
    run = locate(places, cuda.blockIdx.x, batch, 1)
    alpha, sign = scalars[2 * run], scalars[2 * run + 1]
    U_at, V_at, count = run * d * d, run * d * rank, K + K * twice
    here = (run * T + T - 1) * batch
    memory = cuda.shared.array(0, real)
    gamma, back, delta, rho, inner = 0, d * tile, 2 * d * tile, 3 * d * tile, 4 * d * tile
    for j in range(row, d, rows):
        for i in range(tile):
            memory[back + j * tile + i] = carried[(run * batch + places[i]) * d + j]
    for _ in range(T):
        for j in range(row, d, rows):
            for i in range(tile):
                own = j * tile + i
                memory[gamma + own] = from_outputs[(here + places[i]) * d + j] + memory[back + own]
                memory[back + own] = ZERO
        for round_ in range(K - 1, -1, -1):
            for j in range(row, d, rows):
                for i in range(tile):
                    own, at = j * tile + i, (here + places[i]) * count + round_
                    of_K = (here + places[i]) * K + round_
                    value, arrived = z[of_K * d + j], memory[gamma + own]
                    shares[of_K * d + j] = arrived * (value - alpha * factors[at * d + j])
                    value = times_slope(phi, eta[of_K] * arrived, value)
                    memory[delta + own], memory[rho + own] = value, value
                    if twice > 0:
                        deltas[(at + K) * d + j] = value
            cuda.syncthreads()
            if twice > 0:
                if rank > 0:
                    for j in range(row, rank, rows):
                        products(total, V, V_at + j, rank, memory, delta, d)
                        for i in range(tile):
                            memory[inner + j * tile + i] = total[i]
                    cuda.syncthreads()
                for j in range(row, d, rows):
                    if rank > 0:
                        products(total, H, V_at + j, d, memory, inner, rank)
                    else:
                        products(total, U, U_at + j, d, memory, delta, d)
                    for i in range(tile):
                        own = j * tile + i
                        value = total[i]
                        if rank > 0:
                            value += alpha * memory[delta + own]
                        memory[rho + own] = value
                cuda.syncthreads()
            if rank > 0:
                for j in range(row, rank, rows):
                    products(total, V, V_at + j, rank, memory, rho, d)
                    for i in range(tile):
                        memory[inner + j * tile + i] = total[i]
                cuda.syncthreads()
            for j in range(row, d, rows):
                if rank > 0:
                    products(total, H, V_at + j, d, memory, inner, rank)
                else:
                    products(total, U, U_at + j, d, memory, rho, d)
                for i in range(tile):
                    own, at = j * tile + i, (here + places[i]) * count + round_
                    step = eta[(here + places[i]) * K + round_]
                    deltas[at * d + j] = memory[rho + own]
                    change = total[i] - alpha * step * memory[gamma + own]
                    if rank > 0:
                        change += alpha * memory[rho + own]
                    memory[gamma + own] += change
                    memory[back + own] += sign * change
            cuda.syncthreads()
        for j in range(row, d, rows):
            for i in range(tile):
                own = j * tile + i
                memory[back + own] += memory[gamma + own] if previous > 0 else ZERO
        here -= batch
    for j in range(row, d, rows):
        for i in range(tile):
            carried[(run * batch + places[i]) * d + j] = memory[back + j * tile + i]


class _Incremental(torch.autograd.Function):
    @staticmethod
    def forward(ctx, numbers: tuple[int, ...], rank: int, U, V, H, scalars, eta, r, h0) -> tuple:
        _, K, twice, _ = numbers
        z = r.new_empty((*r.shape[:3], K, r.shape[3]))
        factors = r.new_empty((*r.shape[:3], K * (1 + twice), r.shape[3]))
        outputs = torch.empty_like(r)
        transposed = (matrix.mT.contiguous() for matrix in (U, V, H))
        parts = *transposed, scalars, eta, r, h0, factors, z, outputs, r.shape[1]
        launch_rows(_forward, h0, *numbers, *parts, buffers=_BUFFERS, rank=rank)
        ctx.numbers, ctx.rank = numbers, rank
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(U, V, H, scalars, eta, h0, factors, z)
        return outputs, outputs[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, from_outputs: Tensor | None, from_final: Tensor | None) -> tuple:
        U, V, H, scalars, eta, h0, factors, z = ctx.saved_tensors
        carried = gradient(from_final, h0).clone()
        deltas, shares = torch.empty_like(factors), torch.empty_like(z)
        matrices = (matrix.contiguous() for matrix in (U, V, H))
        states = factors, z, gradient(from_outputs, z[:, :, :, 0]), carried, deltas, shares
        parts = *matrices, scalars, eta, *states, z.shape[1]
        launch_rows(_backward, h0, *ctx.numbers, *parts, buffers=_BUFFERS, rank=ctx.rank)
        left, right = deltas.flatten(1, 3), factors.flatten(1, 3)
        U_gradient = V_gradient = H_gradient = None
        if ctx.needs_input_grad[2]:
            U_gradient = torch.bmm(left.mT, right)
        if ctx.needs_input_grad[3]:
            V_gradient = torch.bmm(left.mT, torch.bmm(right, H.mT))
        if ctx.needs_input_grad[4]:
            H_gradient = torch.bmm(torch.bmm(left, V).mT, right)
        of_eta, of_r = shares.sum(dim=-1), deltas[:, :, :, : z.shape[3]].sum(dim=3)
        return None, None, U_gradient, V_gradient, H_gradient, None, of_eta, of_r, carried


@engine("irnn")
def irnn(weights, state, u):
    """The incremental RNN, (5) and (8) of Kag et al.; shapes as in `lib.cells.Cell.forward`, with runs or without."""
    U, V, H, W, b, eta, alpha, sign, form, from_zero, phi = weights
    check_hidden("irnn", state, W.shape[-2])
    if isinstance(form, Tensor) or isinstance(from_zero, Tensor):
        raise ValueError(
            "irnn: expected networks of one form and one inner start, got several; stack those that agree"
        )
    h0, *rounds = state
    h0 = h0.contiguous()
    r = drive("irnn", u, W, b)
    runs, T, batch, _ = r.shape
    if (
        rounds
    ):  # (run, K, rounds) to (run, time, batch, K), by the rounds that each sequence has done
        times = torch.arange(T, device=r.device)[:, None] + rounds[0][:, None, :, 0].long()
        eta = eta.mT[torch.arange(runs, device=r.device)[:, None, None], times]
    else:
        eta = eta[:, None, None].expand(runs, T, batch, -1)
    scalars = torch.stack([per_chain(part, h0)[:, 0, 0] for part in (alpha, sign)], dim=-1)
    rank = 0 if V is None else V.shape[-1]
    numbers = PHI[phi], eta.shape[-1], int(form == 8), int(not from_zero)
    none = h0.new_zeros(runs, 1, 1)
    matrices = (none if matrix is None else matrix for matrix in (U, V, H))
    outputs, h = _Incremental.apply(numbers, rank, *matrices, scalars, eta.contiguous(), r, h0)
    return outputs, (h, *(part + T for part in rounds))
