"""The adding problem (experiment 2.4): which training stands for a network, its curve, and its adjoint states."""

import pandas as pd
import xarray as xr

from lib.results.schema import COMPLETED, DIVERGED


def chosen_rates(ds: xr.Dataset) -> pd.DataFrame:
    """Return the curves of the learning rate that is best for each network and length, as the text selects it.

    Returns
    -------
    pandas.DataFrame
        Columns ``architecture``, ``time_steps``, ``learning_rate``, ``replicate``, ``step`` (training steps) and
        ``error``. The best rate has the smallest mean error over replicates at the last checkpoint; a training
        without one, because it diverged, counts as infinite. Trainings that never ran are left out.
    """
    levels = list(ds["status"].dims)
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
    return chosen[[*levels, "step", "error"]]


def adjoint_curves(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return the adjoint states along the sequence, for the learning rates of `chosen_rates`.

    Returns
    -------
    pandas.DataFrame
        Columns ``architecture``, ``time_steps``, ``learning_rate``, ``stage``, ``position`` (t / T), ``log10_ratio``, the mean over
        replicates of :math:`\log_{10} \|\lambda_t\|_2 / \|\lambda_T\|_2`, and the gains ``largest`` and ``smallest``.
    """
    ends = ds["end"].values.tolist()
    ratio = ds["adjoint"] - ds["adjoint"].isel(position=-1)
    whole = xr.Dataset(
        {"log10_ratio": ratio, **{end: ds["gain"].sel(end=end, drop=True) for end in ends}}
    )
    mean = whole.mean("replicate").to_dataframe().reset_index()
    network = ["architecture", "time_steps", "learning_rate"]
    chosen = chosen_rates(ds)[network].drop_duplicates()
    columns = [*network, "stage", "position", "log10_ratio", *ends]
    return chosen.merge(mean, on=network, how="left")[columns]
