"""Quantities that compare two networks: the verbs lead, ratio, apart, and longer.

In every function, `networks` are the networks on the claim's task, and the names are some of them.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from study.claims.claim import NetworkName
from study.claims.cross_fitting import optimism_of_rate
from study.claims.estimates import Cause, Estimate, Scale, join_reasons, not_testable
from study.claims.estimators import add_standard_error, difference, exponential
from study.claims.experiment_sizes import scale_of_networks
from study.claims.networks import Networks
from study.claims.power import normal_chance
from study.claims.region import Region
from study.claims.sampling import sampling_error
from study.claims.undecided import (
    catching_up,
    one_rate_at_chance,
    rate_from_test_part,
    shorter_than_paper,
    too_few_seeds,
)
from study.results.networks import steps_to

SOLVED = 0.01
"""Mean squared error below which the adding problem counts as solved (threshold ours)."""
UNSETTLED = "some of these networks were still improving when training stopped"
"""Caveat: a lead may only reflect faster learning."""


def lead(networks: Networks, first: NetworkName, second: NetworkName) -> Estimate:
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


def ratio(networks: Networks, first: NetworkName, second: NetworkName) -> Estimate:
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


def apart(networks: Networks, first: NetworkName, second: NetworkName) -> Estimate:
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


def _compared(
    networks: Networks, first: NetworkName, second: NetworkName, *, logs: bool
) -> Estimate:
    """Return the difference of two networks' scores, or of the logarithms of their errors.

    A side with fewer than `study.claims.undecided.SEEDS` runs decides nothing. This holds for
    scores by test sequence too: to compare two networks on the same sequences removes noise of the
    test set, but no variation between runs.
    """
    names = (first, second)
    rows = [networks.runs(name) for name in names]
    sides = [_oriented(networks, side["score"], logs=logs) for side in rows]
    optimism = {name: optimism_of_rate(networks, name) for name in names}
    if not logs:
        sides = [side - (optimism[name] or 0.0) for side, name in zip(sides, names, strict=True)]
    scale = scale_of_networks(networks, *names)
    estimate = difference(*sides, scale)
    error, paired = sampling_error(networks, *names, logs=logs)
    fewest = min(len(side) for side in sides)
    if paired and fewest < 2:
        value = sides[0].mean() - sides[1].mean()
        estimate = Estimate(value, value, value, scale, note="of single runs")
    behind = second
    ahead = first
    if _is_behind(sides, logs=logs):
        behind = first
        ahead = second
    undecided_because = join_reasons(
        too_few_seeds(*rows),
        one_rate_at_chance(networks, behind),
        catching_up(networks, behind, ahead),
        *(rate_from_test_part(name, optimism[name], logs=logs) for name in names),
    )
    improving = any(side["improving"].mean() > 0.5 for side in rows)
    note = estimate.note
    if not note and improving:
        note = UNSETTLED
    estimate = add_standard_error(estimate, error)
    for name, amount in optimism.items():
        if amount and not logs:
            note = join_reasons(note, _note_on_choice(name, amount))
    if not logs:
        note = join_reasons(note, _note_on_last_record(networks, names, estimate))
    return replace(estimate, note=note, undecided_because=undecided_because)


def _note_on_choice(name: NetworkName, amount: float) -> str:
    """Say that a score was cross-fitted."""
    return (
        f"the learning rate of {name} was chosen on the test part, so each half of it is scored at "
        f"the rate that the other half chose, which lowers its score by {amount:.2g}"
    )


def _note_on_last_record(
    networks: Networks, names: tuple[NetworkName, NetworkName], estimate: Estimate
) -> str:
    """Return the lead at the last record, if it lies outside the interval of the validated one."""
    at_end = difference_at_end(networks, *names)
    if estimate.low <= at_end <= estimate.high or not estimate.known:
        return ""
    first, second = names
    return f"at the last record {first} less {second} is {at_end:+.2g}"


def _oriented(networks: Networks, scores: pd.Series, *, logs: bool) -> np.ndarray:
    """Return scores such that more is better, or logarithms of errors."""
    values = scores.to_numpy()
    if logs:
        return np.log(values)
    return networks.direction * values


def _is_behind(sides: list[np.ndarray], *, logs: bool) -> bool:
    """Return whether the first of two sides does worse, or equally well."""
    first, second = (side.mean() for side in sides)
    if logs:
        return first >= second
    return first <= second


def difference_at_end(networks: Networks, first: NetworkName, second: NetworkName) -> float:
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
    """Return the absolute value of a quantity, with the interval that follows from the signed one.

    Parameters
    ----------
    estimate
        A signed quantity.

    Returns
    -------
    Estimate
        From 0 if the interval holds 0.
    """
    near, far = sorted((abs(estimate.low), abs(estimate.high)))
    if estimate.low <= 0 <= estimate.high:
        near = 0.0

    def chance(region: Region, truth: float) -> float:
        # The signed quantity may lie below zero if its absolute value is small.
        signed = Region(above=max(region.above, -region.below), below=region.below)
        return normal_chance(estimate, signed, truth)

    return replace(estimate, value=abs(estimate.value), low=near, high=far, chance=chance)


def longer(networks: Networks, first: NetworkName, second: NetworkName) -> Estimate:
    """Estimate how many times as many steps one network needs as another to an error of `SOLVED`.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first, second
        Two of them.

    Returns
    -------
    Estimate
        A ratio. A run that never reached the error counts with the last step of the longest run,
        and the interval has no end on its side. It also includes the interval that results if such
        a run counts with its own last step, which is earlier if it diverged. The step is known up
        to the spacing of records, which the interval includes as well.
    """
    scale = scale_of_networks(networks, first, second)
    if first == second:
        return not_testable(
            "trained at only one of these lengths",
            Cause.NO_DATA,
            scale_of_networks(networks, first),
        )
    sides = [solved_steps(networks, name) for name in (first, second)]
    never = [bool(np.isinf(rows["steps"]).any()) for rows in sides]
    if all(np.isinf(rows["steps"]).all() for rows in sides):
        reason = f"neither {first} nor {second} solves the problem"
        refused = not_testable(reason, Cause.PREMISE, scale)
        short = shorter_than_paper(networks, first, second)
        if short:
            refused = not_testable(f"{reason}; {short}", Cause.TOO_SMALL, scale)
        return refused
    estimate = _log_ratio(sides, scale)
    by_last_step = _log_ratio([with_last_step(rows) for rows in sides], scale)
    low = min(estimate.low, by_last_step.low)
    high = max(estimate.high, by_last_step.high)
    if never[0]:
        high = math.inf
    if never[1]:
        low = -math.inf
    undecided_because = join_reasons(too_few_seeds(*sides), one_rate_at_chance(networks, first))
    return exponential(replace(estimate, low=low, high=high, undecided_because=undecided_because))


def _log_ratio(sides: list[pd.DataFrame], scale: Scale) -> Estimate:
    """Estimate the log of the ratio of two networks' steps, up to the spacing of records."""
    middles = []
    spacing = 0.0
    for rows in sides:
        late, early = np.log(rows[["late", "early"]].clip(lower=1).to_numpy(float)).T
        middles.append((late + early) / 2)
        spacing += float(np.mean(late - early)) / 2
    estimate = difference(*middles, scale)
    return replace(estimate, low=estimate.low - spacing, high=estimate.high + spacing)


def solved_steps(networks: Networks, name: NetworkName) -> pd.DataFrame:
    """Return when each run's error fell below `SOLVED`.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    pandas.DataFrame
        One row per run; it fell between the records ``early`` and ``late``. Both are the end of
        the longest run if it never did, since one that diverged was not quick.
    """
    rows = steps_to(networks.ds.sel(run=networks.runs(name)["run"].unique()), SOLVED)
    end = rows["trained"].max()
    early = rows["before"].where(np.isfinite(rows["steps"]), end)
    return rows.assign(early=early, late=rows["steps"].clip(upper=end))


def with_last_step(rows: pd.DataFrame) -> pd.DataFrame:
    """Count runs that never solved the problem with their own last step.

    Parameters
    ----------
    rows
        Runs of a network, as from `solved_steps`.

    Returns
    -------
    pandas.DataFrame
        The same with other ``early`` and ``late``.
    """
    solved = np.isfinite(rows["steps"])
    early = rows["early"].where(solved, rows["trained"])
    late = rows["late"].where(solved, rows["trained"])
    return rows.assign(early=early, late=late)
