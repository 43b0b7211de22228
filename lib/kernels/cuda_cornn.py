r"""coRNN on the GPU: one block for each sequence of each run, one thread for each unit.

Forward and adjoint, and what is stored, are those of `lib.kernels.cpu_cornn`. The states are in shared memory, where those at n and
n - 1 take turns, so that one barrier a step is enough; neighbouring threads read neighbouring weights, as in `lib.kernels.cuda_rnn`.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, kernel, launch_rows, real
from lib.kernels._cuda_device import ONE, dot, tanh
from lib.kernels._cuda_engine import (
    check_hidden,
    drive,
    engine,
    gradient,
    per_chain,
    recurrent_gradient,
)

_BUFFERS = 4  # vectors in shared memory


@kernel
def _forward(M_T, scalars, g, y0, z0, y, z, f, T, batch, d):
    """`M_T` (run, 2 d, d) and `scalars` (run, 4) hold both matrices, transposed, and dt, gamma, s, r."""
    sequence, row, rows = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    run = sequence // batch
    dt, gamma = scalars[4 * run], scalars[4 * run + 1]
    s, r = scalars[4 * run + 2], scalars[4 * run + 3]
    at, here = 2 * run * d * d, (run * T * batch + sequence % batch) * d
    memory = cuda.shared.array(0, real)
    both, after = memory[: 2 * d], memory[2 * d : 4 * d]
    for j in range(row, d, rows):
        both[j], both[d + j] = y0[sequence * d + j], z0[sequence * d + j]
    cuda.syncthreads()
    for _ in range(T):
        for j in range(row, d, rows):
            g_n = g[here + j]  # under way during the product
            force = tanh(dot(M_T, at + j, d, both) + g_n)
            moved = s * (r * both[d + j] + dt * (force - gamma * both[j]))
            after[j], after[d + j] = both[j] + dt * moved, moved
            f[here + j], y[here + j], z[here + j] = force, after[j], moved
        cuda.syncthreads()
        both, after = after, both
        here += batch * d


@kernel
def _backward(M, scalars, f, from_y, y_carried, z_carried, delta, T, batch, d):
    """`M` is (run, d, 2 d). The carried gradients are those of the final state and become those of the initial one."""
    sequence, row, rows = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    run = sequence // batch
    dt, gamma = scalars[4 * run], scalars[4 * run + 1]
    s, r = scalars[4 * run + 2], scalars[4 * run + 3]
    at, here = 2 * run * d * d, ((run * T + T - 1) * batch + sequence % batch) * d
    memory = cuda.shared.array(0, real)
    deltas, after = memory[:d], memory[d : 2 * d]
    lambda_, mu = memory[2 * d : 3 * d], memory[3 * d : 4 * d]  # each thread's own
    for j in range(row, d, rows):
        lambda_[j], mu[j] = y_carried[sequence * d + j], z_carried[sequence * d + j]
    for n in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            force, arrived = f[here + j], from_y[here + j]  # under way during the products
            arrived += lambda_[j]
            velocity = mu[j]
            if n < T - 1:
                arrived += dot(M, at + j, 2 * d, after)
                velocity += dot(M, at + d + j, 2 * d, after)
            m = s * (velocity + dt * arrived)
            deltas[j] = dt * m * (ONE - force * force)
            delta[here + j] = deltas[j]
            lambda_[j], mu[j] = arrived - dt * gamma * m, r * m
        cuda.syncthreads()
        deltas, after = after, deltas
        here -= batch * d
    for j in range(row, d, rows):
        y_carried[sequence * d + j] = lambda_[j] + dot(M, at + j, 2 * d, after)
        z_carried[sequence * d + j] = mu[j] + dot(M, at + d + j, 2 * d, after)


class _CoRNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, M: Tensor, scalars: Tensor, g: Tensor, y0: Tensor, z0: Tensor) -> tuple:
        y, z, f = (torch.empty_like(g) for _ in range(3))
        parts = M.mT.contiguous(), scalars, g, y0, z0, y, z, f
        launch_rows(_forward, y0, *parts, g.shape[1], buffers=_BUFFERS)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(M, scalars, y0, z0, y, z, f)
        return y, y[:, -1].clone(), z[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, from_y: Tensor | None, *from_final: Tensor | None) -> tuple:
        M, scalars, y0, z0, y, z, f = ctx.saved_tensors
        carried = [gradient(part, y0).clone() for part in from_final]
        delta = torch.empty_like(f)
        parts = M.contiguous(), scalars, f, gradient(from_y, y), *carried, delta
        launch_rows(_backward, y0, *parts, y.shape[1], buffers=_BUFFERS)
        M_gradient = None
        if ctx.needs_input_grad[0]:
            halves = recurrent_gradient(delta, y0, y), recurrent_gradient(delta, z0, z)
            M_gradient = torch.cat(halves, dim=-1)
        return M_gradient, None, delta, *carried


@engine("cornn")
def cornn(weights, state, u):
    """coRNN, (3) of Rusch and Mishra; shapes as in `lib.cells.Cell.forward`, with runs or without."""
    W, W_z, V, b, dt, gamma, epsilon, implicit = weights
    check_hidden("cornn", state, W.shape[-1])
    y0, z0 = (part.contiguous() for part in state)
    dt, gamma, epsilon = (per_chain(part, y0)[:, 0, 0] for part in (dt, gamma, epsilon))
    s, r = (
        (1 / (1 + dt * epsilon), torch.ones_like(dt))
        if implicit
        else (torch.ones_like(dt), 1 - dt * epsilon)
    )
    scalars = torch.stack([dt, gamma, s, r], dim=-1)
    y, *final = _CoRNN.apply(torch.cat([W, W_z], dim=-1), scalars, drive("cornn", u, V, b), y0, z0)
    return y, tuple(final)
