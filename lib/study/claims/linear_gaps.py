"""Claims about linear networks on the long time gap task (section 2.5)."""

from dataclasses import replace

import numpy as np
import xarray as xr

from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.experiment_sizes import scale_of_settings
from study.claims.intervals import mean, proportion
from study.claims.judging import Judges
from study.results.learned import above_chance
from study.results.schema import COMPLETED, settings_of
from study.stats.gaps import emphasis_table

PLACE = 50
"""The deciding input t* of Figure 2.2."""
EMPHASIS = 2.0
"""An input is emphasized if its weight is more than this many times the mean of the others.

The threshold is ours.
"""


def _place(ds: xr.Dataset) -> int:
    """Return the paper's deciding input, or the first one of the results."""
    if PLACE in ds["place"]:
        return PLACE
    return int(ds["place"][0])


def deciding_input_emphasized(ds: xr.Dataset) -> Estimate:
    """Estimate the share of networks that emphasize the deciding input (`EMPHASIS`).

    Networks without a penalty count if they are better than chance. None of them is much better
    (notebook 41); the paper speaks of "some degree of learning".

    Parameters
    ----------
    ds
        Results of `linear_gaps`.

    Returns
    -------
    Estimate
        A proportion of networks.
    """
    place = _place(ds)
    no_penalty = ds["orthogonality"].min()
    table = emphasis_table(ds)
    unpenalized = table["orthogonality"] == table["orthogonality"].min()
    table = table[unpenalized & (table["place"] == place)]
    learned = above_chance(table["accuracy"], 0.5, settings_of(ds)["test_size"], len(table))
    learners = table[learned]
    if learners.empty:
        reason = "no network is better than chance"
        return not_testable(reason, Cause.PREMISE, scale_of_settings(ds, len(table)))
    weights = abs(ds["emphasis"].sel(place=place, orthogonality=no_penalty))
    weights = weights.sel(replicate=learners["replicate"].to_numpy())
    deciding = weights.sel(time=place, drop=True)
    others = weights.sizes["time"] - 1
    mean_of_others = (weights.sum("time") - deciding) / others
    relative = deciding / mean_of_others
    emphasized = int((relative > EMPHASIS).sum())
    estimate = proportion(emphasized, len(learners), scale_of_settings(ds, len(learners)))
    note = (
        "in the median network, the weight of the deciding input is "
        f"{float(relative.median()):.1f} times the mean of the others; "
        f"{learners['rank'].median() - 1:g} of {others} other inputs have a larger weight"
    )
    return replace(estimate, notes=(note,))


def gain_by_orthogonality(ds: xr.Dataset) -> Estimate:
    """Estimate how much the orthogonality penalty raises accuracy at the paper's deciding input.

    The claim is that it lowers accuracy. The mean over replicates is taken, each of which is
    trained with and without the penalty.

    Parameters
    ----------
    ds
        Results of `linear_gaps`.

    Returns
    -------
    Estimate
        Accuracy with the largest penalty minus accuracy without; a share.
    """
    accuracy = ds["accuracy"].where(ds["status"] == COMPLETED).sel(place=_place(ds))
    weights = ds["orthogonality"]
    with_penalty = accuracy.sel(orthogonality=weights.max())
    without = accuracy.sel(orthogonality=weights.min())
    changes = (with_penalty - without).values
    changes = changes[np.isfinite(changes)]
    return mean(changes, scale_of_settings(ds, len(changes)))


judge_linear_gaps = Judges(
    {
        "diss-2.5-emphasis": deciding_input_emphasized,
        "diss-2.5-orthogonality": gain_by_orthogonality,
    }
)
