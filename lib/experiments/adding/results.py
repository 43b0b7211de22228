"""The dataset of the adding problem: what is kept of every training, and which one stands for a network."""

import pandas as pd
import xarray as xr

from lib.results.schema import COMPLETED, DIVERGED, NOT_PLANNED, ResultsError, Schema

POSITIONS = tuple(round(k / 50, 2) for k in range(51))
"""Where along a sequence the adjoint states are kept, as shares of T."""
STAGES = ("untrained", "trained")
ENDS = ("largest", "smallest")
LEVELS = ("architecture", "time_steps", "learning_rate", "replicate")
"""The levels of one training, from which its random numbers follow."""


def _check(ds: xr.Dataset) -> None:
    trained = ds["status"] == COMPLETED
    for name in ("error", "adjoint", "gain"):
        over = [dim for dim in ds[name].dims if dim not in LEVELS]
        if bool((ds[name].isnull().any(over) & trained).any()):
            raise ResultsError(f"{name}: expected values wherever a training was completed")
    if bool(((ds["steps_completed"] != ds["training_steps"]) & trained).any()):
        raise ResultsError("steps_completed: expected all training steps of a completed training")
    if bool(((ds["status"] == NOT_PLANNED) != (ds["training_steps"] == 0)).any()):
        raise ResultsError("training_steps: expected some exactly where a training is planned")
    if bool((ds["error"] < 0).any()):
        raise ResultsError("error: expected mean squared errors of at least 0")


SCHEMA = Schema(
    name="adding/2",
    coordinates={
        "architecture": ("recurrent architecture", "1"),
        "time_steps": ("length of the sequences", "step"),
        "learning_rate": ("learning rate of Adam", "1"),
        "replicate": ("replicate", "1"),
        "checkpoint": ("measurement of the error, the first before training", "1"),
        "position": ("place in the sequence, as a share of its length", "1"),
        "stage": ("before or after training", "1"),
        "end": ("end of the singular values", "1"),
    },
    variables={
        "status": (LEVELS, "int8", "how the training ended", "1"),
        "training_steps": (LEVELS, "int64", "batches planned", "step"),
        "steps_completed": (LEVELS, "int64", "batches trained on", "step"),
        "parameters": (("architecture",), "int64", "parameters of the cell", "1"),
        "error": (
            (*LEVELS, "checkpoint"),
            "float64",
            "mean squared error on the test sequences",
            "1",
        ),
        "adjoint": (
            (*LEVELS, "stage", "position"),
            "float64",
            "median over sequences of log10 of the norm of the adjoint state that is read out",
            "1",
        ),
        "gain": (
            (*LEVELS, "stage", "end"),
            "float64",
            "mean over sequences of log10 of the singular values of the last 2 tau steps",
            "1",
        ),
    },
    check=_check,
    unions=("status",),
)


def chosen_rates(ds: xr.Dataset) -> pd.DataFrame:
    """Return the curves of the learning rate that is best for each network and length, as the text selects it.

    Returns
    -------
    pandas.DataFrame
        Columns ``architecture``, ``time_steps``, ``learning_rate``, ``replicate``, ``step`` (training steps) and
        ``error``. The best rate has the smallest mean error over replicates at the last checkpoint; a training
        without one, because it diverged, counts as infinite. Trainings that never ran are left out.
    """
    checkpoints = ds.sizes["checkpoint"] - 1
    steps = ds["training_steps"] * ds["checkpoint"] // checkpoints
    frame = xr.Dataset({"error": ds["error"], "step": steps, "status": ds["status"]})
    frame = frame.to_dataframe().reset_index()
    frame = frame[frame["status"].isin((COMPLETED, DIVERGED))]
    last = frame[frame["checkpoint"] == checkpoints].fillna({"error": float("inf")})
    network = ["architecture", "time_steps"]
    mean = last.groupby([*network, "learning_rate"], sort=False)["error"].mean().reset_index()
    best = mean.loc[
        mean.groupby(network, sort=False)["error"].idxmin(), [*network, "learning_rate"]
    ]
    chosen = best.merge(frame, on=[*network, "learning_rate"], how="left")
    return chosen[[*LEVELS, "step", "error"]]


def adjoint_curves(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return the adjoint states along the sequence, for the learning rates of `chosen_rates`.

    Returns
    -------
    pandas.DataFrame
        Columns ``architecture``, ``time_steps``, ``learning_rate``, ``stage``, ``position`` (t / T), ``log10_ratio``, the mean over
        replicates of :math:`\log_{10} \|\lambda_t\|_2 / \|\lambda_T\|_2`, and the gains ``largest`` and ``smallest``.
    """
    ratio = ds["adjoint"] - ds["adjoint"].isel(position=-1)
    whole = xr.Dataset(
        {"log10_ratio": ratio, **{end: ds["gain"].sel(end=end, drop=True) for end in ENDS}}
    )
    mean = whole.mean("replicate").to_dataframe().reset_index()
    network = ["architecture", "time_steps", "learning_rate"]
    chosen = chosen_rates(ds)[network].drop_duplicates()
    columns = [*network, "stage", "position", "log10_ratio", *ENDS]
    return chosen.merge(mean, on=network, how="left")[columns]
