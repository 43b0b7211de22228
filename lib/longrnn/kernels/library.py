"""PyTorch's own recurrent layers as engines: cuDNN on the GPU, oneDNN or ATen on the CPU.

Their layers carry two biases per gate, the cells one: the second is a constant zero.
"""

from collections.abc import Callable

import torch

from longrnn.kernels import register

# cuDNN multiplies float32 with ten bits by default (TF32): float32 means float32 here, on every device.
torch.backends.cudnn.allow_tf32 = False


def _register(layer: Callable, *cells: str) -> None:
    @register("library", *cells, devices=("cpu", "cuda"))
    def run(weights, state, u):
        W, R, b = weights
        flat = [R, W, b, torch.zeros_like(b)]
        before = [part[None].contiguous() for part in state]
        before = before if len(before) > 1 else before[0]  # an LSTM's two states come as a list
        # has_biases, layers, dropout, train, bidirectional, batch_first; cuDNN needs train for a backward.
        outputs, *final = layer(u, before, flat, True, 1, 0.0, True, False, False)
        return outputs, tuple(part[0] for part in final)


_register(torch.rnn_tanh, "rnn")
_register(torch.lstm, "lstm", "chrono_lstm")
_register(torch.gru, "gru")
