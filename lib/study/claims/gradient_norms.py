"""The norms of gradients through time: the estimators gain and decay."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from study.claims.claim import NetworkRef
from study.claims.estimates import Cause, Estimate, gather, not_testable
from study.claims.experiment_sizes import scale_of_networks
from study.claims.intervals import difference, exponential, mean
from study.claims.networks import Networks
from study.claims.relative_to_chance import count_at_chance
from study.claims.undecided import too_few_seeds


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
    at_chance = [count_at_chance(networks, name) for name in names]
    notes = gather(estimate.notes, *at_chance)
    return replace(estimate, undecided_because=gather(few), notes=notes)
