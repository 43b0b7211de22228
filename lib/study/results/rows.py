"""Schema of the dataset of a group of `params.yaml`: networks on tasks.

A run is a network on a task with one level of every factor; its name is for readers. Factors that
vary are coordinates along ``run`` (`study.results.factors`). Measurements other than losses and
metrics are present if any run of the group requests them.
"""

from collections.abc import Iterable

import xarray as xr

from study.results.netcdf import ResultsError
from study.results.schema import COMPLETED, Dimension, Schema, Variable

NAME = "rows/1"
PARTS = ("train", "validation", "test")
POSITIONS = tuple(round(k / 50, 2) for k in range(51))
"""Positions in a sequence at which adjoint states are kept, as shares of T."""
REAL_PARTS = tuple(round(k / 20, 2) for k in range(-60, 41))
"""Edges of the bins of eigenvalues' real parts. The outermost bins also count values outside."""
LEVELS = {
    "stage": ["untrained", "trained"],
    "position": list(POSITIONS),
    "end": ["largest", "smallest"],
    "real_sign": ["negative", "zero", "positive"],
    "real_part": list(REAL_PARTS[:-1]),
}
"""Levels of the dimensions that are the same for all groups."""

_RUN = ("run",)
_TRAINING = ("run", "replicate")
_RECORD = (*_TRAINING, "record")
_STAGE = (*_TRAINING, "stage")
_TIME = (*_TRAINING, "sequence", "time")

_DIMS = {
    "run": Dimension("network, task and recipe", "1"),
    "replicate": Dimension("replicate: has its own initial weights and batches", "1"),
    "record": Dimension("measurement, in the order of training", "1"),
    "stage": Dimension("before or after training", "1"),
    "scale": Dimension("layer, or kind of time step", "1"),
    "decade": Dimension("log10 of a time step, lower end of a bin of its histogram", "1"),
    "position": Dimension("position in the sequence, as a share of its length", "1"),
    "end": Dimension("end of the singular values", "1"),
    "real_sign": Dimension("sign of an eigenvalue's real part", "1"),
    "real_part": Dimension("lower end of a bin of real parts of eigenvalues", "1"),
    "sequence": Dimension("sequence followed through the trained network", "1"),
    "time": Dimension("time t of a state, from 1", "step"),
    "test_sequence": Dimension("test sequence, the same for all networks of a task", "1"),
}


def _floats(dims: tuple[str, ...], comment: str = "", **meanings: str) -> dict[str, Variable]:
    """Return float64 variables without a unit, by name."""
    return {
        name: Variable(dims, "float64", meaning, "1", comment) for name, meaning in meanings.items()
    }


def _texts(**meanings: str) -> dict[str, Variable]:
    """Return variables with one text for each run, by name."""
    return {name: Variable(_RUN, "str", meaning, "1") for name, meaning in meanings.items()}


