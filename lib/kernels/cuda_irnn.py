r"""The incremental RNN on the GPU: one block for each sequence of each run, one thread for each unit.

Forward and adjoint are those of `lib.kernels.cpu_irnn`. A product is one thread for each row; of low rank it takes two turns,
V of what H makes of the vector, with a barrier between.

Stored: the outputs, what every product multiplies (s, in form (8) a too) and z, all of every inner step. The way back writes the
deltas beside them, and PyTorch forms the gradients of the matrices and the step sizes from both.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, kernel, launch_rows, real
from lib.kernels._cuda_device import PHI, ZERO, activate, dot, times_slope
from lib.kernels._cuda_engine import check_hidden, drive, engine, gradient, per_chain

_BUFFERS = 5  # vectors in shared memory


@kernel
def _forward(
    phi, K, twice, previous, rank, U, V, H, scalars, eta, r, h0, factors, z, outputs, T, batch, d
):  # fmt: skip
    """The matrices are transposed, `scalars` (run, 2) holds alpha and the sign, `eta` is (run, time, batch, K).

    `factors` (run, time, batch, K or 2 K, d) receives all s and then all a, `z` (run, time, batch, K, d) the activations.
    """
    sequence, row, rows = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    run = sequence // batch
    alpha, sign = scalars[2 * run], scalars[2 * run + 1]
    U_at, V_at, count = run * d * d, run * d * rank, K + K * twice
    here = run * T * batch + sequence % batch
    memory = cuda.shared.array(0, real)
    h, g, s = memory[:d], memory[d : 2 * d], memory[2 * d : 3 * d]
    a, inner = memory[3 * d : 4 * d], memory[4 * d : 4 * d + rank]
    for j in range(row, d, rows):
        h[j] = h0[sequence * d + j]
    for _ in range(T):
        for j in range(row, d, rows):
            g[j] = h[j] if previous > 0 else ZERO
        for i in range(K):
            for j in range(row, d, rows):
                s[j] = g[j] + sign * h[j]
                factors[(here * count + i) * d + j] = s[j]
            cuda.syncthreads()
            if rank > 0:
                for j in range(row, rank, rows):
                    inner[j] = dot(H, V_at + j, rank, s)
                cuda.syncthreads()
            for j in range(row, d, rows):
                if rank > 0:
                    a[j] = alpha * s[j] + dot(V, V_at + j, d, inner) + r[here * d + j]
                else:
                    a[j] = dot(U, U_at + j, d, s) + r[here * d + j]
                if twice > 0:
                    factors[(here * count + K + i) * d + j] = a[j]
            cuda.syncthreads()
            if twice * rank > 0:
                for j in range(row, rank, rows):
                    inner[j] = dot(H, V_at + j, rank, a)
                cuda.syncthreads()
            for j in range(row, d, rows):
                value = a[j]
                if twice > 0:
                    if rank > 0:
                        value = alpha * a[j] + dot(V, V_at + j, d, inner)
                    else:
                        value = dot(U, U_at + j, d, a)
                value = activate(phi, value)
                z[(here * K + i) * d + j] = value
                g[j] += eta[here * K + i] * (value - alpha * s[j])
            cuda.syncthreads()
        for j in range(row, d, rows):
            h[j] = g[j]
            outputs[here * d + j] = g[j]
        here += batch


@kernel
def _backward(
    phi, K, twice, previous, rank, U, V, H, scalars, eta, factors, z, from_outputs, carried, deltas,
    shares, r_gradient, T, batch, d,
):  # fmt: skip
    """`carried` is the gradient of the final state and becomes that of the initial one; `shares` add up to those of eta."""
    sequence, row, rows = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    run = sequence // batch
    alpha, sign = scalars[2 * run], scalars[2 * run + 1]
    U_at, V_at, count = run * d * d, run * d * rank, K + K * twice
    here = (run * T + T - 1) * batch + sequence % batch
    memory = cuda.shared.array(0, real)
    gamma, back, delta = memory[:d], memory[d : 2 * d], memory[2 * d : 3 * d]
    rho, inner = memory[3 * d : 4 * d], memory[4 * d : 4 * d + rank]
    for j in range(row, d, rows):
        back[j] = carried[sequence * d + j]
    for _ in range(T):
        for j in range(row, d, rows):
            gamma[j] = from_outputs[here * d + j] + back[j]
            back[j] = ZERO
            r_gradient[here * d + j] = ZERO
        for i in range(K - 1, -1, -1):
            step = eta[here * K + i]
            for j in range(row, d, rows):
                at = (here * K + i) * d + j
                value = z[at]
                shares[at] = gamma[j] * (value - alpha * factors[(here * count + i) * d + j])
                rho[j] = delta[j] = times_slope(phi, step * gamma[j], value)
                if twice > 0:
                    deltas[(here * count + K + i) * d + j] = delta[j]
            cuda.syncthreads()
            if twice > 0:
                if rank > 0:
                    for j in range(row, rank, rows):
                        inner[j] = dot(V, V_at + j, rank, delta)
                    cuda.syncthreads()
                for j in range(row, d, rows):
                    if rank > 0:
                        rho[j] = alpha * delta[j] + dot(H, V_at + j, d, inner)
                    else:
                        rho[j] = dot(U, U_at + j, d, delta)
                cuda.syncthreads()
            if rank > 0:
                for j in range(row, rank, rows):
                    inner[j] = dot(V, V_at + j, rank, rho)
                cuda.syncthreads()
            for j in range(row, d, rows):
                deltas[(here * count + i) * d + j] = rho[j]
                r_gradient[here * d + j] += rho[j]
                if rank > 0:
                    through = alpha * rho[j] + dot(H, V_at + j, d, inner)
                else:
                    through = dot(U, U_at + j, d, rho)
                change = through - alpha * step * gamma[j]
                gamma[j] += change
                back[j] += sign * change
            cuda.syncthreads()
        for j in range(row, d, rows):
            back[j] += gamma[j] if previous > 0 else ZERO
        here -= batch
    for j in range(row, d, rows):
        carried[sequence * d + j] = back[j]


class _Incremental(torch.autograd.Function):
    @staticmethod
    def forward(ctx, numbers: tuple[int, ...], U, V, H, scalars, eta, r, h0) -> tuple:
        _, K, twice, *_ = numbers
        z = r.new_empty((*r.shape[:3], K, r.shape[3]))
        factors = r.new_empty((*r.shape[:3], K * (1 + twice), r.shape[3]))
        outputs = torch.empty_like(r)
        transposed = (matrix.mT.contiguous() for matrix in (U, V, H))
        parts = *transposed, scalars, eta, r, h0, factors, z, outputs, r.shape[1]
        launch_rows(_forward, h0, *numbers, *parts, buffers=_BUFFERS)
        ctx.numbers = numbers
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(U, V, H, scalars, eta, h0, factors, z)
        return outputs, outputs[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, from_outputs: Tensor | None, from_final: Tensor | None) -> tuple:
        U, V, H, scalars, eta, h0, factors, z = ctx.saved_tensors
        carried = gradient(from_final, h0).clone()
        r_gradient = z.new_empty((*z.shape[:3], z.shape[4]))
        deltas, shares = torch.empty_like(factors), torch.empty_like(z)
        matrices = (matrix.contiguous() for matrix in (U, V, H))
        states = factors, z, gradient(from_outputs, r_gradient), carried, deltas, shares, r_gradient
        parts = *matrices, scalars, eta, *states, z.shape[1]
        launch_rows(_backward, h0, *ctx.numbers, *parts, buffers=_BUFFERS)
        left, right = deltas.flatten(1, 3), factors.flatten(1, 3)
        U_gradient = V_gradient = H_gradient = None
        if ctx.needs_input_grad[1]:
            U_gradient = torch.bmm(left.mT, right)
        if ctx.needs_input_grad[2]:
            V_gradient = torch.bmm(left.mT, torch.bmm(right, H.mT))
        if ctx.needs_input_grad[3]:
            H_gradient = torch.bmm(torch.bmm(left, V).mT, right)
        of_eta = shares.sum(dim=-1)
        return None, U_gradient, V_gradient, H_gradient, None, of_eta, r_gradient, carried


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
    numbers = PHI[phi], eta.shape[-1], int(form == 8), int(not from_zero), rank
    none = h0.new_zeros(runs, 1, 1)
    matrices = (none if matrix is None else matrix for matrix in (U, V, H))
    outputs, h = _Incremental.apply(numbers, *matrices, scalars, eta.contiguous(), r, h0)
    return outputs, (h, *(part + T for part in rounds))
