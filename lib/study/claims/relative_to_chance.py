"""Scores relative to chance: the estimators over_chance, share_of_chance and memoryless.

Chance is the score of the best prediction that ignores the inputs. On the copying task, it is that
of the best prediction without memory.
"""

import math
from dataclasses import replace

from scipy.stats import norm, t

from study.claims.claim import NetworkRef
from study.claims.estimates import Estimate, gather
from study.claims.experiment_sizes import scale_of_networks
from study.claims.intervals import add_standard_error, geometric_mean, mean
from study.claims.networks import Networks
from study.claims.power import normal_power
from study.claims.region import Region
from study.claims.sampling import sampling_error
from study.claims.undecided import one_rate_at_chance, too_few_seeds
from study.stats.power import TAIL, Z


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
        notes=gather(estimate.notes, count_at_chance(networks, name)),
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
    notes = gather(estimate.notes, count_at_chance(networks, name))
    return replace(
        estimate, undecided_because=undecided_because, notes=notes, test_set_left_out=True
    )


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


def count_at_chance(networks: Networks, name: NetworkRef) -> str:
    """Count the runs that stay at chance if other runs of the same network learn.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    str
        A note on a mean over runs; empty if all runs of the network learn, or none does.
    """
    rows = networks.runs(name)
    learned = networks.runs_learned(rows)
    if learned.all() or not learned.any():
        return ""
    return f"{networks.at_chance_in_words(name, rows)} stay at chance, and the mean includes them"
