"""How much the score of a network depends on the finite test set.

More runs do not reduce this part of the uncertainty: all runs are scored on the same sequences.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.api import OLS

from study.claims.claim import NetworkName
from study.claims.estimators import TAIL, Z
from study.claims.experiment_sizes import scale_of_networks
from study.claims.networks import Networks
from study.paths import PUBLISHED

PATIENTS = PUBLISHED / "claims" / "patients.csv"
"""The patient of each test window, by task and in the order of the windows.

Patients are numbered as the recordings of BIDMC (`study.tasks.sources.vitals`), and windows are in
the order in which runs read them (`study.tasks.load_prepared`).
"""


class SamplingError(NamedTuple):
    """How much a score, or a difference of two, depends on the finite test set."""

    error: float
    """Standard error in the unit of the score; 0 if it is unknown."""
    paired: bool
    """Whether the score of every test sequence was stored, so that the error is that of paired
    differences; else it is that of two binomials.
    """


def sampling_error(networks: Networks, *names: NetworkName, logs: bool = False) -> SamplingError:
    """Return how much a score, or a difference of two, depends on the finite test set.

    Parameters
    ----------
    networks
        The networks on one task.
    names
        One of them, or two.
    logs
        Whether logarithms of errors are compared.

    Returns
    -------
    SamplingError
    """
    by_sequence = [_by_sequence(networks, name, logs=logs) for name in names]
    stored = all(values is not None for values in by_sequence)
    if stored and len({len(values) for values in by_sequence}) == 1:
        differences = np.subtract.reduce(by_sequence)
        patients = patients_in_test(networks.task)
        return SamplingError(error_of_mean(differences, patients), paired=True)
    size = scale_of_networks(networks, *names).test_size
    if not networks.higher_is_better or not size:
        return SamplingError(0.0, paired=False)
    variances = []
    for name in names:
        accuracy = networks.scores(name).mean()
        variances.append(accuracy * (networks.unit - accuracy) / size)
    error = math.hypot(*(math.sqrt(variance) for variance in variances))
    return SamplingError(error, paired=False)


@cache
def patients_in_test(task: str) -> np.ndarray | None:
    """Return the patient of each test window of a task.

    Parameters
    ----------
    task
        Name of the task.

    Returns
    -------
    numpy.ndarray or None
        Numbers of patients, (windows,); None if its sequences are independent.
    """
    table = pd.read_csv(PATIENTS)
    patients = table.loc[table["task"] == task, "patient"].to_numpy()
    return patients if len(patients) else None


def error_of_mean(values: np.ndarray, clusters: np.ndarray | None = None) -> float:
    """Return the standard error of a mean, robust to dependence within clusters.

    Parameters
    ----------
    values
        One value per test sequence, (n,).
    clusters
        Name of the cluster of each, (n,). Windows of one patient overlap, so their errors are
        correlated. If there are not as many clusters as values, each value counts as independent.

    Returns
    -------
    float
        With clusters, the standard error of Liang and Zeger (1986) times the ratio of Student's
        quantile to the normal one, because there are few clusters.
    """
    if clusters is None or len(clusters) != len(values):
        return float(values.std(ddof=1) / math.sqrt(len(values)))
    model = OLS(values, np.ones(len(values)))
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": clusters})
    few = stats.t.isf(TAIL, len(np.unique(clusters)) - 1) / Z
    return float(fit.bse[0] * few)


def _by_sequence(networks: Networks, name: NetworkName, *, logs: bool) -> np.ndarray | None:
    """Return each test sequence's influence on the score (or its log), (sequences,).

    It is the mean over runs; None if scores by sequence were not stored.
    """
    answers = _answers(networks, name)
    if answers is None:
        return None
    each = np.nanmean(answers, axis=0)
    middle = each.mean()
    # An error is this power of the mean over sequences; the slope is its derivative.
    power = 0.5
    if networks.measure == "squared error":
        power = 1.0
    if logs:
        return power / middle * (each - middle)
    slope = -power * middle ** (power - 1)
    if networks.higher_is_better:
        slope = networks.unit
    return slope * (each - middle)


def _answers(networks: Networks, name: NetworkName) -> np.ndarray | None:
    """Return each run's score of each test sequence, (n, sequences); None if not stored."""
    rows = networks.runs(name)
    if rows["run"].nunique() != 1 or networks.measure in ("perplexity", "bits", "cross entropy"):
        return None
    if "sequence_score" not in networks.ds:
        return None
    run = networks.ds["sequence_score"].sel(run=rows["run"].iloc[0])
    scores = run.sel(replicate=rows["replicate"].tolist()).values.astype(float)
    scores = scores[:, np.isfinite(scores).any(axis=0)]
    return scores if scores.shape[1] > 1 else None


def sampling_variance(networks: Networks, name: NetworkName) -> float:
    """Return the variance of a run's score due to the finite test set.

    The difficulty that a sequence has for all runs is removed.

    Parameters
    ----------
    networks
        The networks on one task.
    name
        One of them.

    Returns
    -------
    float
        In squared units of the score; 0 if scores by sequence were not stored for every run.
    """
    answers = _answers(networks, name)
    if answers is None or not np.isfinite(answers).all():
        return 0.0
    residual = answers - answers.mean(axis=0) - answers.mean(axis=1, keepdims=True)
    runs, sequences = answers.shape
    return (networks.unit * residual).var() * runs / (runs - 1) / sequences
