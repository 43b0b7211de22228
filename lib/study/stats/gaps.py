"""Tables of networks on long time gaps: emphasis (Figures 2.2, A1), evenness of adjoints (2.3).

Padded images, the third experiment of chapter 2, are in `study.stats.padded_images`.
"""

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

from study.results.schema import COMPLETED

LEARNED = 0.99
"""Smallest accuracy of a network that has learned the task."""


def emphasis_table(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return how much each completed network of `linear_gaps` emphasizes the deciding input t*.

    The other T - 1 inputs are independent signs. Their weighted sum is nearly normal, so a network
    whose emphasis c has the right sign at t* is right with probability :math:`\Phi(c_{t^*} /
    \sqrt{\sum_{t \ne t^*} c_t^2})`.

    Parameters
    ----------
    ds
        Results of `linear_gaps`.

    Returns
    -------
    pandas.DataFrame
        One row per completed network: ``place`` (t*), ``orthogonality``, ``replicate``, ``rank`` of
        t* by the size of its emphasis (1 for the largest), ``share`` of t* in the sum of squared
        emphases, ``accuracy``, ``expected`` (accuracy of a network with this emphasis) and
        ``departure`` of W from orthogonality.
    """
    emphasis = ds["emphasis"]
    deciding = emphasis.sel(time=ds["place"]).drop_vars("time")
    squares = (emphasis**2).sum("time")
    squares_of_others = (squares - deciding**2).clip(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = xr.apply_ufunc(norm.cdf, deciding / np.sqrt(squares_of_others))
    table = ds[["accuracy", "departure", "status"]].assign(
        rank=1 + (abs(emphasis) > abs(deciding)).sum("time"),
        share=deciding**2 / squares,
        expected=expected,
    )
    factors = ["place", "orthogonality", "replicate"]
    frame = table.to_dataframe(dim_order=factors).reset_index()
    columns = [*factors, "rank", "share", "accuracy", "expected", "departure"]
    return frame.loc[frame["status"] == COMPLETED, columns].reset_index(drop=True)


def kept_accuracy(ds: xr.Dataset) -> xr.DataArray:
    """Return the test accuracy of each network at its best record.

    Parameters
    ----------
    ds
        Results with ``validation_metric`` and ``test_metric`` along ``record``.

    Returns
    -------
    xarray.DataArray
        Test accuracy at the record with the best validation accuracy; the latest one in a tie.
    """
    latest_first = ds["validation_metric"].fillna(-1).isel(record=slice(None, None, -1))
    records_from_end = latest_first.argmax("record")
    best = ds.sizes["record"] - 1 - records_from_end
    return ds["test_metric"].isel(record=best).drop_vars("record")


def normalized_adjoints(ds: xr.Dataset) -> xr.DataArray:
    """Return each sequence's adjoint norms over their maximum (section 2.6.1).

    Parameters
    ----------
    ds
        Results with ``adjoint_norm`` (log10) along ``time``.

    Returns
    -------
    xarray.DataArray
        Between 0 and 1; nan if all norms of a sequence are zero.
    """
    with np.errstate(invalid="ignore"):  # -inf minus -inf
        return 10 ** (ds["adjoint_norm"] - ds["adjoint_norm"].max("time"))
