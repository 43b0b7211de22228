"""The uncertainty of a network's score that comes from the finite test set.

More runs don't reduce this part of the uncertainty, because all runs of a task are scored on the
same sequences. This also holds for tasks that draw their sequences: those for testing are drawn
once, from a seed that depends on the task alone (`study.training.run_data`).

This part is known if the score of every test sequence was stored, in the measure of the claim, or
if the score is an accuracy, which is a binomial proportion. It is unknown for all other scores:
errors of runs that did not store scores of single sequences, and bits per character, perplexity and
cross entropy, which are stored for the whole test set only.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.api import OLS

from study.claims.claim import NetworkRef
from study.claims.experiment_sizes import scale_of_networks
from study.claims.networks import Networks
from study.paths import PUBLISHED
from study.stats.power import TAIL, Z

PATIENTS = PUBLISHED / "claims" / "patients.csv"
"""The patient of each test window, by task and in the order of the windows.

Patients are numbered as the recordings of BIDMC (`study.tasks.sources.vitals`), and windows are in
the order in which runs read them (`study.tasks.load_prepared`).
"""
WHOLE_TEST_SET = ("perplexity", "bits", "cross entropy")
"""Measures that are stored for the whole test set only, not for single sequences."""


class SamplingError(NamedTuple):
    """The standard error of a score, or of a difference of two, from the finite test set."""

    error: float
    """Standard error in the unit of the score."""
    paired: bool
    """Whether it was computed from the stored scores of all test sequences, which pair two
    networks. Otherwise it is that of binomial proportions.
    """


def sampling_error(
    networks: Networks, *names: NetworkRef, logs: bool = False
) -> SamplingError | None:
    """Return the standard error of a score, or of a difference of two, from the finite test set.

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
    SamplingError or None
        None if it is unknown: see the top of this module. It is also unknown for overlapping
        windows of patients if there are more or fewer than `PATIENTS` lists, as in a run at the
        paper's scale, because their patients are unknown then.
    """
    influences = [_influences(networks, name, logs=logs) for name in names]
    stored = all(values is not None for values in influences)
    if stored and len({len(values) for values in influences}) == 1:
        differences = np.subtract.reduce(influences)  # of two networks; one stays as it is
        patients = patients_in_test(networks.task)
        if patients is not None and len(patients) != len(differences):
            return None
        return SamplingError(error_of_mean(differences, patients), paired=True)
    size = scale_of_networks(networks, *names).test_size
    if not networks.higher_is_better or not size:
        return None
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
    if not len(patients):
        return None
    return patients


def error_of_mean(values: np.ndarray, clusters: np.ndarray | None = None) -> float:
    """Return the standard error of a mean, robust to dependence within clusters.

    Parameters
    ----------
    values
        One value per test sequence, (n,).
    clusters
        Cluster of each value, (n,). Windows of one patient overlap, so their errors are
        correlated. None if the values are independent.

    Returns
    -------
    float
        With clusters, the standard error of Liang and Zeger (1986), multiplied by the ratio of
        Student's quantile to the normal one, because there are few clusters.

    Raises
    ------
    ValueError
        There is not one cluster per value.
    """
    if clusters is None:
        return float(values.std(ddof=1) / math.sqrt(len(values)))
    if len(clusters) != len(values):
        raise ValueError(
            f"got {len(values)} values but the clusters of {len(clusters)}; "
            "give the cluster of each value, or None if they are independent"
        )
    model = OLS(values, np.ones(len(values)))
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": clusters})
    small_sample_factor = stats.t.isf(TAIL, len(np.unique(clusters)) - 1) / Z
    return float(fit.bse[0] * small_sample_factor)


def _influences(networks: Networks, name: NetworkRef, *, logs: bool) -> np.ndarray | None:
    """Return each test sequence's influence on the score, or on its logarithm, (sequences,).

    By the delta method, the standard error of the score is that of the mean influence. None if the
    scores of single sequences were not stored.
    """
    scores = _sequence_scores(networks, name)
    if scores is None:
        return None
    by_sequence = np.nanmean(scores, axis=0)  # over runs
    mean = by_sequence.mean()
    deviations = by_sequence - mean
    if networks.higher_is_better and not logs:
        return networks.unit * deviations
    # An error is this power of the mean squared error: the root, or the mean itself.
    exponent = 0.5
    if networks.is_squared_error:
        exponent = 1.0
    if logs:
        return exponent / mean * deviations
    return -exponent * mean ** (exponent - 1) * deviations


def _sequence_scores(networks: Networks, name: NetworkRef) -> np.ndarray | None:
    """Return each run's score of each test sequence, (runs, sequences); None if not stored."""
    rows = networks.runs(name)
    if rows["run"].nunique() != 1 or networks.measure in WHOLE_TEST_SET:
        return None
    if "sequence_score" not in networks.ds:
        return None
    run = networks.ds["sequence_score"].sel(run=rows["run"].iloc[0])
    scores = run.sel(replicate=rows["replicate"].tolist()).values.astype(float)
    scores = scores[:, np.isfinite(scores).any(axis=0)]
    if scores.shape[1] < 2:
        return None
    return scores


def sampling_variance(networks: Networks, name: NetworkRef) -> float | None:
    """Return the variance between runs that comes from the finite test set.

    Only a run's own luck with single sequences counts. What makes a sequence difficult for all runs
    does not let runs differ, so it is removed.

    Parameters
    ----------
    networks
        The networks on one task.
    name
        One of them.

    Returns
    -------
    float or None
        In squared units of the score. None if scores by sequence were not stored for every run, or
        if the score is a root mean squared error, which is not a mean over sequences.
    """
    if not networks.higher_is_better and not networks.is_squared_error:
        return None
    scores = _sequence_scores(networks, name)
    if scores is None or not np.isfinite(scores).all():
        return None
    residual = scores - scores.mean(axis=0) - scores.mean(axis=1, keepdims=True)
    runs, sequences = scores.shape
    # `var` subtracts the mean, which the line above subtracts twice.
    return (networks.unit * residual).var() * runs / (runs - 1) / sequences
