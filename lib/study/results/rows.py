"""The dataset of a group of rows: one schema for everything that is trained by one recipe on one task.

A run is a network on a task with every level in its place; its name is for people. What varies comes back as coordinates along `run`:
hyper-parameters, settings of tasks, fields of the recipe, each missing (``nan``, or ``""``) where a run has none. What was measured beside
losses and metrics is there where a row of the group asked for it.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from study.results.schema import COMPLETED, ResultsError, Schema

NAME = "rows/1"
PARTS = ("train", "validation", "test")
POSITIONS = tuple(round(k / 50, 2) for k in range(51))
"""Where along a sequence the adjoint states are kept, as shares of T."""
REAL_PARTS = tuple(round(k / 20, 2) for k in range(-60, 41))
"""Edges of the classes of eigenvalues' real parts; what lies beyond is counted in the outer ones."""
LEVELS = {
    "stage": ["untrained", "trained"],
    "position": list(POSITIONS),
    "end": ["largest", "smallest"],
    "real_sign": ["negative", "zero", "positive"],
    "real_part": list(REAL_PARTS[:-1]),
}
"""Levels of dimensions that are the same for all rows."""

_RUN = ("run",)
_TRAINING = ("run", "replicate")
_RECORD = (*_TRAINING, "record")
_STAGE = (*_TRAINING, "stage")
_TIME = (*_TRAINING, "sequence", "time")

_DIMS = {
    "run": ("network, task and recipe", "1"),
    "replicate": ("replicate: initial weights and batches of its own", "1"),
    "record": ("measurement, in the order of training", "1"),
    "stage": ("before or after training", "1"),
    "scale": ("layer, or kind of time step", "1"),
    "decade": ("log10 of a time step, lower end of a class of its histogram", "1"),
    "position": ("place in the sequence, as a share of its length", "1"),
    "end": ("end of the singular values", "1"),
    "real_sign": ("sign of an eigenvalue's real part", "1"),
    "real_part": ("lower end of a class of real parts of eigenvalues", "1"),
    "sequence": ("sequence followed through the trained network", "1"),
    "time": ("time t of a state, from 1", "step"),
    "test_sequence": ("test sequence, the same for all networks of a task", "1"),
}


def _floats(dims: tuple[str, ...], **meanings: str) -> dict[str, tuple]:
    """Return variables of a schema that are numbers without a unit, by name."""
    return {name: (dims, "float64", meaning, "1") for name, meaning in meanings.items()}


