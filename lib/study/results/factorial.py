r"""The factorial experiment's results: one `xarray.Dataset`, its schema and its file.

Dimensions are the design's factors (dissertation, Table 1.2) and what is measured after every
epoch::

    architecture, width, learning_rate, training_length,
    dataset, order, noise, replicate                        the attempt
    split (train, test), epoch (1..max)                     the measurement

Every variable has its meaning and unit in ``long_name``, ``units`` and ``comment``.
``adjoint_first`` and ``adjoint_last`` are log10 of :math:`\sum_i \|\lambda_1^{(i)}\|_2` and
:math:`\sum_i \|\lambda_T^{(i)}\|_2` over the sequences i of a split (3.5).
``adjoint_first_full`` and ``adjoint_last_full`` are the same for the full state (both states of an
LSTM, all layers). The paper's adjoint metric (3.6) is ``adjoint_first - adjoint_last``. A norm of
exactly zero is ``-inf``. Epochs that an attempt did not reach are ``nan``: an attempt that diverged
(a loss that is not finite) keeps what it measured before. ``largest_class`` is the accuracy of
always predicting the most frequent class.
"""

from dataclasses import replace

import xarray as xr

from study.results.netcdf import ResultsError
from study.results.schema import COMPLETED, MISSING, Dimension, Schema, Variable

SCHEMA = "factorial/2"
ATTEMPT = (
    "architecture",
    "width",
    "learning_rate",
    "training_length",
    "dataset",
    "order",
    "noise",
    "replicate",
)
"""The factors of an attempt."""
TREATMENT = tuple(factor for factor in ATTEMPT if factor != "replicate")
"""The factors that replicates share."""
TASK = ("dataset", "order", "noise")
"""The factors that make a task; the paper has thirty of them."""
EPOCH = (*ATTEMPT, "split", "epoch")
"""Dimensions of what is measured after every epoch."""
SPLITS = ("train", "test")

_COORDINATES = {
    "architecture": Dimension("recurrent architecture", "1"),
    "width": Dimension("recurrent dimension", "1"),
    "learning_rate": Dimension("learning rate of Adam", "1"),
    "training_length": Dimension("training length", "epoch"),
    "dataset": Dimension("data set", "1"),
    "order": Dimension(
        "order of the inputs",
        "1",
        "sequential: as in the data; permuted: by one permutation for all sequences",
    ),
    "noise": Dimension(
        "noise orientation",
        "1",
        "where noise inputs are added. none: nowhere; post: after the data's own inputs; "
        "uniform: spread evenly between them (dissertation, Table 1.3)",
    ),
    "replicate": Dimension("replicate", "1", "has its own initial weights and batches"),
    "split": Dimension("part of the data set", "1"),
    "epoch": Dimension("training epochs completed", "epoch"),
}
_ADJOINT = (
    "log10 of the sum over the split's sequences of ||lambda_{t}||, where the adjoint state "
    "lambda_t is the gradient of a sequence's loss with respect to the hidden state at time t, "
    "{position} (3.5). -inf: the norm is exactly zero, so no gradient arrived. "
    "adjoint_first - adjoint_last is the paper's adjoint metric (3.6), "
    "the orders of magnitude by which gradients decay; it is not a score."
)
_FIRST = _ADJOINT.format(t="1", position="here the first time step, t = 1")
_LAST = _ADJOINT.format(t="T", position="here the last time step, t = T")
_FULL = " Taken over the full state: both states of an LSTM, all layers."
_MEASURED = {
    "loss": Variable(EPOCH, "float64", "mean cross entropy", "nat"),
    "accuracy": Variable(EPOCH, "float64", "classification accuracy", "1"),
    "adjoint_first": Variable(EPOCH, "float64", "log10 of summed norms of lambda_1", "1", _FIRST),
    "adjoint_last": Variable(EPOCH, "float64", "log10 of summed norms of lambda_T", "1", _LAST),
    "adjoint_first_full": Variable(
        EPOCH, "float64", "log10 of summed norms of lambda_1, full state", "1", _FIRST + _FULL
    ),
    "adjoint_last_full": Variable(
        EPOCH, "float64", "log10 of summed norms of lambda_T, full state", "1", _LAST + _FULL
    ),
}
_VARIABLES = {
    "status": Variable(ATTEMPT, "int8", "how the attempt ended", "1"),
    "epochs_completed": Variable(ATTEMPT, "int32", "epochs with finite measurements", "epoch"),
    "parameters": Variable(
        ("architecture", "width", "dataset"), "int64", "parameters of the cell", "1"
    ),
    **_MEASURED,
    "classes": Variable(("dataset",), "int64", "number of labels", "1"),
    "largest_class": Variable(
        ("dataset",),
        "float64",
        "share of the largest class, test part",
        "1",
        "the accuracy of always predicting the most frequent class",
    ),
    "examples": Variable(("dataset", "split"), "int64", "number of sequences", "1"),
    "time_steps": Variable(("dataset", "noise"), "int64", "length of the input sequence", "step"),
}
MEASUREMENTS = tuple(_MEASURED)
"""What is measured of a network after every epoch, on each split."""


def check_measurements(ds: xr.Dataset) -> None:
    """Refuse results whose measurements are not those of exactly the completed epochs.

    Parameters
    ----------
    ds
        Results of the factorial experiment.

    Raises
    ------
    ResultsError
        A variable has a value for an epoch that was not completed, or none for one that was.
    """
    reached = ds["epoch"] <= ds["epochs_completed"]
    for name in MEASUREMENTS:
        lacking = ds[name].isnull() & reached
        surplus = ds[name].notnull() & ~reached
        if bool(lacking.any()) or bool(surplus.any()):
            raise ResultsError(f"{name}: expected values for exactly the epochs completed")
    full = ds["epochs_completed"] == ds["training_length"]
    if bool(((ds["status"] == COMPLETED) & ~full).any()):
        raise ResultsError("epochs_completed: expected all epochs where the status is completed")
    if bool(((ds["status"] == MISSING) & (ds["epochs_completed"] > 0)).any()):
        raise ResultsError("epochs_completed: expected 0 where the status is missing")


def _check(ds: xr.Dataset) -> None:
    check_measurements(ds)
    if bool(((ds["accuracy"] < 0) | (ds["accuracy"] > 1)).any()):
        raise ResultsError("accuracy: expected values between 0 and 1")


FACTORIAL = Schema(
    SCHEMA,
    _COORDINATES,
    _VARIABLES,
    _check,
    title="Factorial experiment: architectures, sizes and recipes on thirty classification tasks",
    references="L. Johnston, Learning Sequential Patterns with Recurrent Neural Networks, 2024, "
    "chapters 1 and 3",
)
SIMULATED = replace(FACTORIAL, name="simulated_factorial/1", check=check_measurements)
"""The schema of simulated results. Accuracies come from linear models, so they have no bounds."""
