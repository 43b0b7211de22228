r"""The basic RNN on the GPU: one block for each sequence of each run, one thread for each row of W.

Forward and adjoint, and what is stored, are those of `lib.kernels.cpu_rnn`.

The states at t and t - 1 take turns in two halves of the shared memory, so that one barrier a step is enough. Neighbouring threads
read neighbouring weights, of W on the way back and of a transposed copy on the way there; up to some 200 units they stay in the first
cache.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, kernel, launch_rows, real
from lib.kernels._cuda_device import ONE, dot, tanh
from lib.kernels._cuda_engine import check_hidden, drive, engine, gradient, recurrent_gradient


@kernel
def _forward(W_T, g, x0, outputs, T, batch, d):
    sequence, row, rows = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    run = sequence // batch
    weights, here = run * d * d, (run * T * batch + sequence % batch) * d
    memory = cuda.shared.array(0, real)
    x, after = memory[:d], memory[d : 2 * d]
    for j in range(row, d, rows):
        x[j] = x0[sequence * d + j]
    cuda.syncthreads()
    for _ in range(T):
        for j in range(row, d, rows):
            g_t = g[here + j]  # under way during the product
            after[j] = tanh(dot(W_T, weights + j, d, x) + g_t)
            outputs[here + j] = after[j]
        cuda.syncthreads()
        x, after = after, x
        here += batch * d


@kernel
def _backward(W, outputs, from_outputs, carried, delta, T, batch, d):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    sequence, row, rows = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    run = sequence // batch
    weights, here = run * d * d, ((run * T + T - 1) * batch + sequence % batch) * d
    memory = cuda.shared.array(0, real)
    deltas, after = memory[:d], memory[d : 2 * d]
    for t in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            x, arrived = outputs[here + j], from_outputs[here + j]  # under way during the product
            back = carried[sequence * d + j] if t == T - 1 else dot(W, weights + j, d, after)
            deltas[j] = (arrived + back) * (ONE - x * x)
            delta[here + j] = deltas[j]
        cuda.syncthreads()
        deltas, after = after, deltas
        here -= batch * d
    for j in range(row, d, rows):
        carried[sequence * d + j] = dot(W, weights + j, d, after)


class _RNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, W: Tensor, g: Tensor, x0: Tensor) -> tuple[Tensor, Tensor]:
        outputs = torch.empty_like(g)
        launch_rows(_forward, x0, W.mT.contiguous(), g, x0, outputs, g.shape[1], buffers=2)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(W, x0, outputs)
        return outputs, outputs[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, from_outputs: Tensor | None, from_final: Tensor | None) -> tuple:
        W, x0, outputs = ctx.saved_tensors
        from_outputs, carried = gradient(from_outputs, outputs), gradient(from_final, x0).clone()
        delta = torch.empty_like(outputs)
        parts = W.contiguous(), outputs, from_outputs, carried, delta
        launch_rows(_backward, x0, *parts, outputs.shape[1], buffers=2)
        W_gradient = recurrent_gradient(delta, x0, outputs) if ctx.needs_input_grad[0] else None
        return W_gradient, delta, carried


@engine("rnn")
def rnn(weights, state, u):
    """The basic RNN (2.1); shapes as in `lib.cells.Cell.forward`, with runs or without."""
    W, R, b = weights
    check_hidden("rnn", state, W.shape[-1])
    outputs, x = _RNN.apply(W, drive("rnn", u, R, b), state[0].contiguous())
    return outputs, (x,)
