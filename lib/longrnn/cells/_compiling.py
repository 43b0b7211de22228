"""A workaround for a limit of `torch.compile`: one code object per class."""

import functools
from collections.abc import Callable
from types import FunctionType


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
