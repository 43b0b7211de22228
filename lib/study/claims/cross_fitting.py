"""Learning rates that were chosen on the test part, because there is no validation part.

The score of the best of several rates is then too good: some of its lead is luck with the test
sequences. Cross-fitting removes this. Each half of the test sequences chooses a rate, and the other
half is scored at it.
"""

import xarray as xr

from study.claims.claim import NetworkName
from study.claims.networks import Networks


def optimism_of_rate(networks: Networks, name: NetworkName) -> float | None:
    """Return how much a network's score owes to the choice of its rate on the test part.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    float or None
        Score at the best rate less the cross-fitted score, in the unit of the score, at least 0.
        It is 0 if both halves choose the same rate, or if the test part chose none. None if it
        did, but scores by test sequence are not stored.
    """
    rows = networks.at_all_rates(name)
    runs = rows["run"].unique()
    if len(runs) < 2 or rows["validation"].notna().any():
        return 0.0
    if not networks.learned(name):  # at chance at its best rate: no rate matters
        return 0.0
    if "sequence_score" not in networks.ds:
        return None
    scores = networks.direction * networks.ds["sequence_score"].sel(run=runs)
    halves = [_mean_by_run(scores.isel(test_sequence=slice(start, None, 2))) for start in (0, 1)]
    first, second = halves
    first_at_choice = first[second.argmax("run")]
    second_at_choice = second[first.argmax("run")]
    crossed = (first_at_choice + second_at_choice) / 2
    best = ((first + second) / 2).max("run")
    return networks.unit * float(best - crossed)


def _mean_by_run(scores: xr.DataArray) -> xr.DataArray:
    """Return the mean over replicates and test sequences, (run,)."""
    return scores.mean(["replicate", "test_sequence"])
