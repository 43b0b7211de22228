"""Quantities of one network: its score relative to chance, spread, steps, and gradient norms."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import chi2, norm, t

from study.claims.claim import NetworkRef
from study.claims.estimates import Cause, Estimate, Exact, gather, not_testable
from study.claims.estimators import (
    TAIL,
    Z,
    add_standard_error,
    correlation,
    difference,
    exponential,
    geometric_mean,
    mean,
)
from study.claims.experiment_sizes import scale_of_networks
from study.claims.networks import Networks
from study.claims.power import normal_power
from study.claims.region import Region
from study.claims.sampling import sampling_error, sampling_variance
from study.claims.undecided import one_rate_at_chance, too_few_seeds
from study.stats.power import CONFIDENCE

WITH_SAMPLING = (
    "the spread includes that from the draw of the test sequences, whose scores were not stored"
)
"""Note on a standard deviation over runs."""


def over_chance(networks: Networks, name: NetworkRef) -> Estimate:
    """Estimate the difference of a network's score and that of guessing.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    Estimate
        In the unit of the score. Its interval includes the uncertainty from the finite test set, if
        it is known.
    """
    rows = networks.runs(name)
    estimate = mean(rows["score"] - rows["guess"], scale_of_networks(networks, name))
    sampling = sampling_error(networks, name)
    if sampling is None:
        estimate = replace(estimate, test_set_left_out=True)
    else:
        estimate = add_standard_error(estimate, sampling.error)
    guess = rows["guess"].iloc[0]
    answers = len(rows) * rows["test_sequences"].iloc[0]

    def power_at(region: Region, truth: float) -> float:
        if not networks.higher_is_better or not region.contains(0.0, 0.0):
            return normal_power(estimate, region, truth)
        # Networks at chance vary only by sampling noise, however much those that learn vary.
        noise = math.sqrt(guess * (networks.unit - guess) / answers)
        half = noise * math.hypot(t.isf(TAIL, len(rows) - 1), Z)
        low, high = norm.cdf([region.above + half, region.below - half], truth, noise)
        return float(max(high - low, 0.0))

    return replace(
        estimate,
        undecided_because=gather(too_few_seeds(rows), one_rate_at_chance(networks, name)),
        notes=gather(estimate.notes, _count_at_chance(networks, name)),
        power_at=power_at,
    )


def share_of_chance(networks: Networks, name: NetworkRef) -> Estimate:
    """Estimate the ratio of a network's error to that of guessing.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    Estimate
        A ratio, the geometric mean over runs. Its interval is over runs alone and leaves out the
        uncertainty from the finite test set.
    """
    rows = networks.runs(name)
    estimate = geometric_mean(rows["score"] / rows["guess"], scale_of_networks(networks, name))
    undecided_because = gather(too_few_seeds(rows), one_rate_at_chance(networks, name))
    notes = gather(estimate.notes, _count_at_chance(networks, name))
    return replace(
        estimate, undecided_because=undecided_because, notes=notes, test_set_left_out=True
    )


def _count_at_chance(networks: Networks, name: NetworkRef) -> str:
    """Count the runs that stay at chance if other runs of the same network learn."""
    rows = networks.runs(name)
    learned = networks.runs_learned(rows)
    if learned.all() or not learned.any():
        return ""
    count = int((~learned).sum())
    task = rows["task"].iloc[0]
    return (
        f"{count} of {len(rows)} runs of {name} on {task} stay at chance, and the mean includes "
        "them"
    )


def deviation(
    networks: Networks, name: NetworkRef, paper_accuracy: float | None = None
) -> Estimate:
    """Estimate the standard deviation of a network's score over runs.

    The variance that comes from the finite test set is subtracted.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.
    paper_accuracy
        The paper's accuracy in percent. Accuracies near 100% leave less room to vary, so the
        deviation is multiplied by the ratio of the binomial deviations at this accuracy and at
        ours. None for the deviation as it is.

    Returns
    -------
    Estimate
        In points, with the chi-squared interval for normal values.
    """
    scores = networks.scores(name)
    scale = scale_of_networks(networks, name)
    if len(scores) < 2:
        return not_testable("a spread needs at least two runs", Cause.NO_SEEDS, scale)
    df = len(scores) - 1
    noise = sampling_variance(networks, name)
    notes = ()
    if noise is None:
        noise = 0.0
        notes = (WITH_SAMPLING,)
    factor = 1.0
    if paper_accuracy is not None:
        ours = scores.mean()
        factor = math.sqrt(paper_accuracy * (100 - paper_accuracy) / (ours * (100 - ours)))
    variance = float(scores.var(ddof=1))

    def beyond_noise(total: float) -> float:
        return factor * math.sqrt(max(0.0, total - noise))

    def interval(confidence: float) -> tuple[float, float]:
        tail = (1 - confidence) / 2
        largest, smallest = chi2.ppf([1 - tail, tail], df)
        return beyond_noise(variance * df / largest), beyond_noise(variance * df / smallest)

    def p_value(null: float) -> float:
        true_variance = (null / factor) ** 2 + noise
        if not true_variance:
            return float(variance == 0)
        ratio = df * variance / true_variance
        return 2 * float(min(chi2.cdf(ratio, df), chi2.sf(ratio, df)))

    low, high = interval(CONFIDENCE)

    def power_at(region: Region, truth: float) -> float:
        """Return the probability that the interval lies in the region.

        The sample variance over the true one, times df, has a chi-squared distribution.
        """
        upper_quantile, lower_quantile = chi2.ppf([1 - TAIL, TAIL], df)
        above = region.above / factor
        below = region.below / factor
        true_variance = (truth / factor) ** 2 + noise
        least = 0.0
        if above > 0:
            least = upper_quantile * (above**2 + noise) / true_variance
        most = lower_quantile * (below**2 + noise) / true_variance
        return max(0.0, float(chi2.cdf(most, df) - chi2.cdf(least, df)))

    return Estimate(
        beyond_noise(variance),
        low,
        high,
        scale,
        notes=notes,
        ratio=True,
        exact=Exact(interval, p_value),
        power_at=power_at,
    )


def trend(networks: Networks, name: NetworkRef, factor: str) -> Estimate:
    """Estimate the rank correlation of a network's score with a factor, over runs.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.
    factor
        Name of the factor, a numeric column of `Networks.rows`.

    Returns
    -------
    Estimate
        Spearman's correlation, between -1 and 1.
    """
    rows = networks.runs(name)
    return correlation(rows[factor], rows["score"], scale_of_networks(networks, name))


def gain(networks: Networks, first: NetworkRef, second: NetworkRef | None = None) -> Estimate:
    """Estimate log10 of the norm of the Jacobian dh_T/dh_1, mean over records.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first
        The network.
    second
        Another network, to estimate first minus second; None for `first` alone.

    Returns
    -------
    Estimate
        In orders of magnitude.
    """
    sides = _measure_sides(networks, first, second, _mean_gain)
    if isinstance(sides, Estimate):
        return sides
    return _mean_or_difference(networks, sides, first, second)


def decay(networks: Networks, first: NetworkRef, second: NetworkRef | None = None) -> Estimate:
    """Estimate the distance between log10 of the norms of dh_T/dh_1 and dh_T/dh_(T-1).

    The distance is the number of orders of magnitude by which gradients decay or grow. Distances
    differ by a factor of a hundred between runs, so the geometric mean over runs is taken.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first
        The network.
    second
        Another network, to estimate the ratio first over second; None for `first` alone.

    Returns
    -------
    Estimate
        A distance in orders of magnitude, or a ratio of distances.
    """
    sides = _measure_sides(networks, first, second, _log_decay)
    if isinstance(sides, Estimate):
        return sides
    return exponential(_mean_or_difference(networks, sides, first, second))


def _measure_sides(
    networks: Networks,
    first: NetworkRef,
    second: NetworkRef | None,
    measure: Callable[[Networks, NetworkRef], np.ndarray],
) -> list[np.ndarray] | Estimate:
    """Return the measured values of each network, shape (runs,) each.

    Return an estimate without a value if no gradients were recorded.
    """
    if "gain_first" not in networks.ds:
        return not_testable("no gradients were recorded", Cause.NO_DATA)
    names = [first]
    if second is not None:
        names.append(second)
    return [measure(networks, name) for name in names]


def _mean_gain(networks: Networks, name: NetworkRef) -> np.ndarray:
    run = networks.ds.sel(run=networks.runs(name)["run"].iloc[0])
    return run["gain_first"].mean("record").dropna("replicate").values


def _log_decay(networks: Networks, name: NetworkRef) -> np.ndarray:
    run = networks.ds.sel(run=networks.runs(name)["run"].iloc[0])
    distance = np.abs(run["gain_first"] - run["gain_last"])
    values = distance.mean("record").dropna("replicate").values
    return np.log(values.clip(1e-9))  # a distance of zero has no logarithm


def _mean_or_difference(
    networks: Networks, sides: list[np.ndarray], first: NetworkRef, second: NetworkRef | None
) -> Estimate:
    """Return the mean of one network's values, or the difference of two networks' means."""
    if second is None:
        estimate = mean(sides[0], scale_of_networks(networks, first))
    else:
        estimate = difference(*sides, scale_of_networks(networks, first, second))
    few = too_few_seeds(*(pd.DataFrame(index=range(len(side))) for side in sides))
    names = [name for name in (first, second) if name is not None]
    at_chance = [_count_at_chance(networks, name) for name in names]
    notes = gather(estimate.notes, *at_chance)
    return replace(estimate, undecided_because=gather(few), notes=notes)


def memoryless(networks: Networks, name: NetworkRef) -> Estimate:
    """Estimate the final loss on the copying task relative to the best loss without memory.

    Without memory, the best cross entropy is 10 ln 8 / (T + 20) for sequences of T + 20 time steps.

    Parameters
    ----------
    networks, name
        The networks on the claim's task, and one of them.

    Returns
    -------
    Estimate
        A ratio, the geometric mean over runs. A diverged run counts as 1. The interval is over runs
        alone and leaves out the uncertainty from the finite test set.
    """
    rows = networks.runs(name)
    run = networks.ds.sel(run=rows["run"].iloc[0], replicate=rows["replicate"].tolist())
    best = 10 * math.log(8) / int(run["time_steps"])
    last = run["test_loss"].isel(record=run["records"] - 1)
    ratios = last.where(rows["completed"].to_numpy(), best).values / best
    estimate = geometric_mean(ratios, scale_of_networks(networks, name))
    few = too_few_seeds(rows)
    return replace(estimate, undecided_because=gather(few), test_set_left_out=True)
