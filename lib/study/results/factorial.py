r"""The factorial experiment's results: one `xarray.Dataset`, its schema and its file.

Dimensions are the design's factors (dissertation, Table 1.2) and what is measured after every epoch::

    architecture, width, learning_rate, training_length, dataset, order, noise, replicate   the attempt
    split (train, test), epoch (1..max)                                                     the measurement

Every variable says its meaning and unit itself (``long_name``, ``units``). ``adjoint_first`` and ``adjoint_last`` are
log10 of :math:`\sum_i \|\lambda_1^{(i)}\|_2` and :math:`\sum_i \|\lambda_T^{(i)}\|_2` over the sequences i of a split (3.5), with
``_full`` those of the full state (both states of an LSTM, all layers), and the adjoint metric of the text (3.6) is their difference,
``adjoint_first - adjoint_last``. A norm of exactly zero is ``-inf``, and epochs that an attempt did not reach are ``nan``: a diverged
attempt (a non-finite loss) keeps what it measured before. ``largest_class`` is what a constant answer finds.
"""

import xarray as xr

from study.results.schema import COMPLETED, MISSING, ResultsError, Schema

SCHEMA = "factorial/2"
ATTEMPT = ("architecture", "width", "learning_rate", "training_length")
ATTEMPT += ("dataset", "order", "noise", "replicate")
MEASURED = (*ATTEMPT, "split", "epoch")
SPLITS = ("train", "test")

_COORDINATES = {
    "architecture": ("recurrent architecture", "1"),
    "width": ("recurrent dimension", "1"),
    "learning_rate": ("learning rate of Adam", "1"),
    "training_length": ("training length", "epoch"),
    "dataset": ("data set", "1"),
    "order": ("order of the inputs", "1"),
    "noise": ("noise orientation", "1"),
    "replicate": ("replicate", "1"),
    "split": ("part of the data set", "1"),
    "epoch": ("training epochs completed", "epoch"),
}
_MEASURED = {
    "loss": ("mean cross entropy", "nat"),
    "accuracy": ("classification accuracy", "1"),
    "adjoint_first": ("log10 of summed norms of lambda_1", "1"),
    "adjoint_last": ("log10 of summed norms of lambda_T", "1"),
    "adjoint_first_full": ("log10 of summed norms of lambda_1, full state", "1"),
    "adjoint_last_full": ("log10 of summed norms of lambda_T, full state", "1"),
}
_VARIABLES = {
    "status": (ATTEMPT, "int8", "how the attempt ended", "1"),
    "epochs_completed": (ATTEMPT, "int32", "epochs with finite measurements", "epoch"),
    "parameters": (("architecture", "width", "dataset"), "int64", "parameters of the cell", "1"),
    **{name: (MEASURED, "float64", *said) for name, said in _MEASURED.items()},
    "classes": (("dataset",), "int64", "number of labels", "1"),
    "largest_class": (("dataset",), "float64", "share of the largest class, test part", "1"),
    "examples": (("dataset", "split"), "int64", "number of sequences", "1"),
    "time_steps": (("dataset", "noise"), "int64", "length of the input sequence", "step"),
}
MEASUREMENTS = tuple(_MEASURED)


def check_measurements(ds: xr.Dataset) -> None:
    """Refuse results whose measurements are not those of exactly the epochs that were completed.

    Raises
    ------
    ResultsError
        What was found where.
    """
    reached = ds["epoch"] <= ds["epochs_completed"]
    for name in MEASUREMENTS:
        if bool((ds[name].isnull() & reached).any()) or bool((ds[name].notnull() & ~reached).any()):
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


FACTORIAL = Schema(SCHEMA, _COORDINATES, _VARIABLES, _check)
