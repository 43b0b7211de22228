"""What the sweep over the coadjoint penalty (section 2.8, Figure 2.6) says of balance and accuracy; claims on Table 2.2 have verbs."""

import numpy as np
import xarray as xr

from lib.analysis.padding import SWEEP, attempts
from lib.results.claims import Finding, Judges, Scale, correlation, unable
from lib.results.schema import COMPLETED

TEXT = ("mnist", "fashion_mnist")
"""The text's data sets: what stands in for them in short runs judges nothing."""

judges = Judges("padding")


def _drawn(rng: np.random.Generator, together: bool = False, networks: int = 24) -> xr.Dataset:
    """Draw a sweep at two paddings in which accuracy has nothing to do with the metric, or rises as it comes nearer to zero."""
    shape = (2 * networks, 1)
    metric = 5 * rng.standard_normal(shape)
    accuracy = rng.standard_normal(shape) - (abs(metric) if together else 0)
    training, stage = ("run", "replicate"), ("run", "replicate", "stage")
    once = ("run", np.ones(2 * networks, int))
    return xr.Dataset(
        {
            "network": ("run", [SWEEP] * 2 * networks),
            "status": (training, np.full(shape, COMPLETED)),
            "records": (training, np.ones(shape, int)),
            "test_metric": ((*training, "record"), accuracy[..., None]),
            "adjoint_norm_first": (stage, metric[..., None]),
            "adjoint_norm_last": (stage, np.zeros((*shape, 1))),
            **dict.fromkeys(("width", "sequences", "test_sequences"), once),
        },
        {"stage": ["trained"], "padding": ("run", [0, 3] * networks)}
        | {"dataset": ("run", [TEXT[1]] * 2 * networks)},
    )


def _nearness(ds: xr.Dataset, padding: int) -> Finding:
    rows = attempts(ds)
    rows = rows[(rows["method"] == SWEEP) & (rows["padding"] == padding)]
    if instead := set(rows["dataset"]) - set(TEXT):
        return unable(f"the sweep is over {min(instead)}, which is no data set of the text")
    rows = rows[np.isfinite(rows["metric"])].dropna(subset=["accuracy"])
    if rows.empty:
        return unable("no attempt of the sweep has a metric")
    scale = Scale(
        sequences=int(ds["sequences"].max()),
        epochs=ds.sizes["record"],
        width=int(rows["width"].max()),
        replicates=rows["replicate"].nunique(),
        test_size=int(ds["test_sequences"].max()),
    )
    return correlation(rows["accuracy"], -rows["metric"].abs(), scale)


@judges.judge("diss-2.8-no-relation", false=lambda rng: _drawn(rng, together=True))
def no_relation_without_padding(ds: xr.Dataset) -> Finding:
    return _nearness(ds, 0)


@judges.judge("diss-2.8-relation", false=_drawn)
def relation_with_padding(ds: xr.Dataset) -> Finding:
    return _nearness(ds, int(ds["padding"].where(ds["network"] == SWEEP).max()))
