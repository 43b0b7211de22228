"""Quantities of one network: what remains of the error at chance, spread, steps, gradient norms.

In every function, `networks` are the networks on the claim's task and `name` is one of them.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import chi2, norm, t

from study.claims.claim import NetworkName
from study.claims.comparisons import solved_steps, with_last_step
from study.claims.estimates import Cause, Estimate, join_reasons, not_testable
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
from study.claims.power import normal_chance
from study.claims.region import Region
from study.claims.sampling import sampling_error, sampling_variance
from study.claims.undecided import one_rate_at_chance, still_falling, too_few_seeds


def over_chance(networks: Networks, name: NetworkName) -> Estimate:
    """Estimate how much larger a network's score is than that of guessing.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    Estimate
        In the unit of the score; its interval covers the finite test set.
    """
    rows = networks.runs(name)
    error, _ = sampling_error(networks, name)
    estimate = add_standard_error(
        mean(rows["score"] - rows["guess"], scale_of_networks(networks, name)), error
    )
    guess = rows["guess"].iloc[0]
    answers = len(rows) * rows["test_sequences"].iloc[0]

    def chance(region: Region, truth: float) -> float:
        if not networks.higher_is_better or not region.contains(0.0, 0.0):
            return normal_chance(estimate, region, truth)
        # Networks at chance spread by sampling noise alone, however much those that learn vary.
        noise = math.sqrt(guess * (networks.unit - guess) / answers)
        half = noise * math.hypot(t.isf(TAIL, len(rows) - 1), Z)
        low, high = norm.cdf([region.above + half, region.below - half], truth, noise)
        return float(max(high - low, 0.0))

    return replace(
        estimate,
        undecided_because=join_reasons(too_few_seeds(rows), one_rate_at_chance(networks, name)),
        note=join_reasons(estimate.note, _count_at_chance(networks, name)),
        chance=chance,
    )


def share_of_chance(networks: Networks, name: NetworkName) -> Estimate:
    """Estimate a network's error over that of guessing.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    Estimate
        A ratio, the geometric mean over runs.
    """
    rows = networks.runs(name)
    estimate = geometric_mean(rows["score"] / rows["guess"], scale_of_networks(networks, name))
    undecided_because = join_reasons(
        too_few_seeds(rows), one_rate_at_chance(networks, name), still_falling(networks, name)
    )
    note = join_reasons(estimate.note, _count_at_chance(networks, name))
    return replace(estimate, undecided_because=undecided_because, note=note)


def _count_at_chance(networks: Networks, name: NetworkName) -> str:
    """Count the runs that stay at chance, if others of the same network learn."""
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
    networks: Networks, name: NetworkName, paper_accuracy: float | None = None
) -> Estimate:
    """Estimate the standard deviation of a network's score over runs, beyond the finite test set.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.
    paper_accuracy
        The paper's accuracy in percent. Accuracies near 100 % leave less room to vary, so the
        deviation is multiplied by the ratio of the binomial deviations at this accuracy and at
        ours. None for the deviation as it is.

    Returns
    -------
    Estimate
        In points, with the interval of normal values.
    """
    scores = networks.scores(name)
    scale = scale_of_networks(networks, name)
    if len(scores) < 2:
        return not_testable("fewer than two replicates have no spread", Cause.NO_SEEDS, scale)
    df = len(scores) - 1
    noise = sampling_variance(networks, name)
    far, near = chi2.ppf([1 - TAIL, TAIL], df)
    factor = 1.0
    if paper_accuracy is not None:
        ours = scores.mean()
        factor = math.sqrt(paper_accuracy * (100 - paper_accuracy) / (ours * (100 - ours)))
    variances = scores.var(ddof=1) * np.array([1, df / far, df / near]) - noise
    value, low, high = factor * np.sqrt(variances.clip(min=0))

    def chance(region: Region, truth: float) -> float:
        above = region.above / factor
        below = region.below / factor
        least = 0.0
        if above > 0:
            least = far * (above**2 + noise)
        ends = np.array([least, near * (below**2 + noise)]) / ((truth / factor) ** 2 + noise)
        return float(np.diff(chi2.cdf(ends, df)).clip(0)[0])

    return Estimate(float(value), float(low), float(high), scale, ratio=True, chance=chance)


def trend(networks: Networks, name: NetworkName, factor: str) -> Estimate:
    """Estimate the rank correlation of a network's score with a coordinate.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.
    factor
        Column of `Networks.rows`.

    Returns
    -------
    Estimate
        Spearman's correlation over runs.
    """
    rows = networks.runs(name)
    return correlation(rows[factor], rows["score"], scale_of_networks(networks, name))


def steps_needed(networks: Networks, name: NetworkName) -> Estimate:
    """Estimate the mean number of steps until the adding problem is solved.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    Estimate
        In optimizer steps, up to the spacing of records. A run that never solved the problem
        counts with the last step of the longest run, and the interval has no upper end. Its lower
        end is that which results if such a run counts with its own last step, if that is smaller.
    """
    rows = solved_steps(networks, name)
    half = float((rows["late"] - rows["early"]).mean()) / 2
    estimate = mean((rows["late"] + rows["early"]) / 2, scale_of_networks(networks, name))
    low = estimate.low - half
    few = too_few_seeds(rows)
    if not np.isinf(rows["steps"]).any():
        return replace(estimate, low=low, high=estimate.high + half, undecided_because=few)
    by_last_step = with_last_step(rows)
    earlier = mean(
        (by_last_step["late"] + by_last_step["early"]) / 2, scale_of_networks(networks, name)
    )
    low = min(low, earlier.low - half)
    undecided_because = join_reasons(few, one_rate_at_chance(networks, name))
    return replace(estimate, low=low, high=math.inf, undecided_because=undecided_because)


def gain(networks: Networks, first: NetworkName, second: NetworkName | None = None) -> Estimate:
    """Estimate log10 of the norm of dh_T/dh_1, mean over records.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first
        The network.
    second
        A second one for the difference of the two; None for `first` alone.

    Returns
    -------
    Estimate
        Powers of ten.
    """
    sides = _measure_sides(networks, first, second, _mean_gain)
    if isinstance(sides, Estimate):
        return sides
    return _mean_or_difference(networks, sides, first, second)


def decay(networks: Networks, first: NetworkName, second: NetworkName | None = None) -> Estimate:
    """Estimate how far log10 of the norm of dh_T/dh_1 is from that of dh_T/dh_(T-1).

    Distances are averaged as logarithms, because those of some runs are a hundred times those of
    others.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first
        The network.
    second
        A second one for the ratio of the two distances; None for `first` alone.

    Returns
    -------
    Estimate
        A distance in powers of ten, or a ratio of distances.
    """
    sides = _measure_sides(networks, first, second, _log_decay)
    if isinstance(sides, Estimate):
        return sides
    return exponential(_mean_or_difference(networks, sides, first, second))


def _measure_sides(
    networks: Networks,
    first: NetworkName,
    second: NetworkName | None,
    measure: Callable[[Networks, NetworkName], np.ndarray],
) -> list[np.ndarray] | Estimate:
    """Return the values of one network or of two; an estimate without a value if there are none."""
    if "gain_first" not in networks.ds:
        return not_testable("no gradients were recorded", Cause.NO_DATA)
    names = [first]
    if second is not None:
        names.append(second)
    return [measure(networks, name) for name in names]


def _mean_gain(networks: Networks, name: NetworkName) -> np.ndarray:
    run = networks.ds.sel(run=networks.runs(name)["run"].iloc[0])
    return run["gain_first"].mean("record").dropna("replicate").values


def _log_decay(networks: Networks, name: NetworkName) -> np.ndarray:
    run = networks.ds.sel(run=networks.runs(name)["run"].iloc[0])
    distance = np.abs(run["gain_first"] - run["gain_last"])
    values = distance.mean("record").dropna("replicate").values
    return np.log(values.clip(1e-9))  # a Jacobian that is the identity differs from it by rounding


def _mean_or_difference(
    networks: Networks, sides: list[np.ndarray], first: NetworkName, second: NetworkName | None
) -> Estimate:
    """Return the mean of one network's values, or the difference of two networks' means."""
    if second is None:
        estimate = mean(sides[0], scale_of_networks(networks, first))
    else:
        estimate = difference(*sides, scale_of_networks(networks, first, second))
    few = too_few_seeds(*(pd.DataFrame(index=range(len(side))) for side in sides))
    return replace(estimate, undecided_because=few)


def memoryless(networks: Networks, name: NetworkName) -> Estimate:
    """Estimate the final cross entropy of copying over that of the best answer without memory.

    The latter is 10 ln 8 / (T + 20) for sequences of T + 20 time steps.

    Parameters
    ----------
    networks, name
        The networks on the claim's task, and one of them.

    Returns
    -------
    Estimate
        A ratio, geometric mean over runs; a diverged run counts as the answer without memory.
    """
    rows = networks.runs(name)
    run = networks.ds.sel(run=rows["run"].iloc[0], replicate=rows["replicate"].tolist())
    best = 10 * math.log(8) / int(run["time_steps"])
    last = run["test_loss"].isel(record=run["records"] - 1)
    ratios = last.where(rows["completed"].to_numpy(), best).values / best
    estimate = geometric_mean(ratios, scale_of_networks(networks, name))
    return replace(estimate, undecided_because=too_few_seeds(rows))
