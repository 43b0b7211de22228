"""Correct scores whose learning rate was chosen on the test part.

Some tasks have no validation part. The best of several learning rates is then chosen on the test
sequences that also give the score, so the score is biased upward. Cross-fitting removes the bias:
the test sequences are split into two halves, and each half is scored at the learning rate that is
best on the other half.
"""

import numpy as np
import xarray as xr

from study.claims.claim import NetworkRef
from study.claims.networks import Networks
from study.claims.sampling import WHOLE_TEST_SET


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
        test part. None if it was, but the scores of single test sequences are not stored in the
        measure of the claim.
    """
    rows = networks.at_all_rates(name)
    runs = rows["run"].unique()  # one per learning rate
    chosen_by_validation = rows["validation"].notna().any()
    if len(runs) < 2 or chosen_by_validation:
        return 0.0
    if not networks.learned(name):  # at chance at its best rate, so no rate matters
        return 0.0
    if "sequence_score" not in networks.ds or networks.measure in WHOLE_TEST_SET:
        return None
    scores = networks.ds["sequence_score"].sel(run=runs)
    even_half = _scores_by_run(networks, scores.isel(test_sequence=slice(0, None, 2)))
    odd_half = _scores_by_run(networks, scores.isel(test_sequence=slice(1, None, 2)))
    even_score = even_half[odd_half.argmax("run")]
    odd_score = odd_half[even_half.argmax("run")]
    cross_fitted = (even_score + odd_score) / 2
    best = ((even_half + odd_half) / 2).max("run")
    return networks.unit * float(best - cross_fitted)


def _scores_by_run(networks: Networks, scores: xr.DataArray) -> xr.DataArray:
    """Return the mean score over replicates, such that more is better, shape (runs,).

    `scores` are those of single sequences: accuracies, or squared errors.
    """
    of_replicate = scores.mean("test_sequence")
    if not networks.higher_is_better and not networks.is_squared_error:
        of_replicate = np.sqrt(of_replicate)
    return networks.direction * of_replicate.mean("replicate")
