"""Recurrent networks for long-term dependencies as PyTorch modules, used like `torch.nn.LSTM`.

>>> import torch
>>> from longrnn import LEM
>>> lem = LEM(input_size=10, hidden_size=20, num_layers=2, dt=0.5)
>>> output, (y_n, z_n) = lem(torch.randn(5, 3, 10))  # (time, batch, input)

Every layer class has a one-step form, such as `LEMCell`. `adjoint_norms`, `largest_exponent` and
`singular_values` measure a layer that has one cell. `make_cell` builds such a cell by its name: one
layer in one direction, whose inputs are (time, batch, input).

The names are imported when they are first used. The engines are imported at once, so that PyTorch
knows their operators: ``import longrnn`` is all that a program saved by `torch.export` needs. Their
compiled code is kept in the folder that the environment variable ``LONGRNN_CACHE`` names when the
first kernel is compiled, by default in the user's cache folder.
"""

import longrnn.kernels  # noqa: F401 - registers the operators
from longrnn.registry import lazy_names

__version__ = "1.0.0"

_LAYERS = {
    "antisymmetric": "AntisymmetricRNN",
    "chrono_lstm": "ChronoLSTM",
    "cornn": "CoRNN",
    "dt_lstm": "DtLSTM",
    "exponential": "ExponentialRNN",
    "fastgrnn": "FastGRNN",
    "fastrnn": "FastRNN",
    "gated_antisymmetric": "GatedAntisymmetricRNN",
    "gru": "GRU",
    "indrnn": "IndRNN",
    "inverse_rnn": "InverseRNN",
    "irnn": "IncrementalRNN",
    "lem": "LEM",
    "linear_rnn": "LinearRNN",
    "lipschitz": "LipschitzRNN",
    "lru": "LRU",
    "lstm": "LSTM",
    "lu_rnn": "LURNN",
    "mingru": "MinGRU",
    "rnn": "RNN",
    "sru": "SRU",
    "unicornn": "UnICORNN",
}
_NAMES = {
    **{f"cells.{module}": (name, f"{name}Cell") for module, name in _LAYERS.items()},
    "cells": ("Cell", "Recurrent", "cell_names", "make_cell"),
    "probes.adjoint": ("AdjointNorms", "adjoint_norms"),
    "probes.lyapunov": ("largest_exponent", "singular_values", "step_jacobians"),
}

__all__ = sorted(name for names in _NAMES.values() for name in names)
__getattr__ = lazy_names(__name__, _NAMES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
