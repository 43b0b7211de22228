"""Correct scores whose learning rate was chosen on the test part.

Some tasks have no validation part. The best of several learning rates is then chosen on the test
sequences that also give the score, so the score is biased upward. Cross-fitting removes the bias:
the test sequences are split into two halves, and each half is scored at the learning rate that is
best on the other half.
"""

import xarray as xr

from study.claims.claim import NetworkRef
from study.claims.networks import Networks


def optimism_of_rate(networks: Networks, name: NetworkRef) -> float | None:
    """Return how much choosing the learning rate on the test part raises a network's score.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    float or None
        Score at the best learning rate minus the cross-fitted score, in the unit of the score; at
        least 0. It is 0 if both halves choose the same rate, or if the rate was not chosen on the
        test part. None if it was, but the scores of single test sequences are not stored.
    """
    rows = networks.at_all_rates(name)
    runs = rows["run"].unique()  # one per learning rate
    chosen_by_validation = rows["validation"].notna().any()
    if len(runs) < 2 or chosen_by_validation:
        return 0.0
    if not networks.learned(name):  # at chance at its best rate, so no rate matters
        return 0.0
    if "sequence_score" not in networks.ds:
        return None
    scores = networks.direction * networks.ds["sequence_score"].sel(run=runs)
    even_half = _mean_by_run(scores.isel(test_sequence=slice(0, None, 2)))
    odd_half = _mean_by_run(scores.isel(test_sequence=slice(1, None, 2)))
    even_score = even_half[odd_half.argmax("run")]
    odd_score = odd_half[even_half.argmax("run")]
    cross_fitted = (even_score + odd_score) / 2
    best = ((even_half + odd_half) / 2).max("run")
    return networks.unit * float(best - cross_fitted)


def _mean_by_run(scores: xr.DataArray) -> xr.DataArray:
    """Return the mean over replicates and test sequences, shape (runs,)."""
    return scores.mean(["replicate", "test_sequence"])
