"""The dataset of experiment 2.3: its schema, and what must hold in it.

Two sets of attempts share it. The attempts behind Table 2.2 have the dimensions `ATTEMPT`; the sweep over kappa behind Figure A2
has the dimensions `SWEEP`, one data set and width (named in the attribute ``settings``), and variables that begin with
``sweep_``. A design need not be a full grid, as Table 2.2 is none: the status of what it does not have is "not planned".
"""

import xarray as xr

from lib.results.schema import COMPLETED, DIVERGED, ResultsError, Schema

SPLITS = ("train", "test")
ATTEMPT = ("dataset", "padding", "method", "width", "replicate")
SWEEP = ("sweep_padding", "initialisation", "kappa", "sweep_replicate")

_COORDINATES = {
    "dataset": ("data set", "1"),
    "padding": ("rows of noise as a multiple of the image's rows", "1"),
    "method": ("network and way of training", "1"),
    "width": ("recurrent dimension", "1"),
    "replicate": ("replicate: noise, initial weights and batches of its own", "1"),
    "sweep_padding": ("rows of noise as a multiple of the image's rows, in the sweep", "1"),
    "initialisation": ("how the recurrent weights are drawn, in the sweep", "1"),
    "kappa": ("weight of the coadjoint penalty, in the sweep", "1"),
    "sweep_replicate": ("replicate, in the sweep", "1"),
    "split": ("part of the data set", "1"),
    "epoch": ("training epochs completed", "epoch"),
}


def _measured(prefix: str, dims: tuple[str, ...]) -> dict[str, tuple]:
    each = (*dims, "split", "epoch")
    return {
        f"{prefix}epochs_completed": (dims, "int32", "epochs with finite measurements", "epoch"),
        f"{prefix}loss": (each, "float64", "mean cross entropy", "nat"),
        f"{prefix}accuracy": (each, "float64", "classification accuracy", "1"),
        f"{prefix}adjoint_first": (
            dims,
            "float64",
            "log10 of summed norms of lambda_1 after training, test sequences, full state",
            "1",
        ),
        f"{prefix}adjoint_last": (dims, "float64", "the same of lambda_T", "1"),
    }


_VARIABLES = {
    "status": (ATTEMPT, "int8", "how the attempt ended", "1"),
    **_measured("", ATTEMPT),
    "sweep_status": (SWEEP, "int8", "how the attempt of the sweep ended", "1"),
    **_measured("sweep_", SWEEP),
    "examples": (("dataset", "split"), "int64", "number of sequences", "1"),
    "time_steps": (("dataset", "padding"), "int64", "length of the input sequence", "step"),
    "largest_class": (("dataset",), "float64", "share of the largest class, test part", "1"),
    "first_class": (("dataset",), "float64", "share of the first class, test part", "1"),
}
MEASURED = tuple(_measured("", ATTEMPT))
"""Names of what an attempt measures; in the sweep they begin with ``sweep_``."""


def _check(ds: xr.Dataset) -> None:
    for prefix in ("", "sweep_"):
        status, done = ds[f"{prefix}status"], ds[f"{prefix}epochs_completed"]
        if bool(((status == COMPLETED) & (done != ds.sizes["epoch"])).any()):
            raise ResultsError(f"{prefix}epochs_completed: expected all epochs where completed")
        if bool((~status.isin((COMPLETED, DIVERGED)) & (done > 0)).any()):
            raise ResultsError(f"{prefix}epochs_completed: expected 0 where nothing ran")
        for name in ("loss", "accuracy"):
            if bool((ds[prefix + name].notnull() != (ds["epoch"] <= done)).any()):
                raise ResultsError(f"{prefix}{name}: expected values for the epochs completed only")
        for name in ("adjoint_first", "adjoint_last"):
            if bool((ds[prefix + name].notnull() != (status == COMPLETED)).any()):
                raise ResultsError(
                    f"{prefix}{name}: expected values where completed, and only there"
                )
        accuracy = ds[f"{prefix}accuracy"]
        if bool(((accuracy < 0) | (accuracy > 1)).any()):
            raise ResultsError(f"{prefix}accuracy: expected values between 0 and 1")


SCHEMA = Schema("padding/2", _COORDINATES, _VARIABLES, _check, unions=("status",))
