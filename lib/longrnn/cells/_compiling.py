"""PyTorch's compilers: one code object per class for `torch.compile`, and no `torch.jit.script`."""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import NoReturn


class NotScripted:
    """A module that refuses `torch.jit.script`, whose own errors quote lines of this library."""

    def __prepare_scriptable__(self) -> NoReturn:
        """Refuse; PyTorch calls this for a scripted module and for each module in it."""
        raise TypeError(
            f"{type(self).__name__}: torch.jit.script cannot compile this module; use "
            "torch.compile or torch.export, or replace it by torch.jit.trace(module, inputs) first"
        )


def with_own_code(function: Callable, owner: type) -> Callable:
    """Return a copy of an inherited method with a code object of its own.

    `torch.compile` counts how often it compiles each code object and gives up after eight times.
    A program that compares nine cells would reach that limit if they shared one `forward`.

    Parameters
    ----------
    function
        A method, such as ``Cell.forward``.
    owner
        The class that gets the copy. Tracebacks name it.

    Returns
    -------
    callable
        A function that behaves as `function` does.
    """
    qualified = f"{owner.__qualname__}.{function.__name__}"
    code = function.__code__.replace(co_qualname=qualified)
    copy = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,  # a method that calls `super()` has one
    )
    copy = functools.update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = qualified
    del copy.__wrapped__
    return copy