ABOUT = {
    **{
        name: (_RUN, "str", meaning, "1")
        for name, meaning in {
            "network": "name in params.yaml",
            "label": "what tables print: the network and the levels that distinguish it",
            "task": "what the task is called in tables",
            "task_settings": "task and its settings, as JSON",
            "substitute": "what stands in for the publisher's data",
            "architecture": "recurrent architecture",
            "metric": "what a part is scored by",
        }.items()
    },
    "width": (_RUN, "int64", "recurrent dimension", "1"),
    **_floats(_RUN, learning_rate="learning rate"),
    "parameters": (_RUN, "int64", "trainable numbers of the cell", "1"),
    "sequences": (_RUN, "int64", "training sequences; 0 where they are drawn", "1"),
    "test_sequences": (_RUN, "int64", "sequences tested on", "1"),
    "time_steps": (_RUN, "int64", "length of the input sequence", "step"),
    **_floats(
        _RUN,
        guess_loss="test loss of an answer that ignores the inputs",
        guess_metric="test metric of that answer",
    ),
}
_TRAINED = {
    "status": (_TRAINING, "int8", "how the training ended", "1"),
    "steps": (_TRAINING, "int64", "batches trained on", "step"),
    "records": (_TRAINING, "int64", "measurements taken", "1"),
    "step": (_RECORD, "int64", "batches trained on before the measurement", "step"),
    **_floats(
        _RECORD,
        **{
            f"{part}_{name}": f"{name} on the {part} part"
            for part in PARTS
            for name in ("loss", "metric")
        },
    ),
}
_SCORE = (
    (*_TRAINING, "test_sequence"),
    "float32",  # of float16's digits, which a file compresses well: netCDF has no float16
    "share of a test sequence's targets answered rightly, or its squared error, at the record with the best validation metric",
    "1",
)
MEASURED = {
    "gains": _floats(
        _RECORD,
        gain_first="log10 of the norm of dh_T/dh_1, median",
        gain_last="log10 of the norm of dh_T/dh_(T-1), median",
        adjoint_first="log10 of the norm of dL/dh_1, median",
    ),
    "time_steps": _floats(
        (*_STAGE, "scale", "decade"),
        time_step_share="share of a network's time steps of this size",
    ),
    "adjoint_norms": _floats(
        _STAGE,
        adjoint_norm_first="log10 of summed norms of lambda_1",
        adjoint_norm_last="log10 of summed norms of lambda_T",
    ),
    "adjoint_curve": _floats(
        (*_STAGE, "position"),
        adjoint_curve="median over sequences of log10 of the norm of the adjoint state that is read out",
    ),
    "singular_values": _floats(
        (*_STAGE, "end"),
        singular_values="mean over sequences of log10 of the singular values of the last steps",
    ),
    "eigenvalues": _floats(
        (*_STAGE, "real_sign"),
        eigenvalue_sign="share of the eigenvalues near iRNN's equilibrium by the sign of their real parts",
    )
    | _floats(
        (*_STAGE, "real_part"),
        eigenvalue_share="share of the eigenvalues near iRNN's equilibrium with such a real part",
    ),
    "trajectories": _floats(
        _TIME,
        state_norm="Euclidean norm of the state",
        adjoint_norm="log10 of the Euclidean norm of the adjoint state",
    ),
    "penalty": _floats(_RECORD, penalty="mean coadjoint penalty G (2.20)"),
}
"""Variables by the measure that asks for them, see `study.training.rows.Row`."""


def _check(ds: xr.Dataset) -> None:
    done = ds["records"] > ds["record"]
    if bool((ds["step"].where(done, 0) != ds["step"]).any()):
        raise ResultsError("step: expected 0 where nothing was recorded")
    if bool((ds["test_loss"].notnull() != done).any()):
        raise ResultsError("test_loss: expected values for exactly what was recorded")
    if bool(((ds["status"] == COMPLETED) & (ds["records"] == 0)).any()):
        raise ResultsError("records: expected some of a training that completed")


def schema(measures: Iterable[str] = (), *, scores: bool = True) -> Schema:
    """Return the schema of a dataset with these measures, and with scores of each test sequence."""
    variables = ABOUT | _TRAINED
    for measure in dict.fromkeys(measures):
        variables = variables | MEASURED[measure]
    if scores:
        variables = variables | {"sequence_score": _SCORE}
    used = {dim for dims, *_ in variables.values() for dim in dims}
    coordinates = {dim: said for dim, said in _DIMS.items() if dim in used}
    return Schema(NAME, coordinates, variables, check=_check, union=True)


def factors(said: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, np.ndarray]]:
    """Return what runs say, each its levels by name of those factors that it has, as coordinates along `run`.

    Numbers as float64, ``nan`` where a run has none (true is 1); text with ``""``. A level that is a list is JSON text: alone under its own
    name, and beside numbers under ``<name>_range``.
    """
    found: dict[str, tuple[str, np.ndarray]] = {}
    for name in sorted({key for one in said for key in one}):
        levels = [one.get(name) for one in said]
        lists = [json.dumps(v) if isinstance(v, list | dict) else "" for v in levels]
        plain = [None if text else v for v, text in zip(levels, lists, strict=True)]
        if any(isinstance(v, str) for v in plain):
            texts = ["" if v is None else str(v) for v in plain]
            found[name] = ("run", np.array([a or b for a, b in zip(texts, lists, strict=True)]))
        elif any(v is not None for v in plain):
            numbers = [math.nan if v is None else float(v) for v in plain]
            found[name] = ("run", np.array(numbers))
            if any(lists):
                found[f"{name}_range"] = ("run", np.array(lists))
        elif any(lists):
            found[name] = ("run", np.array(lists))
    return found
