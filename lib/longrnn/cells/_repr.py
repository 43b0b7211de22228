"""The arguments of a module that `repr` shows."""

import inspect
from collections.abc import Mapping

from torch import Tensor, nn


def changed_arguments(module: nn.Module, values: Mapping[str, object]) -> str:
    """Format the sizes of a module and its non-default arguments, for `repr`.

    Parameters
    ----------
    module
        A module with an `input_size` and a `hidden_size`.
    values
        Present values of its constructor's arguments by name; other names are ignored.

    Returns
    -------
    str
        Such as ``10, 20, num_layers=2``.
    """
    parameters = inspect.signature(type(module)).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    return sizes_and_changes(module, values, defaults)


def sizes_and_changes(
    module: nn.Module, values: Mapping[str, object], defaults: Mapping[str, object]
) -> str:
    """Format the sizes of a module and the values that are not the default.

    Parameters
    ----------
    module
        As in `changed_arguments`.
    values
        Values by name.
    defaults
        Defaults by name; a value without a default is ignored.

    Returns
    -------
    str
    """
    words = [str(module.input_size), str(module.hidden_size)]
    for name, value in values.items():
        if name in defaults and differ(value, defaults[name]):
            words.append(f"{name}={formatted(value)}")
    return ", ".join(words)


def differ(value: object, other: object) -> bool:
    """Return whether a setting has another value; a tensor instead of a number always has.

    Parameters
    ----------
    value
        The present value.
    other
        The value to compare with, which is not a tensor.

    Returns
    -------
    bool
    """
    return isinstance(value, Tensor) or value != other


def formatted(value: object) -> str:
    """Return a value as text.

    Parameters
    ----------
    value
        A setting, a tensor in its place, or a list of such values.

    Returns
    -------
    str
        A tensor by its type and shape, ``Parameter()`` for a scalar; other values as Python shows
        them.
    """
    if isinstance(value, list):
        return f"[{', '.join(map(formatted, value))}]"
    if isinstance(value, Tensor):
        return f"{type(value).__name__}{tuple(value.shape)}"
    return repr(value)
