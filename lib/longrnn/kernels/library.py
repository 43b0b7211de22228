"""PyTorch's own recurrent layers as engines: cuDNN on the GPU, oneDNN or ATen on the CPU.

PyTorch's layers have two biases per gate, the cells of this library one. The second is zero.

`torch.compile` would take a layer apart: into one operator per time step, or into oneDNN's forward
pass, which saves nothing for a backward pass. So in code that is compiled the layer is one
operator, and its adjoint another, which runs the layer a second time.

The same holds under a dispatch mode, which sees every operator, such as that of selective
activation checkpointing. The layers overwrite values that they have computed, and a mode that keeps
those would pass on wrong ones. Gradients of `torch.nn.GRU` are wrong there without an error (torch
2.13).

By default cuDNN rounds the factors of float32 products to ten bits (TF32). Here float32 means
float32 on every device, so TF32 is off during the calls of these engines, forward and backward.
"""

import threading
from contextlib import nullcontext

import torch
from torch.autograd.function import once_differentiable

from longrnn.kernels import register
from longrnn.kernels._recurrence import Recurrence


class _FullFloat32:
    """Context manager that turns TF32 off for cuDNN while at least one pass is inside.

    As in `longrnn.kernels._blas`, the first pass to enter saves the setting and the last to leave
    restores it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passes = 0
        self._before = "none"

    def __enter__(self) -> None:
        with self._lock:
            if self._passes == 0:
                # `cudnn.allow_tf32` would raise if the user has set this newer option.
                self._before = torch.backends.cudnn.rnn.fp32_precision
                torch.backends.cudnn.rnn.fp32_precision = "ieee"
            self._passes += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._passes -= 1
            if self._passes == 0:
                torch.backends.cudnn.rnn.fp32_precision = self._before


full_float32 = _FullFloat32()


LAYERS = {"rnn": torch.rnn_tanh, "lstm": torch.lstm, "gru": torch.gru}
"""PyTorch's layers by the name of the cell."""
_GATES = {"rnn": 1, "lstm": 4, "gru": 3}
"""Number of gates by the name of the cell: a layer's weights have a block of rows for each."""


def _check_shapes(name, W, R, b, state, u):
    """Refuse weights of a wrong shape.

    oneDNN accepts any shape (torch 2.13), and reads and writes beyond weights that are too small.
    """
    d = state[0].shape[-1]
    rows = _GATES[name] * d
    expected = {"W": (rows, d), "R": (rows, u.shape[-1]), "b": (rows,)}
    for (weight_name, shape), weight in zip(expected.items(), (W, R, b), strict=True):
        if tuple(weight.shape) != shape:
            raise ValueError(
                f"{name}: expected weights {weight_name} of shape {shape}, "
                f"got {tuple(weight.shape)}"
            )


def _run_layer(name, W, R, b, state, u):
    """Run a layer; return the outputs and the list of final states."""
    parameters = [R, W, b, torch.zeros_like(b)]
    initial = [part[None].contiguous() for part in state]
    if len(initial) == 1:  # the function of an LSTM takes a list, the others a tensor
        (initial,) = initial
    # has_biases, layers, dropout, train, bidirectional, batch_first; cuDNN needs train for a
    # backward pass.
    arguments = u, initial, parameters, True, 1, 0.0, True, False, False
    outputs, *final = LAYERS[name](*arguments)
    return outputs, [part[0] for part in final]


class _FullFloat32Layer(torch.autograd.Function):
    """A layer whose forward and backward pass run inside `full_float32`.

    The layer has an autograd graph of its own, which `backward` runs. Hooks on the layer's node
    could switch the precision instead, but no hook runs after a backward pass that fails, for lack
    of memory for example. The precision would then stay switched.
    """

    @staticmethod
    def forward(ctx, name, *tensors):
        inputs = []
        for tensor, needed in zip(tensors, ctx.needs_input_grad[1:], strict=True):
            inputs.append(tensor.detach().requires_grad_(needed))
        u, W, R, b, *state = inputs
        with full_float32, torch.enable_grad():
            outputs, final = _run_layer(name, W, R, b, state, u)
        results = [outputs, *final]
        ctx.save_for_backward(*inputs, *results)
        ctx.set_materialize_grads(False)
        return tuple(result.detach() for result in results)

    @staticmethod
    @once_differentiable
    def backward(ctx, *arriving):
        if all(gradient is None for gradient in arriving):
            # Autograd runs this node also if the function after it returned no gradient.
            return (None,) * len(ctx.needs_input_grad)
        saved = ctx.saved_tensors
        inputs = saved[: -len(arriving)]
        differentiated = [tensor for tensor in inputs if tensor.requires_grad]
        pairs = zip(saved[-len(arriving) :], arriving, strict=True)
        present = [(result, gradient) for result, gradient in pairs if gradient is not None]
        results, gradients = zip(*present, strict=True)
        with full_float32:
            # Retained in case the user retains the outer graph. If not, autograd frees the saved
            # tensors after this call, and with them the layer's graph.
            computed = torch.autograd.grad(results, differentiated, gradients, retain_graph=True)
        remaining = iter(computed)
        by_input = []
        for tensor in inputs:
            gradient = None
            if tensor.requires_grad:
                gradient = next(remaining)
            by_input.append(gradient)
        return None, *by_input


