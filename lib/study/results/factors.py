"""Coordinates of a group's runs: the factors that vary, with the meaning of each.

A factor is a hyperparameter of a cell, a setting of a task or of initial weights, or a field of the
recipe.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

_MEANINGS = {
    # Cells.
    "activation": "activation function of the recurrent layer",
    "alpha": "alpha of the cell, such as the frequency of UnICORNN's oscillators or iRNN's leak",
    "beta": "beta of the cell, such as the weight of the Lipschitz RNN's antisymmetric part",
    "chrono": "T_max of the chrono initialization",
    "clip": "LEM: least step size; step sizes are clipped to [clip, 1]",
    "dropout": "dropout between layers, shared by all time steps",
    "dt": "step size dt of the cell's discretized differential equation",
    "dt_range": "interval that step sizes are drawn from at the start, as JSON",
    "epsilon": "epsilon of the cell, such as a step size or coRNN's damping",
    "eta": "eta of the cell at the start, such as iRNN's inner step size or FastRNN's alpha",
    "form": "iRNN: equation that the step follows, (5) or (8)",
    "gamma": "gamma of the cell, such as a diffusion or coRNN's frequency",
    "inner_start": "iRNN: start g_0 of the inner steps, zero or the previous state",
    "inner_steps": "iRNN: number K of inner Euler steps",
    "layers": "recurrent layers",
    "length": "iRNN: time steps for which it has step sizes of their own",
    "phi": "activation function of the recurrent layer",
    "r_max": "LRU: largest modulus of an eigenvalue at the start",
    "r_min": "LRU: smallest modulus of an eigenvalue at the start",
    "rank": "iRNN: rank of V H = U - alpha I; nan for a full U",
    "sign": "iRNN: sign of the previous state in the bracket; +1 as printed",
    "single_scale": "LEM: 1 if both step sizes are the constant dt",
    "skip": "UnICORNN: layers that a residual connection skips",
    "tau": "LU and inverse RNN: steps between interchanges of W and its inverse",
    "train_c": "UnICORNN: 1 if the step sizes are trained",
    "train_eta": "iRNN: which step sizes are trained",
    # Initial weights and output layer.
    "head": "initial weights of the output layer",
    "initialization": "initial recurrent matrix",
    "input_scale": "factor on the initial input matrix; 1/T is one over the sequence length",
    "start": "initial weights",
    # Recipe.
    "batch_size": "sequences in a batch",
    "embedding_dropout": "dropout of the embedding",
    "embedding_width": "numbers that a token is embedded in",
    "epochs": "training epochs",
    "gradient_clip": "largest norm of a gradient; 0 if not clipped",
    "input_dropout": "dropout of the inputs",
    "kappa": "weight of the coadjoint penalty",
    "objective": "loss that is minimized",
    "optimizer": "optimizer",
    "orthogonality": "weight of the soft orthogonal penalty",
    "output_dropout": "dropout before the output layer",
    "read": "what the output layer reads",
    # Tasks.
    "block": "noise behind the rows: one block shared by all sequences, or a fresh one for each",
    "centred": "1 if the training mean is subtracted from all targets",
    "dataset": "prepared data set",
    "delay": "delay T of the copying task",
    "every": "time steps from one input that is kept to the next",
    "filling": "where short texts are padded",
    "keep": "which time steps of a series are kept",
    "law": "distribution of the noise",
    "location": "where the rows of the digit are: beginning, everywhere or end",
    "order": "order in which pixels are read",
    "padding": "noise rows per image row",
    "place": "time step t* of the input that decides",
    "pool": "side of the squares of pixels that are averaged",
    "share": "share of a series that is kept",
    "solver": "solver of the differential equation that makes the data",
    "standardised": "1 if inputs have mean 0 and deviation 1 over the training part",
    "test_size": "test sequences; 0 for all",
    "train_size": "training sequences; 0 for all",
    "validation_size": "validation sequences held out of the training part",
    "vectors": "word vectors that the embedding starts from",
    "words": "last words of a text that are kept; nan or 0 for all",
}
_UNITS = {
    "chrono": "step",
    "delay": "step",
    "epochs": "epoch",
    "every": "step",
    "length": "step",
    "place": "step",
    "tau": "step",
}
_UNNAMED = "setting"
"""First word of the placeholder for the meaning of a factor that is not listed."""
_ABSENT = "a run without this factor has nan, or an empty text; true is 1"


def factors(settings: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, np.ndarray, dict]]:
    """Return the factors that vary between runs as coordinates along the dimension ``run``.

    Parameters
    ----------
    settings
        For each run the levels of the factors that it has, by name.

    Returns
    -------
    dict
        For each factor the dimension, the levels, (runs,), and their attributes. Numbers are
        float64 (true is 1), and ``nan`` for a run without the factor. Texts are empty for such a
        run. A level that is a list or a mapping becomes JSON text. If other runs have a number as
        the level of this factor, the texts are under the name ``<name>_range``.
    """
    coordinates: dict[str, tuple[str, np.ndarray, dict]] = {}
    for name in sorted({key for run in settings for key in run}):
        levels = [run.get(name) for run in settings]
        for column, values in _columns(name, levels).items():
            coordinates[column] = ("run", values, factor_attributes(column))
    return coordinates


def factor_attributes(name: str) -> dict[str, str]:
    """Return ``long_name``, ``units`` and ``comment`` of a factor's coordinate.

    Parameters
    ----------
    name
        The factor, or ``<factor>_range``.

    Returns
    -------
    dict
        The attributes; a factor without a listed meaning is a setting of that name.
    """
    factor = name.removesuffix("_range")
    meaning = _MEANINGS.get(name) or _MEANINGS.get(factor) or f"{_UNNAMED} {factor!r} of the run"
    return {"long_name": meaning, "units": _UNITS.get(factor, "1"), "comment": _ABSENT}


def describe_factors(ds: xr.Dataset) -> xr.Dataset:
    """Describe every coordinate along ``run`` that has no meaning or only a placeholder.

    Parameters
    ----------
    ds
        Results of a group; changed in place, values as before.

    Returns
    -------
    xarray.Dataset
        The same dataset.
    """
    for name in ds.coords:
        meaning = ds[name].attrs.get("long_name", _UNNAMED)
        if ds[name].dims == ("run",) and meaning.startswith(_UNNAMED):
            ds[name].attrs.update(factor_attributes(str(name)))
    return ds


def _columns(name: str, levels: list) -> dict[str, np.ndarray]:
    """Return the levels of a factor as one column, or as two if there are numbers and lists."""
    has_texts = any(isinstance(level, str) for level in levels)
    texts = []  # levels that are not numbers
    numbers = []
    for level in levels:
        text = ""
        number = math.nan
        if isinstance(level, list | dict):
            text = json.dumps(level)
        elif has_texts and level is not None:
            text = str(level)
        elif level is not None:
            number = float(level)
        texts.append(text)
        numbers.append(number)
    if has_texts:
        return {name: np.array(texts)}
    columns = {}
    if any(not isinstance(level, list | dict | None) for level in levels):
        columns[name] = np.array(numbers)
    if any(texts):
        column = name
        if columns:
            column = f"{name}_range"
        columns[column] = np.array(texts)
    return columns
