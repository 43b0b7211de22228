"""Claims about the relation of balanced adjoints and accuracy on padded images (section 2.8)."""

from dataclasses import replace

import numpy as np
import xarray as xr

from study.claims.comparisons import magnitude
from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.experiment_sizes import scale_of_rows
from study.claims.extremes import largest, smallest
from study.claims.intervals import correlation
from study.claims.judging import Judges
from study.stats.padded_images import SWEEP, padded_runs
from study.stats.regimes import KAPPA_TO_AUTHORS

PAPERS_DATA = ("mnist", "fashion_mnist")
"""The data sets of the paper's sweep; results on others judge nothing."""
SWEPT_KAPPA = 1.1e3
"""Bound of the penalty's weights in Figure A2, in the author's units.

Our weight 1 is 1,024 in these units; the figure's largest weight is 1e3.
"""


def nearness(ds: xr.Dataset, padding: int) -> list[Estimate]:
    """Estimate the rank correlation of accuracy with how close the adjoint metric is to zero.

    Each setting of the sweep counts as one point, the mean of its runs. Kappa, the weight of the
    penalty, goes up to the largest one of Figure A2. The two initializations are not pooled: that
    would only show which of them is better.

    Parameters
    ----------
    ds
        Results of `padding`.
    padding
        Padding of the task, in multiples of the image's rows.

    Returns
    -------
    list of Estimate
        One per initialization.
    """
    in_sweep = (ds["network"] == SWEEP) & (ds["padding"] == padding)
    swept = ds.isel(run=np.flatnonzero(in_sweep))
    rows = padded_runs(swept)
    rows = rows[rows["kappa"] * KAPPA_TO_AUTHORS < SWEPT_KAPPA]
    other_data = set(rows["dataset"]) - set(PAPERS_DATA)
    if other_data:
        reason = f"the sweep is over {min(other_data)}, which the paper does not use"
        return [not_testable(reason, Cause.NO_DATA)]
    rows = rows[np.isfinite(rows["metric"])].dropna(subset=["accuracy"])
    rows = rows.assign(near=-rows["metric"].abs())
    estimates = []
    for _, initialized in rows.groupby("initialization"):
        # Runs of one setting are nearly equal, so more of them add no evidence about settings.
        by_setting = initialized.groupby("run")
        settings = by_setting[["accuracy", "near"]].mean()
        scale = replace(
            scale_of_rows(swept),
            sequences=int(ds["sequences"].max()),
            epochs=ds.sizes["record"],
            replicates=int(by_setting.size().min()),
        )
        estimates.append(correlation(settings["accuracy"], settings["near"], scale))
    return estimates


def unrelated_without_padding(ds: xr.Dataset) -> Estimate:
    """Estimate the larger absolute correlation of the two initializations, without padding.

    Parameters
    ----------
    ds
        Results of `padding`.

    Returns
    -------
    Estimate
        Between 0 and 1.
    """
    return largest(magnitude(estimate) for estimate in nearness(ds, 0))


def related_with_padding(ds: xr.Dataset) -> Estimate:
    """Estimate the smaller correlation of the two initializations, at the largest padding.

    Parameters
    ----------
    ds
        Results of `padding`.

    Returns
    -------
    Estimate
        Between -1 and 1.
    """
    most = int(ds["padding"].where(ds["network"] == SWEEP).max())
    return smallest(nearness(ds, most))


judge_padding = Judges(
    {
        "diss-2.8-no-relation": unrelated_without_padding,
        "diss-2.8-relation": related_with_padding,
    }
)
