r"""Convergence times of attempts (chapter 1, Table A2).

The *convergence time* :math:`Y_\text{epochs}` is "the number of training epochs completed prior to
the RNN attaining its maximum task accuracy". The paper's values run from 1 to 25, so the epoch that
attains the maximum is counted too. The paper looks at the first 25 epochs of each attempt, the
shorter of its training lengths; here it is the shortest of the design.
"""

import numpy as np
import pandas as pd
import xarray as xr

from study.results.factorial import ATTEMPT
from study.stats.accuracy import CELL, cells, entered


def window(ds: xr.Dataset) -> int:
    """Return the number of epochs over which convergence is measured.

    Parameters
    ----------
    ds
        Results of the factorial experiment.

    Returns
    -------
    int
        The shortest training length of the design.
    """
    return int(ds["training_length"].min())


def convergence_times(ds: xr.Dataset, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the convergence time of every attempt that entered.

    Parameters
    ----------
    ds
        Results of the factorial experiment.
    frame
        Their attempts; those not at h* are marked as left out (`study.stats.accuracy.at_best`).

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, ``replicate`` and ``epochs``, from 1 to `window`: the first
        epoch with the largest test accuracy. Task accuracy (1.5) has its maximum in the same epoch.
    """
    accuracy = ds["accuracy"].sel(split="test", epoch=slice(window(ds))).fillna(-np.inf)
    best_epoch = accuracy.idxmax("epoch", skipna=False).transpose(*ATTEMPT).values.ravel()
    inside = entered(frame)
    table = inside[[*CELL, "replicate"]].assign(epochs=best_epoch[inside.index])
    return table.reset_index(drop=True)


def summarize_times(frame: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Summarize convergence times by task and architecture (Table A2).

    Parameters
    ----------
    frame
        All attempts of the design.
    times
        Convergence times (`convergence_times`).

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, ``attempts``, ``median`` and ``deviation`` (epochs; the standard
        deviation is nan for a single attempt).
    """
    groups = times.groupby(list(CELL), sort=False)["epochs"]
    table = groups.agg(attempts="count", median="median", deviation="std").reset_index()
    table = cells(frame).merge(table, on=list(CELL), how="left")
    return table.assign(attempts=table["attempts"].fillna(0).astype(int))
