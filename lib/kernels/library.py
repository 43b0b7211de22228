"""PyTorch's own recurrent layers as engines: cuDNN on the GPU, oneDNN or ATen on the CPU.

Their layers carry two biases per gate, the cells one: the second is a constant zero.
"""

import torch
from torch import Tensor

from lib.kernels._registry import register

# cuDNN multiplies float32 with ten bits by default (TF32): float32 means float32 here, on every device.
torch.backends.cudnn.allow_tf32 = False

_EVERYWHERE = {"devices": ("cpu", "cuda"), "dtypes": (torch.float32, torch.float64)}


def _flat(weights) -> list[Tensor]:
    W, R, b = weights
    return [R, W, b, torch.zeros_like(b)]


def _run(layer, u: Tensor, state, weights):
    # has_biases, layers, dropout, train, bidirectional, batch_first; cuDNN needs train for a backward.
    return layer(u, state, _flat(weights), True, 1, 0.0, True, False, False)


@register("library", "rnn", **_EVERYWHERE)
def rnn(weights, state, u):
    """The basic RNN (2.1) by `torch.rnn_tanh`; shapes as in `lib.cells.Cell.forward`."""
    outputs, x = _run(torch.rnn_tanh, u, state[0][None], weights)
    return outputs, (x[0],)


@register("library", "lstm", "chrono_lstm", **_EVERYWHERE)
def lstm(weights, state, u):
    """The LSTM by `torch.lstm`, however its biases start; shapes as in `lib.cells.Cell.forward`."""
    outputs, h, c = _run(torch.lstm, u, tuple(part[None] for part in state), weights)
    return outputs, (h[0], c[0])


@register("library", "gru", **_EVERYWHERE)
def gru(weights, state, u):
    """The GRU by `torch.gru`; shapes as in `lib.cells.Cell.forward`."""
    outputs, h = _run(torch.gru, u, state[0][None], weights)
    return outputs, (h[0],)
