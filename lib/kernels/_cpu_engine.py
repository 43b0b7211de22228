"""What is said of every CPU engine when it registers."""

from collections.abc import Callable

import torch

from lib.kernels._registry import register


def engine(*cells: str, **more) -> Callable:
    """Return a decorator that registers a function as the engine ``numba-cpu`` of `cells`, for float32 and float64."""
    return register(
        "numba-cpu", *cells, devices=("cpu",), dtypes=(torch.float32, torch.float64), **more
    )
