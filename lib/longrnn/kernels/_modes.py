"""Modes of PyTorch in which a kernel, which computes with numbers alone, cannot run as usual."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad


def is_in_forward_mode() -> bool:
    """Return whether forward-mode derivatives are computed, as `torch.func.jvp` does.

    Engines support only reverse mode. `torch.func.hessian` and `torch.func.jacfwd` use forward
    mode, too.

    Returns
    -------
    bool
    """
    return forward_ad._current_level >= 0  # nothing public says it (torch 2.13)


def is_ordinary(arguments: Sequence) -> bool:
    """Return whether the tensors have values and no mode of PyTorch records operators.

    Parameters
    ----------
    arguments
        Tensors and other values.

    Returns
    -------
    bool
    """
    if torch._C._len_torch_dispatch_stack() > 0:
        return False
    for value in arguments:
        if isinstance(value, FakeTensor) or (isinstance(value, Tensor) and value.is_meta):
            return False
        # Several gradients at once, of `torch.autograd.grad` with `is_grads_batched`.
        if isinstance(value, Tensor) and torch._C._functorch.is_legacy_batchedtensor(value):
            return False
    return True
