"""Training steps until a network solves the adding problem: the estimators longer and steps_needed.

The step of a run is known only up to the spacing of its records. A run that never solved the
problem counts with the last step of the longest run, and the interval is unbounded on that side.
The interval also covers the case that such a run counts with its own last step, which is earlier if
the run diverged.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from study.claims.claim import NetworkRef
from study.claims.estimates import Cause, Estimate, Scale, gather, not_testable
from study.claims.experiment_sizes import scale_of_networks
from study.claims.intervals import difference, exponential, mean
from study.claims.networks import Networks
from study.claims.short_runs import shorter_than_paper
from study.claims.undecided import one_rate_at_chance, too_few_seeds
from study.results.networks import steps_to

SOLVED = 0.01
"""Mean squared error below which the adding problem counts as solved (threshold ours)."""


def longer(networks: Networks, first: NetworkRef, second: NetworkRef) -> Estimate:
    """Estimate the ratio of the numbers of steps that two networks need to reach `SOLVED`.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    first, second
        Two of them.

    Returns
    -------
    Estimate
        The ratio of the geometric means of the steps, first over second.
    """
    if first == second:  # the longest task is the shortest one, too
        reason = "trained at only one of these lengths"
        return not_testable(reason, Cause.NO_DATA, scale_of_networks(networks, first))
    scale = scale_of_networks(networks, first, second)
    sides = [solved_steps(networks, name) for name in (first, second)]
    if all(np.isinf(rows["steps"]).all() for rows in sides):
        reason = f"neither {first} nor {second} solves the problem"
        short = shorter_than_paper(networks, first, second)
        if short:
            return not_testable(f"{reason}; {short}", Cause.TOO_SMALL, scale)
        return not_testable(reason, Cause.PREMISE, scale)
    estimate = _log_ratio(sides, scale)
    by_last_step = _log_ratio([with_last_step(rows) for rows in sides], scale)
    low = min(estimate.low, by_last_step.low)
    high = max(estimate.high, by_last_step.high)
    first_steps, second_steps = (rows["steps"] for rows in sides)
    if np.isinf(first_steps).any():
        high = math.inf
    if np.isinf(second_steps).any():
        low = -math.inf
    # The second network has learned, or the claim would not be tested.
    undecided_because = gather(too_few_seeds(*sides), one_rate_at_chance(networks, first))
    return exponential(replace(estimate, low=low, high=high, undecided_because=undecided_because))


def steps_needed(networks: Networks, name: NetworkRef) -> Estimate:
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
        In optimizer steps.
    """
    scale = scale_of_networks(networks, name)
    rows = solved_steps(networks, name)
    margin = float((rows["late"] - rows["early"]).mean()) / 2
    estimate = mean((rows["late"] + rows["early"]) / 2, scale)
    low = estimate.low - margin
    few = gather(too_few_seeds(rows))
    if not np.isinf(rows["steps"]).any():
        return replace(estimate, low=low, high=estimate.high + margin, undecided_because=few)
    with_own_last_step = with_last_step(rows)
    earlier = mean((with_own_last_step["late"] + with_own_last_step["early"]) / 2, scale)
    low = min(low, earlier.low - margin)
    undecided_because = gather(few, one_rate_at_chance(networks, name))
    return replace(estimate, low=low, high=math.inf, undecided_because=undecided_because)


def _log_ratio(sides: list[pd.DataFrame], scale: Scale) -> Estimate:
    """Estimate the log of the ratio of two networks' steps, up to the spacing of records."""
    middles = []
    margin = 0.0
    for rows in sides:
        late, early = np.log(rows[["late", "early"]].clip(lower=1).to_numpy(float)).T
        middles.append((late + early) / 2)
        margin += float(np.mean(late - early)) / 2
    estimate = difference(*middles, scale)
    return replace(estimate, low=estimate.low - margin, high=estimate.high + margin)


def solved_steps(networks: Networks, name: NetworkRef) -> pd.DataFrame:
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
        One row per run. The error first fell below `SOLVED` between the steps ``early`` and
        ``late``. For a run that never got there, both are the last step of the network's longest
        run. Its own last step would make a run that diverged early look fast.
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
        The same rows with other ``early`` and ``late``.
    """
    solved = np.isfinite(rows["steps"])
    early = rows["early"].where(solved, rows["trained"])
    late = rows["late"].where(solved, rows["trained"])
    return rows.assign(early=early, late=late)
