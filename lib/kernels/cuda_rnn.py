r"""The basic RNN on the GPU: one block for some sequences of a run, one thread for each row of W.

Forward and adjoint, and what is stored, are those of `lib.kernels.cpu_rnn`.

The states at t and t - 1 take turns in two halves of the shared memory, so that one barrier a step is enough. Neighbouring threads
read neighbouring weights, of W on the way back and of a transposed copy on the way there; up to some 200 units they stay in the first
cache. Each weight read is used for all sequences of the block.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cuda import cuda, d, kernel, launch_rows, real, tile
from lib.kernels._cuda_device import ONE, locate, products, tanh
from lib.kernels._cuda_engine import check_hidden, drive, engine, gradient, recurrent_gradient


@kernel
def _forward(W_T, g, x0, outputs, T, batch):
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    g_t, total = cuda.local.array(tile, real), cuda.local.array(tile, real)
    run = locate(places, cuda.blockIdx.x, batch, d)
    weights, start, here = run * d * d, run * batch * d, run * T * batch * d
    memory = cuda.shared.array(0, real)
    x, after = 0, d * tile
    for j in range(row, d, rows):
        for i in range(tile):
            memory[x + j * tile + i] = x0[start + places[i] + j]
    cuda.syncthreads()
    for _ in range(T):
        for j in range(row, d, rows):
            for i in range(tile):
                g_t[i] = g[here + places[i] + j]  # under way during the product
            products(total, W_T, weights + j, d, memory, x, d)
            for i in range(tile):
                value = tanh(total[i] + g_t[i])
                memory[after + j * tile + i] = value
                outputs[here + places[i] + j] = value
        cuda.syncthreads()
        x, after = after, x
        here += batch * d


@kernel
def _backward(W, outputs, from_outputs, carried, delta, T, batch):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    x, arrived = cuda.local.array(tile, real), cuda.local.array(tile, real)
    back = cuda.local.array(tile, real)
    run = locate(places, cuda.blockIdx.x, batch, d)
    weights, start, here = run * d * d, run * batch * d, (run * T + T - 1) * batch * d
    memory = cuda.shared.array(0, real)
    deltas, after = 0, d * tile
    for t in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            for i in range(tile):  # under way during the product
                x[i], arrived[i] = outputs[here + places[i] + j], from_outputs[here + places[i] + j]
            if t == T - 1:
                for i in range(tile):
                    back[i] = carried[start + places[i] + j]
            else:
                products(back, W, weights + j, d, memory, after, d)
            for i in range(tile):
                value = (arrived[i] + back[i]) * (ONE - x[i] * x[i])
                memory[deltas + j * tile + i] = value
                delta[here + places[i] + j] = value
        cuda.syncthreads()
        deltas, after = after, deltas
        here -= batch * d
    for j in range(row, d, rows):
        products(back, W, weights + j, d, memory, after, d)
        for i in range(tile):
            carried[start + places[i] + j] = back[i]


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
