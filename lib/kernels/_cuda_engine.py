"""What the GPU engines share."""

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor

from lib.kernels._cuda import DEVICES, DTYPES, obstacle
from lib.kernels._registry import register


def engine(*cells: str, **more) -> Callable:
    """Return a decorator that registers a function as the engine ``numba-cuda`` of `cells`.

    What comes in was checked by `lib.cells.Cell.forward`. Registered, the function gets contiguous states, and says in a sentence
    where the tensors are on a second GPU, or the device has too little memory.
    """

    def add(run: Callable) -> Callable:
        @wraps(run)
        def checked(weights, state, u, **options):
            if u.is_cuda and u.device.index != 0:
                raise ValueError(
                    f"{cells[0]}: expected tensors on cuda:0, got {u.device}; "
                    "choose a GPU with CUDA_VISIBLE_DEVICES"
                )
            try:
                return run(weights, tuple(part.contiguous() for part in state), u, **options)
            except torch.OutOfMemoryError:
                raise torch.OutOfMemoryError(_too_large(cells[0], state, u)) from None

        register("numba-cuda", *cells, devices=DEVICES, dtypes=DTYPES, obstacle=obstacle, **more)(
            checked
        )
        return checked

    return add


def _too_large(cell: str, state, u: Tensor) -> str:
    size = len(u) * state[0].numel() * u.element_size() / 2**30
    free = f", {torch.cuda.mem_get_info()[0] / 2**30:.1f} GiB are free" if u.is_cuda else ""
    return (
        f"{cell} needs several arrays (time, batch, hidden) of {size:.2g} GiB each{free}; "
        "use a smaller batch or shorter sequences"
    )


def in_one(like: Tensor, *values: float) -> Tensor:
    """Return numbers as one tensor, without a copy from the host, which no graph could capture."""
    return torch.stack([like.new_full((), value) for value in values])
