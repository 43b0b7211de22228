"""What the GPU engines share: checks of what comes in, and the parts that PyTorch computes."""

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from lib.kernels._cuda import DEVICES, DTYPES, obstacle
from lib.kernels._registry import register


def engine(*cells: str, **more) -> Callable:
    """Return a decorator that registers a function as the engine ``numba-cuda`` of `cells`.

    Registered, it checks what it gets, makes the state contiguous, and says so in a sentence where the device has too little
    memory.
    """

    def add(run: Callable) -> Callable:
        @wraps(run)
        def checked(weights, state, u, **options):
            _check(cells[0], weights, state, u)
            try:
                return run(weights, tuple(part.contiguous() for part in state), u, **options)
            except torch.OutOfMemoryError:
                raise torch.OutOfMemoryError(_too_large(cells[0], state, u)) from None

        register("numba-cuda", *cells, devices=DEVICES, dtypes=DTYPES, obstacle=obstacle, **more)(
            checked
        )
        return checked

    return add


def _check(cell: str, weights, state, u: Tensor) -> None:
    if u.dim() != 3 or 0 in u.shape:
        raise ValueError(
            f"{cell}: expected an input (time, batch, input) with no size of 0, got {tuple(u.shape)}"
        )
    tensors = (part for part in tree_leaves((weights, state)) if isinstance(part, Tensor))
    kind = u.dtype, u.device
    wrong = next((part for part in tensors if (part.dtype, part.device) != kind), None)
    if wrong is not None:
        raise ValueError(
            f"{cell}: expected weights and states of {u.dtype} on {u.device} like the input, "
            f"got {wrong.dtype} on {wrong.device}; convert them with .to(...)"
        )
    if u.is_cuda and u.device.index != 0:
        raise ValueError(
            f"{cell}: expected tensors on cuda:0, got {u.device}; choose a GPU with CUDA_VISIBLE_DEVICES"
        )
    shapes = {tuple(part.shape) for part in state}
    if len(shapes) != 1 or state[0].dim() != 2 or len(state[0]) != u.shape[1]:
        raise ValueError(
            f"{cell}: expected states (batch, hidden) with batch={u.shape[1]}, "
            f"got {', '.join(map(str, shapes))}"
        )


def check_hidden(cell: str, state, hidden: int) -> None:
    """Raise `ValueError` where the states, (batch, hidden), are not of the weights' hidden size."""
    if state[0].shape[-1] != hidden:
        raise ValueError(
            f"{cell}: expected states (batch, hidden) with hidden={hidden}, got {tuple(state[0].shape)}"
        )


def _too_large(cell: str, state, u: Tensor) -> str:
    size = len(u) * state[0].numel() * u.element_size() / 2**30
    free = f", {torch.cuda.mem_get_info()[0] / 2**30:.1f} GiB are free" if u.is_cuda else ""
    return (
        f"{cell} needs several arrays (time, batch, hidden) of {size:.2g} GiB each{free}; "
        "use a smaller batch or shorter sequences"
    )


def per_chain(value: Tensor | float, like: Tensor) -> Tensor:
    """Return a number, or one for each neuron, for each chain: contiguous, as `like` (batch, hidden). Autograd sums over chains."""
    if not isinstance(value, Tensor):
        return torch.full_like(like, value)
    return value.expand_as(like).contiguous()


def in_one(like: Tensor, *values: float) -> Tensor:
    """Return numbers as one tensor, without a copy from the host, which no graph could capture."""
    return torch.stack([like.new_full((), value) for value in values])
