"""Claims about linear networks on the long time gap task (section 2.5)."""

from dataclasses import replace

import numpy as np
import xarray as xr

from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.estimators import mean, proportion
from study.claims.experiment_sizes import scale_of_settings
from study.claims.judging import Judges
from study.results.learned import above_chance
from study.results.schema import COMPLETED, settings_of
from study.stats.gaps import emphasis_table

PLACE = 50
"""The deciding input t* of Figure 2.2."""
EMPHASIS = 2.0
"""How many times the mean weight of the other inputs counts as emphasis (threshold ours)."""


def _place(ds: xr.Dataset) -> int:
    """Return the paper's deciding input, or the first that was trained."""
    return PLACE if PLACE in ds["place"] else int(ds["place"][0])


def deciding_input_emphasized(ds: xr.Dataset) -> Estimate:
    """Estimate how often the deciding input is emphasized relative to the other inputs.

    An input is emphasized if its weight is more than `EMPHASIS` times the mean of the others.
    Networks at chance do not count. No network is much better than chance: the best one of width
    four is right in 63 % (notebook 41), and the paper says "some degree of learning".

    Parameters
    ----------
    ds
        Results of `linear_gaps`.

    Returns
    -------
    Estimate
        A proportion of networks.
    """
    table = emphasis_table(ds)
    free = table["orthogonality"] == table["orthogonality"].min()
    table = table[free & (table["place"] == _place(ds))]
    learned = above_chance(table["accuracy"], 0.5, settings_of(ds)["test_size"], len(table))
    learners = table[learned]
    if learners.empty:
        return not_testable(
            "no network is better than a coin", Cause.PREMISE, scale_of_settings(ds, len(table))
        )
    without = ds["emphasis"].sel(place=_place(ds), orthogonality=ds["orthogonality"].min())
    sizes = abs(without.sel(replicate=learners["replicate"].to_numpy()))
    deciding = sizes.sel(time=_place(ds), drop=True)
    others = sizes.sizes["time"] - 1
    relative = deciding / ((sizes.sum("time") - deciding) / others)
    estimate = proportion(
        int((relative > EMPHASIS).sum()), len(learners), scale_of_settings(ds, len(learners))
    )
    times = float(relative.median())
    note = (
        f"the median network weighs the deciding input {times:.1f} times as much "
        f"as the mean of the others; {learners['rank'].median() - 1:g} of {others} weigh more"
    )
    return replace(estimate, note=note)


def orthogonality_costs(ds: xr.Dataset) -> Estimate:
    """Estimate the gain in accuracy from the penalty at the paper's deciding input.

    It is the mean over starts.

    Parameters
    ----------
    ds
        Results of `linear_gaps`.

    Returns
    -------
    Estimate
        Accuracy with the largest penalty less accuracy without.
    """
    accuracy = ds["accuracy"].where(ds["status"] == COMPLETED).sel(place=_place(ds))
    weights = ds["orthogonality"]
    change = accuracy.sel(orthogonality=weights.max()) - accuracy.sel(orthogonality=weights.min())
    starts = change.values[np.isfinite(change.values)]
    return mean(starts, scale_of_settings(ds, len(starts)))


judge_linear_gaps = Judges(
    {
        "diss-2.5-emphasis": deciding_input_emphasized,
        "diss-2.5-orthogonality": orthogonality_costs,
    }
)
