"""Claims about the coadjoint penalty on the long time gap task (section 2.6)."""

from dataclasses import replace

import numpy as np
import xarray as xr

from study.claims.estimates import Estimate
from study.claims.experiment_sizes import scale_of_rows
from study.claims.extremes import smallest
from study.claims.intervals import mean, proportion
from study.claims.judging import Judges
from study.results.schema import NOT_PLANNED
from study.stats.gaps import LEARNED, kept_accuracy, normalized_adjoints
from study.stats.regimes import KAPPA_TO_AUTHORS

LARGEST_KAPPA = 1.1e4
"""Bound of the penalty's weights in Figure 2.3, in the author's units.

Our weight 10 is 10,240 in these units; the figure's largest weight is 1e4.
"""


def _inside_figure(ds: xr.Dataset) -> xr.Dataset:
    return ds.isel(run=np.flatnonzero(ds["kappa"] * KAPPA_TO_AUTHORS <= LARGEST_KAPPA))


def evenness_by_kappa(ds: xr.Dataset) -> Estimate:
    """Estimate the rank correlation of the penalty's weight kappa with the evenness of adjoints.

    Kappa goes up to the largest value of Figure 2.3. The networks of one replicate share initial
    weights and sequences for all kappa, so the correlation is computed within each replicate and
    averaged.

    Parameters
    ----------
    ds
        Results of `coadjoint_gaps`.

    Returns
    -------
    Estimate
        Between -1 and 1.
    """
    inside = _inside_figure(ds)
    evenness = normalized_adjoints(inside).mean(["sequence", "time"])
    rows = evenness.to_dataframe("evenness").dropna(subset="evenness")
    correlations = []
    for _, replicate in rows.groupby("replicate"):
        correlations.append(replicate["kappa"].corr(replicate["evenness"], method="spearman"))
    return mean(correlations, scale_of_rows(inside))


def smallest_share_learned(ds: xr.Dataset) -> Estimate:
    """Estimate the smallest share of networks that learned, over the kappa of Figure 2.3.

    Each network counts at the record with its best validation accuracy.

    Parameters
    ----------
    ds
        Results of `coadjoint_gaps`.

    Returns
    -------
    Estimate
        A proportion of networks.
    """
    inside = _inside_figure(ds)
    planned = (inside["status"] != NOT_PLANNED).sum("replicate")
    at_best = (kept_accuracy(inside) >= LEARNED).sum("replicate")
    last = (inside["records"] - 1).clip(0)
    at_last = (inside["test_metric"].isel(record=last) >= LEARNED).sum("replicate")
    scale = replace(scale_of_rows(ds), replicates=int(planned.min()))
    shares = []
    for learned, runs in zip(at_best, planned, strict=True):
        shares.append(proportion(int(learned), int(runs), scale))
    share_at_end = float((at_last / planned).min())
    steps = int(inside["step"].max())
    note = f"within {steps:,} training steps; at the last record, the share is {share_at_end:.0%}"
    return replace(smallest(shares), notes=(note,))


judge_coadjoint_gaps = Judges(
    {"diss-2.6-uniform": evenness_by_kappa, "diss-2.6-accuracy": smallest_share_learned}
)
