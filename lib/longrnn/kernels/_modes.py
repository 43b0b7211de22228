"""PyTorch's modes in which a kernel cannot run.

They are forward mode, tracing, export to ONNX, and tensors without numbers.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

_NO_DISPATCH = torch._C._disabled_torch_dispatch_impl
"""What tensors have as ``__torch_dispatch__`` unless their class defines one (torch 2.13)."""


def is_in_forward_mode() -> bool:
    """Return whether forward-mode derivatives are computed, as `torch.func.jvp` does.

    Engines support only reverse mode. `torch.func.hessian` and `torch.func.jacfwd` use forward
    mode, too.

    Returns
    -------
    bool
    """
    return forward_ad._current_level >= 0  # nothing public says it (torch 2.13)


def is_in_onnx_export() -> bool:
    """Return whether `torch.onnx.export` records operators.

    ONNX has operators for PyTorch's layers, but none for a loop of this library.

    Returns
    -------
    bool
    """
    # The first question is cheap; the second imports `torch.onnx`, which takes long.
    return torch.compiler.is_exporting() and torch.onnx.is_in_onnx_export()


def is_ordinary(arguments: Sequence) -> bool:
    """Return whether the tensors are numbers in memory and PyTorch records no operators.

    Parameters
    ----------
    arguments
        Tensors and other values.

    Returns
    -------
    bool
    """
    if torch._C._len_torch_dispatch_stack() > 0 or torch.jit.is_tracing():
        return False
    for value in arguments:
        if not isinstance(value, Tensor):
            continue
        # Fake tensors, and other subclasses that get every operator on them.
        if type(value).__torch_dispatch__ is not _NO_DISPATCH:
            return False
        # Several gradients at once, of `torch.autograd.grad` with `is_grads_batched`.
        if value.is_meta or torch._C._functorch.is_legacy_batchedtensor(value):
            return False
    return True


def constant_when_traced(function: Callable) -> Callable:
    """Have `torch.compile` call a function while it traces, and take the result as a constant.

    `torch.compiler.assume_constant_result` does the same, but imports PyTorch's compiler, which
    takes almost as long as importing PyTorch.

    Parameters
    ----------
    function
        A function that `torch.compile` cannot trace. It takes no tensors.

    Returns
    -------
    callable
        The function itself.
    """
    function._dynamo_marked_constant = True  # nothing public sets only this (torch 2.13)
    return function
