"""Quantities that compare two networks: the estimators lead, ratio and apart."""

from dataclasses import replace

import numpy as np
import pandas as pd

from study.claims.claim import NetworkRef
from study.claims.cross_fitting import optimism_of_rate
from study.claims.estimates import Estimate, Exact, gather
from study.claims.experiment_sizes import scale_of_networks
from study.claims.intervals import add_standard_error, difference, exponential
from study.claims.networks import Networks
from study.claims.power import normal_power
from study.claims.region import Region
from study.claims.sampling import sampling_error
from study.claims.undecided import (
    catching_up,
    one_rate_at_chance,
    rate_from_test_part,
    too_few_seeds,
)

UNSETTLED = "some of these networks were still improving when training stopped"
"""Note on a lead, which may only reflect faster learning."""


def lead(networks: Networks, first: NetworkRef, second: NetworkRef) -> Estimate:
    """Estimate the difference of two networks' scores.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first, second
        Two of them.

    Returns
    -------
    Estimate
        Positive if the first is better: points of accuracy, or the unit of the error.
    """
    return _compared(networks, first, second, logs=False)


def ratio(networks: Networks, first: NetworkRef, second: NetworkRef) -> Estimate:
    """Estimate the ratio of two networks' errors.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first, second
        Two of them.

    Returns
    -------
    Estimate
        A ratio, below 1 if the first is better.
    """
    return exponential(_compared(networks, first, second, logs=True))


def apart(networks: Networks, first: NetworkRef, second: NetworkRef) -> Estimate:
    """Estimate the absolute difference of two networks' scores.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first, second
        Two of them.

    Returns
    -------
    Estimate
        In the unit of `lead`.
    """
    return magnitude(lead(networks, first, second))


def _compared(networks: Networks, first: NetworkRef, second: NetworkRef, *, logs: bool) -> Estimate:
    """Return the difference of two networks' scores, or of the logarithms of their errors.

    A side with fewer than `study.claims.undecided.SEEDS` runs decides nothing. This also holds for
    paired scores of test sequences: pairing reduces the noise of the test set, but not the variance
    between runs.
    """
    names = (first, second)
    rows = [networks.runs(name) for name in names]
    optimism = {name: optimism_of_rate(networks, name) for name in names}
    sides = []
    for name, runs in zip(names, rows, strict=True):
        side = _oriented(networks, runs["score"], logs=logs)
        if not logs and optimism[name]:
            side = side - optimism[name]
        sides.append(side)
    estimate = _difference_of_means(networks, names, sides, logs=logs)
    behind = second
    ahead = first
    if _is_behind(sides, logs=logs):
        behind = first
        ahead = second
    undecided_because = gather(
        too_few_seeds(*rows),
        one_rate_at_chance(networks, behind),
        catching_up(networks, behind, ahead),
        *(rate_from_test_part(name, optimism[name], logs=logs) for name in names),
    )
    improving = any(runs["improving"].mean() > 0.5 for runs in rows)
    notes = [*estimate.notes]
    if improving and not estimate.notes:
        notes.append(UNSETTLED)
    if not logs:
        for name, amount in optimism.items():
            if amount:
                notes.append(_note_on_cross_fitting(name, amount))
        notes.append(_note_on_last_record(networks, names, estimate))
    return replace(estimate, notes=gather(*notes), undecided_because=undecided_because)


def _difference_of_means(
    networks: Networks,
    names: tuple[NetworkRef, NetworkRef],
    sides: list[np.ndarray],
    *,
    logs: bool,
) -> Estimate:
    """Return the difference of two sides, with the uncertainty from runs and from the test set."""
    scale = scale_of_networks(networks, *names)
    estimate = difference(*sides, scale)
    sampling = sampling_error(networks, *names, logs=logs)
    if sampling is None:
        return replace(estimate, test_set_left_out=True)
    fewest = min(len(side) for side in sides)
    if sampling.paired and fewest < 2:
        # No variance between runs is known; `add_standard_error` adds the part of the test set.
        value = sides[0].mean() - sides[1].mean()
        estimate = Estimate(value, value, value, scale, notes=("of single runs",))
    return add_standard_error(estimate, sampling.error)


def _note_on_cross_fitting(name: NetworkRef, amount: float) -> str:
    """Say that a score was cross-fitted."""
    return (
        f"the learning rate of {name} was chosen on the test part, so its score is cross-fitted: "
        f"each half of the test part is scored at the rate that is best on the other half, which "
        f"lowers the score by {amount:.2g}"
    )


def _note_on_last_record(
    networks: Networks, names: tuple[NetworkRef, NetworkRef], estimate: Estimate
) -> str:
    """State the lead at the last record if it lies outside the interval.

    The interval is that of the lead at the records that validate best.
    """
    if not estimate.known:
        return ""
    at_end = difference_at_end(networks, *names)
    if estimate.low <= at_end <= estimate.high:
        return ""
    first, second = names
    return f"at the last record, the lead of {first} over {second} is {at_end:+.2g}"


def _oriented(networks: Networks, scores: pd.Series, *, logs: bool) -> np.ndarray:
    """Return scores such that more is better, or logarithms of errors."""
    values = scores.to_numpy()
    if logs:
        return np.log(values)
    return networks.direction * values


def _is_behind(sides: list[np.ndarray], *, logs: bool) -> bool:
    """Return whether the first of two sides does worse than the second, or equally well."""
    first, second = (side.mean() for side in sides)
    if logs:
        return first >= second
    return first <= second


def difference_at_end(networks: Networks, first: NetworkRef, second: NetworkRef) -> float:
    """Return the lead at the last record instead of the record that validates best.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first, second
        Two of them.

    Returns
    -------
    float
        In the unit of `lead`.
    """
    means = [networks.runs(name)["last_score"].mean() for name in (first, second)]
    return float(networks.direction * (means[0] - means[1]))


def magnitude(estimate: Estimate) -> Estimate:
    """Return the absolute value of a quantity, with its interval.

    Parameters
    ----------
    estimate
        A signed quantity.

    Returns
    -------
    Estimate
        Its interval begins at 0 if that of the signed quantity contains 0.
    """
    near, far = _absolute(estimate.low, estimate.high)
    exact = None
    if estimate.exact:
        exact = _exact_magnitude(estimate.exact)

    def power_at(region: Region, truth: float) -> float:
        # A small absolute value allows the signed quantity to lie below zero.
        signed = Region(above=max(region.above, -region.below), below=region.below)
        return normal_power(estimate, signed, truth)

    return replace(
        estimate, value=abs(estimate.value), low=near, high=far, exact=exact, power_at=power_at
    )


def _absolute(low: float, high: float) -> tuple[float, float]:
    """Return the interval of an absolute value."""
    near, far = sorted((abs(low), abs(high)))
    if low <= 0 <= high:
        near = 0.0
    return near, far


def _exact_magnitude(signed: Exact) -> Exact:
    """Return interval and p-value of the absolute value of a quantity."""

    def interval(confidence: float) -> tuple[float, float]:
        return _absolute(*signed.interval(confidence))

    def p_value(null: float) -> float:
        return max(signed.p_value(null), signed.p_value(-null))

    return Exact(interval, p_value)
