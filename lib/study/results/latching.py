"""Schema of the latching experiment (dissertation, Figures 3.6 to 3.8).

Small networks learn to remember one sign. The dataset has the norms of their states and adjoint
states over time.
"""

import xarray as xr

from study.results.netcdf import ResultsError
from study.results.schema import COMPLETED, Dimension, Schema, Variable

_SINGLE_RUN = ("horizon", "sequence", "time")


def _check(ds: xr.Dataset) -> None:
    trained = ds["status"] == COMPLETED
    reached = ds["time"] <= ds["horizon"]
    for name, expected in (("error", True), ("exponent", True), ("adjoint_median", reached)):
        if bool((ds[name].isnull() & expected & trained).any()):
            raise ResultsError(f"{name}: expected values for every run that completed")
    if bool(((ds["error"] < 0) | (ds["error"] > 1)).any()):
        raise ResultsError("error: expected shares between 0 and 1")
    if int(ds["example"]) not in ds["training"]:
        raise ResultsError(f"example: expected the number of a run, got {int(ds['example'])}")


LATCHING = Schema(
    name="latching/1",
    coordinates={
        "training": Dimension("independent run", "1"),
        "horizon": Dimension("length of the sequences", "step"),
        "sequence": Dimension("test sequence that is followed step by step", "1"),
        "time": Dimension("time", "step"),
    },
    variables={
        "status": Variable(("training",), "int8", "how the run ended", "1"),
        "steps_completed": Variable(("training",), "int64", "batches trained on", "step"),
        "error": Variable(
            ("training", "horizon"), "float64", "share of test sequences misclassified", "1"
        ),
        "exponent": Variable(
            ("training", "sequence"),
            "float64",
            "largest Lyapunov exponent from the deciding input to the end of the longest sequence",
            "nat / step",
        ),
        "adjoint_median": Variable(
            ("training", "horizon", "time"),
            "float32",
            "median over sequences of log10 of the norm of the adjoint state",
            "1",
            "the adjoint state lambda_t is the gradient of the loss with respect to the hidden "
            "state at time t; -inf: the norm is exactly zero",
        ),
        "example": Variable((), "int64", "the run whose trajectories are kept", "1"),
        "state_norm": Variable(_SINGLE_RUN, "float32", "norm of the state in the example", "1"),
        "adjoint": Variable(
            _SINGLE_RUN, "float32", "log10 of the norm of the adjoint state in the example", "1"
        ),
    },
    check=_check,
    title="Latching: small networks that remember one sign",
    references="L. Johnston, Learning Sequential Patterns with Recurrent Neural Networks, 2024, "
    "section 3.3.2",
)