_METRIC = (
    "accuracy: share of correct predictions, larger is better; root mean squared error: smaller is "
    "better. Not the adjoint metric (3.6) of the factorial experiment."
)
ABOUT = {
    **_texts(
        network="name in params.yaml",
        label="name in tables: the network and the levels that distinguish it",
        task="name of the task in tables",
        task_settings="task and its settings, as JSON",
        substitute="how the data differ from the publisher's; empty if they don't",
        architecture="recurrent architecture",
    ),
    "metric": Variable(_RUN, "str", "name of the score in *_metric", "1", _METRIC),
    "width": Variable(_RUN, "int64", "recurrent dimension", "1"),
    **_floats(_RUN, learning_rate="learning rate"),
    "parameters": Variable(_RUN, "int64", "parameters of the cell, frozen ones included", "1"),
    "sequences": Variable(_RUN, "int64", "training sequences; 0 if they are drawn", "1"),
    "test_sequences": Variable(_RUN, "int64", "sequences tested on", "1"),
    "time_steps": Variable(_RUN, "int64", "length of the input sequence", "step"),
    **_floats(
        _RUN,
        comment="chance level",
        guess_loss="test loss of the best prediction that ignores the inputs",
        guess_metric="test metric of the best prediction that ignores the inputs",
    ),
}
_SCORES = {
    f"{part}_{name}": f"{name} on the {part} part" for part in PARTS for name in ("loss", "metric")
}
_TRAINED = {
    "status": Variable(_TRAINING, "int8", "how the run ended", "1"),
    "steps": Variable(_TRAINING, "int64", "optimizer steps of the run", "step"),
    "records": Variable(_TRAINING, "int64", "measurements taken", "1"),
    "step": Variable(_RECORD, "int64", "optimizer steps before the measurement", "step"),
    **_floats(
        _RECORD,
        comment="the variable 'metric' has the name of the score; nan: not recorded, or the task "
        "has no such part",
        **_SCORES,
    ),
}
_SEQUENCE_SCORE = Variable(
    (*_TRAINING, "test_sequence"),
    "float32",  # with float16's digits, which a file compresses well: netCDF has no float16
    "share of a test sequence's targets predicted correctly, or its mean squared error",
    "1",
    "at the record with the best validation metric",
)
_ADJOINT = (
    "lambda_t, the adjoint state, is the gradient of a sequence's loss with respect to the hidden "
    "state h_t; lambda_1 is at the first time step, lambda_T at the last. -inf: the norm is "
    "exactly zero, so no gradient arrived."
)
_GAINS = "h_t is the hidden state at time t, L the loss. -inf: the norm is exactly zero."
MEASURED = {
    "gains": _floats(
        _RECORD,
        comment=_GAINS,
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
        comment=_ADJOINT,
        adjoint_norm_first="log10 of summed norms of lambda_1",
        adjoint_norm_last="log10 of summed norms of lambda_T",
    ),
    "adjoint_curve": _floats(
        (*_STAGE, "position"),
        comment=_ADJOINT,
        adjoint_curve="median over sequences of log10 of the norm of the adjoint state "
        "that is read out",
    ),
    "singular_values": _floats(
        (*_STAGE, "end"),
        singular_values="mean over sequences of log10 of the largest and the smallest singular "
        "value of dx_T/dx_(T-s), where x is the state and s the setting stretch",
    ),
    "eigenvalues": {
        **_floats(
            (*_STAGE, "real_sign"),
            eigenvalue_sign="share of the eigenvalues near iRNN's equilibrium by the sign of "
            "their real parts",
        ),
        **_floats(
            (*_STAGE, "real_part"),
            eigenvalue_share="share of the eigenvalues near iRNN's equilibrium with such a "
            "real part",
        ),
    },
    "trajectories": _floats(
        _TIME,
        comment=_ADJOINT,
        state_norm="Euclidean norm of the state",
        adjoint_norm="log10 of the Euclidean norm of the adjoint state",
    ),
    "penalty": _floats(_RECORD, penalty="mean coadjoint penalty G (2.20)"),
}
"""Variables of each measure, by the names in `study.config.measurement.Measure`."""


def schema(measures: Iterable[str] = (), *, scores: bool = True) -> Schema:
    """Return the schema of a group's dataset.

    Parameters
    ----------
    measures
        Names in `MEASURED`: what is measured in addition to losses and metrics.
    scores
        Whether it has the score of each test sequence.

    Returns
    -------
    Schema
        The schema.
    """
    variables = ABOUT | _TRAINED
    for measure in dict.fromkeys(measures):
        variables = variables | MEASURED[measure]
    if scores:
        variables = variables | {"sequence_score": _SEQUENCE_SCORE}
    used = {dim for variable in variables.values() for dim in variable.dims}
    coordinates = {name: dimension for name, dimension in _DIMS.items() if name in used}
    return Schema(
        NAME,
        coordinates,
        variables,
        check=_check,
        union=True,
        title="Networks on tasks, one run per network, task and level of every factor",
        references="data/published/sources.csv lists the papers whose experiments these are",
    )


def _check(ds: xr.Dataset) -> None:
    recorded = ds["records"] > ds["record"]
    if bool((ds["step"].where(recorded, 0) != ds["step"]).any()):
        raise ResultsError("step: expected 0 where nothing was recorded")
    if bool((ds["test_loss"].notnull() != recorded).any()):
        raise ResultsError("test_loss: expected values for exactly what was recorded")
    if bool(((ds["status"] == COMPLETED) & (ds["records"] == 0)).any()):
        raise ResultsError("records: expected at least one for a run that completed")
