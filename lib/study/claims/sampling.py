"""How much the score of a network depends on the finite test set.

More runs do not reduce this part of the uncertainty: all runs are scored on the same sequences.
"""

import math
from typing import NamedTuple

import numpy as np

from study.claims.claim import NetworkName
from study.claims.networks import Networks

PATIENTS = {"heart rate": 53, "respiratory rate": 53, "heart rate by patient": 8}
"""Effective test-set size by task: windows of one patient overlap, so patients are counted."""


class SamplingError(NamedTuple):
    """How much a score, or a difference of two, depends on the finite test set."""

    error: float
    """Standard error in the unit of the score; 0 if it is unknown."""
    paired: bool
    """Whether the score of every test sequence was stored, so that the error is that of paired
    differences; else it is that of two binomials.
    """


def sampling_error(
    networks: Networks, *names: NetworkName | str, logs: bool = False
) -> SamplingError:
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
        independent = min(len(differences), PATIENTS.get(networks.task, len(differences)))
        return SamplingError(differences.std(ddof=1) / math.sqrt(independent), paired=True)
    size = networks.scale(*names).test_size
    if not networks.higher_is_better or not size:
        return SamplingError(0.0, paired=False)
    variances = []
    for name in names:
        accuracy = networks.scores(name).mean()
        variances.append(accuracy * (networks.unit - accuracy) / size)
    error = math.hypot(*(math.sqrt(variance) for variance in variances))
    return SamplingError(error, paired=False)


def _by_sequence(networks: Networks, name: NetworkName | str, *, logs: bool) -> np.ndarray | None:
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


def _answers(networks: Networks, name: NetworkName | str) -> np.ndarray | None:
    """Return each run's score of each test sequence, (n, sequences); None if not stored."""
    rows = networks.runs(name)
    if rows["run"].nunique() != 1 or networks.measure in ("perplexity", "bits"):
        return None
    if "sequence_score" not in networks.ds:
        return None
    run = networks.ds["sequence_score"].sel(run=rows["run"].iloc[0])
    scores = run.sel(replicate=rows["replicate"].tolist()).values.astype(float)
    scores = scores[:, np.isfinite(scores).any(axis=0)]
    return scores if scores.shape[1] > 1 else None


def sampling_variance(networks: Networks, name: NetworkName | str) -> float:
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
