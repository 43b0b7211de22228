"""What the sweep over the coadjoint penalty (section 2.8, Figure 2.6) says of balance and accuracy; claims on Table 2.2 have verbs."""

import numpy as np
import xarray as xr

from lib.analysis.padding import SWEEP, attempts
from lib.results.claims import Finding, Judges, Scale, correlation, unable
from lib.results.learned import longest

TEXT = ("mnist", "fashion_mnist")
"""The text's data sets: what stands in for them in short runs judges nothing."""


def _nearness(ds: xr.Dataset, padding: int) -> Finding:
    """Return the correlation of accuracy with how near the metric is to zero, over the sweep at one padding."""
    rows = attempts(ds)
    rows = rows[(rows["method"] == SWEEP) & (rows["padding"] == padding)]
    if instead := set(rows["dataset"]) - set(TEXT):
        return unable(f"the sweep is over {min(instead)}, which is no data set of the text")
    rows = rows[np.isfinite(rows["metric"])].dropna(subset=["accuracy"])
    if rows.empty:
        return unable("no attempt of the sweep has a metric")
    swept = (ds["network"] == SWEEP) & (ds["padding"] == padding)
    scale = Scale(
        sequences=int(ds["sequences"].max()),
        epochs=ds.sizes["record"],
        width=int(rows["width"].max()),
        replicates=rows["replicate"].nunique(),
        test_size=int(ds["test_sequences"].max()),
        time_steps=longest(ds.isel(run=np.flatnonzero(swept))),
    )
    return correlation(rows["accuracy"], -rows["metric"].abs(), scale)


def _largest_padding(ds: xr.Dataset) -> int:
    return int(ds["padding"].where(ds["network"] == SWEEP).max())


judges = Judges(
    {
        "diss-2.8-no-relation": lambda ds: _nearness(ds, 0),
        "diss-2.8-relation": lambda ds: _nearness(ds, _largest_padding(ds)),
    }
)
