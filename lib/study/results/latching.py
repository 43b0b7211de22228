"""The dataset of networks that latch (dissertation, Figures 3.6 to 3.8): what a small network does over time that remembers one sign."""

import xarray as xr

from study.results.schema import COMPLETED, ResultsError, Schema


def _check(ds: xr.Dataset) -> None:
    trained = ds["status"] == COMPLETED
    reached = ds["time"] <= ds["horizon"]
    for name, expected in (("error", True), ("exponent", True), ("adjoint_median", reached)):
        if bool((ds[name].isnull() & expected & trained).any()):
            raise ResultsError(f"{name}: expected values wherever a training was completed")
    if bool(((ds["error"] < 0) | (ds["error"] > 1)).any()):
        raise ResultsError("error: expected shares between 0 and 1")
    if int(ds["example"]) not in ds["training"]:
        raise ResultsError(f"example: expected one of the trainings, got {int(ds['example'])}")


_ALL = ("horizon", "sequence", "time")

LATCHING = Schema(
    name="latching/1",
    coordinates={
        "training": ("independent training", "1"),
        "horizon": ("length of the sequences", "step"),
        "sequence": ("test sequence that is followed step by step", "1"),
        "time": ("time", "step"),
    },
    variables={
        "status": (("training",), "int8", "how the training ended", "1"),
        "steps_completed": (("training",), "int64", "batches trained on", "step"),
        "error": (("training", "horizon"), "float64", "share of test sequences misclassified", "1"),
        "exponent": (
            ("training", "sequence"),
            "float64",
            "largest Lyapunov exponent from the deciding input to the end of the longest sequence",
            "nat / step",
        ),
        "adjoint_median": (
            ("training", "horizon", "time"),
            "float32",
            "median over sequences of log10 of the norm of the adjoint state",
            "1",
        ),
        "example": ((), "int64", "the training whose trajectories are kept", "1"),
        "state_norm": (_ALL, "float32", "norm of the state in the example", "1"),
        "adjoint": (_ALL, "float32", "log10 of the norm of the adjoint state in the example", "1"),
    },
    check=_check,
)
