"""Networks trained on the long time gap task: what they emphasise (Figures 2.2, A1), how even their adjoints are (Figure 2.3)."""

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

from lib.results.schema import COMPLETED

LEARNED = 0.99
"""Accuracy from which a network counts as one that learned the task."""


def emphasis_table(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return a row for each completed network of `linear_gaps`: how much weight the deciding input t* gets.

    ``rank`` of the input t* by the size of its emphasis, 1 for the largest; its ``share`` in the sum of the squared emphases;
    ``accuracy``, and the accuracy ``expected`` of a network with this emphasis; ``departure`` of W from orthogonality.

    The other T - 1 inputs are independent signs. Their weighted sum is nearly normal, so a network whose emphasis c
    has the right sign at t* is right with probability :math:`\Phi(c_{t^*} / \sqrt{\sum_{t \ne t^*} c_t^2})`.
    """
    at_place = ds["emphasis"].sel(time=ds["place"]).drop_vars("time")
    squares = (ds["emphasis"] ** 2).sum("time")
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = xr.apply_ufunc(norm.cdf, at_place / np.sqrt((squares - at_place**2).clip(0)))
    measured = xr.Dataset(
        {
            "rank": 1 + (abs(ds["emphasis"]) > abs(at_place)).sum("time"),
            "share": at_place**2 / squares,
            "accuracy": ds["accuracy"],
            "expected": expected,
            "departure": ds["departure"],
            "status": ds["status"],
        }
    )
    frame = measured.to_dataframe(dim_order=["place", "orthogonality", "replicate"]).reset_index()
    return frame[frame["status"] == COMPLETED].drop(columns="status").reset_index(drop=True)


def kept_accuracy(ds: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of the networks that are followed: of the record that validates best, the latest of equals."""
    latest_first = ds["validation_metric"].fillna(-1).isel(record=slice(None, None, -1))
    best = latest_first.argmax("record")
    return ds["test_metric"].isel(record=ds.sizes["record"] - 1 - best).drop_vars("record")


def normalised_adjoints(ds: xr.Dataset) -> xr.DataArray:
    """Return each sequence's adjoint norms over their largest, between 0 and 1 (section 2.6.1); ``nan`` where all are zero."""
    with np.errstate(invalid="ignore"):  # -inf less -inf
        return 10 ** (ds["adjoint_norm"] - ds["adjoint_norm"].max("time"))
