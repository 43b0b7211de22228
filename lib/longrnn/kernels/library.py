"""PyTorch's own recurrent layers as engines: cuDNN on the GPU, oneDNN or ATen on the CPU.

Their layers have two biases per gate, the cells one: the second is a constant zero.

By default cuDNN multiplies float32 with ten bits (TF32). Float32 means float32 here, on every
device, so TF32 is off during the calls of these engines, forward and backward.
"""

import threading
from collections.abc import Callable

import torch
from torch import Tensor

from longrnn.kernels import register


class _FullFloat32:
    """Context manager that keeps cuDNN at float32 while at least one pass is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passes = 0
        self._before = True

    def __enter__(self) -> None:
        with self._lock:
            if self._passes == 0:
                self._before = torch.backends.cudnn.allow_tf32
                torch.backends.cudnn.allow_tf32 = False
            self._passes += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._passes -= 1
            if self._passes == 0:
                torch.backends.cudnn.allow_tf32 = self._before


full_float32 = _FullFloat32()


def _keep_in_backward(outputs: Tensor) -> None:
    """Let the backward pass of cuDNN's layer run at float32, too."""
    node = outputs.grad_fn
    if node is not None:
        node.register_prehook(lambda _: full_float32.__enter__())
        node.register_hook(lambda *_: full_float32.__exit__())


def _register(layer: Callable, *cells: str) -> None:
    @register("library", *cells, devices=("cpu", "cuda"), transforms=False)
    def run(weights, state, u):
        W, R, b = weights
        flat = [R, W, b, torch.zeros_like(b)]
        before = [part[None].contiguous() for part in state]
        before = before if len(before) > 1 else before[0]  # an LSTM's two states come as a list
        # has_biases, layers, dropout, train, bidirectional, batch_first; cuDNN needs train for a
        # backward pass.
        arguments = u, before, flat, True, 1, 0.0, True, False, False
        if u.device.type != "cuda":
            outputs, *final = layer(*arguments)
        else:
            with full_float32:
                outputs, *final = layer(*arguments)
            _keep_in_backward(outputs)
        return outputs, tuple(part[0] for part in final)


_register(torch.rnn_tanh, "rnn")
_register(torch.lstm, "lstm", "chrono_lstm")
_register(torch.gru, "gru")
