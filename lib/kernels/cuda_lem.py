r"""LEM on the GPU: one block for each sequence of each run, one thread for each unit.

Forward and adjoint are those of `lib.kernels.cpu_lem`, with p and q for its :math:`q / \Delta t` and :math:`\bar q / \Delta t`, the
logistic functions of (3). Without `clip` the steps are clipped to [0, 2], which is no restriction. With a single scale (Table 9) the drives
of p and q are infinite, so that both are 1 and have no slope, and their weights are zero.

The states are in shared memory. Neighbouring threads read neighbouring weights, as in `lib.kernels.cuda_rnn`; two barriers a step, since
y waits for z.

Stored: y (the output), z, and p q s r. Recomputed: the clipped steps.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, device, kernel, launch_rows, real
from lib.kernels._cuda_device import ONE, ZERO, dot, sigmoid, tanh
from lib.kernels._cuda_engine import (
    check_hidden,
    drive,
    engine,
    gradient,
    per_chain,
    recurrent_gradient,
)

_BUFFERS = 7  # vectors in shared memory: the way back needs them, the way there two


@device
def _clip(step, least, most):
    low = least if step < least else step  # not max and min: NaN must pass
    return most if low > most else low


@device
def _slope(dt, p, step):
    """Return the derivative of the clipped step dt p by the argument of p."""
    return dt * p * (ONE - p) if dt * p == step else ZERO


@kernel
def _forward(W_T, W_y_T, limits, g, y0, z0, y, z, gates, T, batch, d):
    """`limits` (run, 3) holds dt and the bounds of the clipping; `gates` (run, time, batch, 4 d) receives p q s r."""
    sequence, row, rows = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    run = sequence // batch
    dt, least, most = limits[3 * run], limits[3 * run + 1], limits[3 * run + 2]
    W_at, W_y_at = 3 * run * d * d, run * d * d
    here = (run * T * batch + sequence % batch) * d
    memory = cuda.shared.array(0, real)
    y_, z_ = memory[:d], memory[d : 2 * d]
    for j in range(row, d, rows):
        y_[j], z_[j] = y0[sequence * d + j], z0[sequence * d + j]
    cuda.syncthreads()
    for _ in range(T):
        for j in range(row, d, rows):
            k = 4 * here + j
            g_1, g_2, g_z = g[k], g[k + d], g[k + 2 * d]  # under way during the products
            p = sigmoid(dot(W_T, W_at + j, 3 * d, y_) + g_1)
            q = sigmoid(dot(W_T, W_at + d + j, 3 * d, y_) + g_2)
            s = tanh(dot(W_T, W_at + 2 * d + j, 3 * d, y_) + g_z)
            gates[k], gates[k + d], gates[k + 2 * d] = p, q, s
            z_[j] += _clip(dt * p, least, most) * (s - z_[j])
            z[here + j] = z_[j]
        cuda.syncthreads()
        for j in range(row, d, rows):
            k = 4 * here + j
            q, g_y = gates[k + d], g[k + 3 * d]
            r = tanh(dot(W_y_T, W_y_at + j, d, z_) + g_y)
            gates[k + 3 * d] = r
            y_[j] += _clip(dt * q, least, most) * (r - y_[j])
            y[here + j] = y_[j]
        cuda.syncthreads()
        here += batch * d


@kernel
def _backward(
    W, W_y, limits, y0, z0, y, z, gates, from_y, y_carried, z_carried, delta, T, batch, d
):  # fmt: skip
    """The carried gradients are those of the final state and become those of the initial one."""
    sequence, row, rows = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    run = sequence // batch
    dt, least, most = limits[3 * run], limits[3 * run + 1], limits[3 * run + 2]
    W_at, W_y_at = 3 * run * d * d, run * d * d
    here = ((run * T + T - 1) * batch + sequence % batch) * d
    memory = cuda.shared.array(0, real)
    delta_12z, delta_y = memory[: 3 * d], memory[3 * d : 4 * d]
    # Each thread's own: what lambda and mu leave for the step before, and delta of 2 until all may see it.
    lambda_, mu, held = memory[4 * d : 5 * d], memory[5 * d : 6 * d], memory[6 * d : 7 * d]
    for j in range(row, d, rows):
        lambda_[j], mu[j] = y_carried[sequence * d + j], z_carried[sequence * d + j]
    for n in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            k = 4 * here + j
            q, r, arrived = (
                gates[k + d],
                gates[k + 3 * d],
                from_y[here + j],
            )  # under way during the product
            before = y[here - batch * d + j] if n > 0 else y0[sequence * d + j]
            arrived += lambda_[j]
            if n < T - 1:
                arrived += dot(W, W_at + j, d, delta_12z)
            step = _clip(dt * q, least, most)
            held[j] = arrived * (r - before) * _slope(dt, q, step)
            delta_y[j] = arrived * step * (ONE - r * r)
            lambda_[j] = (ONE - step) * arrived
            delta[k + d], delta[k + 3 * d] = held[j], delta_y[j]
        cuda.syncthreads()
        for j in range(row, d, rows):
            k = 4 * here + j
            p, s = gates[k], gates[k + 2 * d]
            before = z[here - batch * d + j] if n > 0 else z0[sequence * d + j]
            arrived = mu[j] + dot(W_y, W_y_at + j, d, delta_y)
            step = _clip(dt * p, least, most)
            delta_12z[j] = arrived * (s - before) * _slope(dt, p, step)
            delta_12z[d + j] = held[j]
            delta_12z[2 * d + j] = arrived * step * (ONE - s * s)
            mu[j] = (ONE - step) * arrived
            delta[k], delta[k + 2 * d] = delta_12z[j], delta_12z[2 * d + j]
        cuda.syncthreads()
        here -= batch * d
    for j in range(row, d, rows):
        y_carried[sequence * d + j] = lambda_[j] + dot(W, W_at + j, d, delta_12z)
        z_carried[sequence * d + j] = mu[j]


class _LEM(torch.autograd.Function):
    @staticmethod
    def forward(ctx, W, W_y, limits, g, y0, z0) -> tuple[Tensor, ...]:
        shape = (*g.shape[:3], y0.shape[2])
        y, z, gates = g.new_empty(shape), g.new_empty(shape), torch.empty_like(g)
        parts = W.mT.contiguous(), W_y.mT.contiguous(), limits, g, y0, z0, y, z, gates
        launch_rows(_forward, y0, *parts, g.shape[1], buffers=_BUFFERS)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(W, W_y, limits, y0, z0, y, z, gates)
        return y, y[:, -1].clone(), z[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, from_y: Tensor | None, *from_final: Tensor | None) -> tuple:
        W, W_y, *saved = ctx.saved_tensors
        _, y0, _, y, z, gates = saved
        carried = [gradient(part, y0).clone() for part in from_final]
        delta = torch.empty_like(gates)
        parts = W.contiguous(), W_y.contiguous(), *saved, gradient(from_y, y), *carried, delta
        launch_rows(_backward, y0, *parts, y.shape[1], buffers=_BUFFERS)
        W_gradient = W_y_gradient = None
        d = y0.shape[2]
        if ctx.needs_input_grad[0]:
            W_gradient = recurrent_gradient(delta[..., : 3 * d], y0, y)
        if ctx.needs_input_grad[1]:
            W_y_gradient = torch.bmm(delta[..., 3 * d :].flatten(1, 2).mT, z.flatten(1, 2))
        return W_gradient, W_y_gradient, None, delta, *carried


@engine("lem")
def lem(weights, state, u):
    """LEM, (3) of Rusch et al.; shapes as in `lib.cells.Cell.forward`, with runs or without."""
    W, W_y, V, b, dt, clip, single_scale = weights
    check_hidden("lem", state, W_y.shape[-1])
    y0, z0 = (part.contiguous() for part in state)
    g = drive("lem", u, V, b)
    if single_scale:
        infinite = torch.full((*g.shape[:3], g.shape[3]), torch.inf, dtype=g.dtype, device=g.device)
        g = torch.cat([infinite, g], dim=-1)
        W = torch.cat([torch.zeros_like(W), torch.zeros_like(W), W], dim=-2)
    least, most = (0, 2) if clip is None else (clip, 1)
    limits = torch.stack([per_chain(part, y0)[:, 0, 0] for part in (dt, least, most)], dim=-1)
    y, *final = _LEM.apply(W, W_y, limits, g, y0, z0)
    return y, tuple(final)