def _precision(u):
    """Return a context manager in which a pass on the device of `u` computes without TF32."""
    if u.device.type == "cuda":
        return full_float32
    return nullcontext()


def _state(h, c):
    """Return the list of the state's tensors; c is None except in an LSTM."""
    if c is None:
        return [h]
    return [h, c]


def _forward(name, u, W, R, b, c0, h0, outputs, h_end, c_end):
    state = _state(h0, c0)
    with _precision(u):
        values, final = _run_layer(name, W, R, b, state, u)
    results = outputs, h_end, c_end
    for result, value in zip(results, [values, *final], strict=False):
        result.copy_(value)


def _backward(name, u, W, R, b, c0, h0, grad_outputs, *grad_final):
    state = _state(h0, c0)
    leaves = [part.detach().requires_grad_() for part in (u, W, R, b, *state)]
    # Inside an operator the dispatcher excludes autograd, even in `enable_grad`. The guard excludes
    # nothing, so that the layer gets a graph. Autocast, which is excluded unless a user enables it,
    # would then run the layer in 16 bits, so it is disabled.
    included = torch._C._dispatch_tls_local_include_set()
    guard = torch._C._ForceDispatchKeyGuard(included, _no_keys())
    no_autocast = nullcontext()
    if torch.amp.is_autocast_available(u.device.type):  # not for the meta device
        no_autocast = torch.autocast(u.device.type, enabled=False)
    with _precision(u), torch.enable_grad(), guard, no_autocast:
        outputs, final = _run_layer(name, *leaves[1:4], leaves[4:], leaves[0])
        pairs = zip([outputs, *final], [grad_outputs, *grad_final], strict=False)
        present = [(result, arrived) for result, arrived in pairs if arrived is not None]
        results, arriving = zip(*present, strict=True)
        gradients = torch.autograd.grad(results, leaves, arriving)
    grad_c0 = None
    if c0 is not None:
        grad_c0 = gradients[5]
    return *gradients[:4], grad_c0, gradients[4]


def _no_keys() -> torch._C.DispatchKeySet:
    """Return the empty set of dispatch keys."""
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return key - key


def _reference(name, u, W, R, b, c, h):
    """Run a layer in plain PyTorch; arguments and results as for the operator."""
    outputs = []
    for g in (u @ R.T + b).unbind(0):
        a = h @ W.T
        if name == "rnn":
            h = torch.tanh(a + g)
        elif name == "gru":
            a_r, a_z, a_n = a.chunk(3, dim=-1)
            g_r, g_z, g_n = g.chunk(3, dim=-1)
            z = torch.sigmoid(a_z + g_z)
            n = torch.tanh(torch.sigmoid(a_r + g_r) * a_n + g_n)
            h = (1 - z) * n + z * h
        else:
            a_i, a_f, a_g, a_o = (a + g).chunk(4, dim=-1)
            c = torch.sigmoid(a_f) * c + torch.sigmoid(a_i) * torch.tanh(a_g)
            h = torch.sigmoid(a_o) * torch.tanh(c)
        outputs.append(h)
    if c is None:
        c = h.new_empty(len(h), 0)
    return torch.stack(outputs), (h, c)


def _shapes(a):
    batch, d = a.h0.shape
    c_units = d
    if a.c0 is None:
        c_units = 0
    # `len` would fix the length in a traced program.
    return [(a.u.shape[0], batch, d), (batch, d), (batch, c_units)]


_LAYER = Recurrence(
    "library",
    settings="str name",
    inputs="u:1 W R b c0?:0 h0:0",
    results="outputs h_end c_end",
    final=2,
    saved="u W R b c0 h0",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
)


def _is_under_a_mode() -> bool:
    """Return whether a mode gets every operator, outside of `torch.export`.

    Exported programs have the operators of PyTorch's layer, which run without this library.
    """
    return torch._C._len_torch_dispatch_stack() > 0 and not torch.compiler.is_compiling()


def _register(name: str, *cells: str) -> None:
    @register("library", *cells, devices=("cpu", "cuda"), transforms=False)
    def run(weights, state, u):
        W, R, b = weights
        if not (torch.compiler.is_compiling() or torch.jit.is_tracing()):
            _check_shapes(name, W, R, b, state, u)
        if torch.compiler.is_dynamo_compiling() or _is_under_a_mode():
            c0 = None
            if len(state) > 1:
                c0 = state[1]
            outputs, final = _LAYER(name, u, W, R, b, c0, state[0])
            return outputs, final[: len(state)]
        if u.device.type == "cuda":
            outputs, *final = _FullFloat32Layer.apply(name, u, W, R, b, *state)
        else:
            outputs, final = _run_layer(name, W, R, b, state, u)
        return outputs, tuple(final)


_register("rnn", "rnn")
_register("lstm", "lstm", "chrono_lstm")
_register("gru", "gru")
