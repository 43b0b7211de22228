"""The arguments of a module that `repr` shows."""

import inspect
from collections.abc import Mapping

from torch import nn


def changed_arguments(module: nn.Module, values: Mapping[str, object]) -> str:
    """Format the sizes of a module and its non-default arguments, for `repr`.

    Parameters
    ----------
    module
        A module with an `input_size` and a `hidden_size`.
    values
        Values of its constructor's arguments by name; other names are ignored.

    Returns
    -------
    str
        Such as ``10, 20, num_layers=2``.
    """
    parameters = inspect.signature(type(module)).parameters
    changed = [
        f"{name}={value!r}"
        for name, value in values.items()
        if name in parameters and value != parameters[name].default
    ]
    return ", ".join([str(module.input_size), str(module.hidden_size), *changed])
