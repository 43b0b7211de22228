"""What networks say of the text's claims on adjoints: linear ones, those with the coadjoint penalty (Figures 2.2, 2.3, 2.6), and latching ones (3.6).

That the states of latching networks stay bounded (Figure 3.7) is no claim: tanh bounds them whatever the weights.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr

from lib.analysis.gaps import LEARNED, emphasis_table, kept_accuracy, normalised_adjoints
from lib.analysis.padding import SWEEP, attempts
from lib.analysis.regimes import KAPPA
from lib.results.claims import Finding, Judges, Scale, correlation, mean, share, smallest, unable
from lib.results.learned import longest
from lib.results.schema import COMPLETED, settings_of

TEXT = ("mnist", "fashion_mnist")
"""The data sets of the text's sweep: what stands in for them in short runs judges nothing."""
LARGEST = 1e4
"""The largest weight of Figure 2.3, in the units of the author's program."""
HALFWAY = 0.75
"""Accuracy, halfway from guessing to always right, that a linear network must reach to be asked what it emphasises; border ours."""
STEADY = 3.0
"""Orders of magnitude within which an adjoint neither vanishes nor explodes."""
STANDS_OUT = 0.04
"""log10 of the factor, a tenth, by which an adjoint that is emphasised exceeds all others."""


def _scale(ds: xr.Dataset, replicates: int) -> Scale:
    settings = settings_of(ds)
    steps = settings["steps"] if "steps" in settings else settings["training_steps"]
    return Scale(
        sequences=steps * settings["batch_size"],
        width=settings["width"],
        replicates=replicates,
        test_size=settings["test_size"],
        time_steps=longest(ds),
    )


# linear networks


def deciding_input_first(ds: xr.Dataset) -> Finding:
    """Return how often the input at 50 has the largest emphasis; networks that hardly learned the task say nothing of that."""
    table = emphasis_table(ds)
    place = 50 if 50 in ds["place"] else int(ds["place"][0])
    free = table["orthogonality"] == table["orthogonality"].min()
    table = table[free & (table["place"] == place)]
    rank = table.loc[table["accuracy"] >= HALFWAY, "rank"]
    if rank.empty:
        best = table["accuracy"].max()
        reason = f"no network learned the task halfway: the best is right in {best:.0%}, guessing in 50 %"
        return unable(reason, _scale(ds, len(table)))
    return share(int((rank == 1).sum()), len(rank), _scale(ds, len(rank)))


def orthogonality_costs(ds: xr.Dataset) -> Finding:
    """Return what the penalty adds to accuracy: a start's mean over places, with and without it, is one value."""
    accuracy = ds["accuracy"].where(ds["status"] == COMPLETED)
    weights = ds["orthogonality"]
    change = accuracy.sel(orthogonality=weights.max()) - accuracy.sel(orthogonality=weights.min())
    starts = change.mean("place").values
    starts = starts[np.isfinite(starts)]
    return mean(starts, _scale(ds, len(starts)))


# the coadjoint penalty


def _scale_of_rows(ds: xr.Dataset) -> Scale:
    return Scale(
        width=int(ds["width"][0]),
        replicates=ds.sizes["replicate"],
        test_size=int(ds["test_sequences"][0]),
        time_steps=longest(ds),
    )


def penalty_evens(ds: xr.Dataset) -> Finding:
    """Return the correlation of the penalty's weight, up to the largest of Figure 2.3, with how even the adjoints are."""
    ds = _inside_figure(ds)
    evenness = normalised_adjoints(ds).mean(["sequence", "time"]).to_dataframe("evenness")
    rows = evenness.dropna(subset="evenness")
    return correlation(rows["kappa"], rows["evenness"], _scale_of_rows(ds))


def every_weight_learns(ds: xr.Dataset) -> Finding:
    """Return the smallest share, over the weights of Figure 2.3, of networks that learned."""
    inside = kept_accuracy(_inside_figure(ds))
    learned, scale = (inside >= LEARNED).sum("replicate"), _scale_of_rows(ds)
    return smallest(share(int(count), ds.sizes["replicate"], scale) for count in learned)


def _inside_figure(ds: xr.Dataset) -> xr.Dataset:
    return ds.isel(run=np.flatnonzero(ds["kappa"] * KAPPA <= LARGEST))


def nearness(ds: xr.Dataset, padding: int) -> Finding:
    """Return the correlation of accuracy with how near the metric is to zero, over the sweep of padded images at one padding."""
    rows = attempts(ds)
    rows = rows[(rows["method"] == SWEEP) & (rows["padding"] == padding)]
    if instead := set(rows["dataset"]) - set(TEXT):
        return unable(f"the sweep is over {min(instead)}, which is no data set of the text")
    rows = rows[np.isfinite(rows["metric"])].dropna(subset=["accuracy"])
    if rows.empty:
        return unable("no attempt of the sweep has a metric")
    swept = ds.isel(run=np.flatnonzero((ds["network"] == SWEEP) & (ds["padding"] == padding)))
    scale = Scale(
        sequences=int(ds["sequences"].max()),
        epochs=ds.sizes["record"],
        width=int(rows["width"].max()),
        replicates=rows["replicate"].nunique(),
        test_size=int(ds["test_sequences"].max()),
        time_steps=longest(swept),
    )
    return correlation(rows["accuracy"], -rows["metric"].abs(), scale)


# latching


def latched(ds: xr.Dataset, horizon: int | None = None) -> np.ndarray:
    """Return which trainings reached the tolerance at the shortest horizon, those the text goes on with, and at `horizon`."""
    settings = settings_of(ds)
    asked = [settings["horizon"], horizon or settings["horizon"]]
    return (ds["error"].sel(horizon=asked) < settings["tolerance"]).all("horizon").values


def _share(ds: xr.Dataset, fulfilled: np.ndarray, of: np.ndarray) -> Finding:
    scale = _scale(ds, int(of.sum()))
    if not of.any():
        return unable("no training reaches the tolerance where this claim asks for it", scale)
    return share(int((fulfilled & of).sum()), int(of.sum()), scale)


def latch_longer(ds: xr.Dataset) -> Finding:
    """Return how many of these latch at every longer horizon."""
    settings = settings_of(ds)
    longer = ds["error"].sel(horizon=settings["longer"]) < settings["tolerance"]
    return _share(ds, longer.all("horizon").values, latched(ds))


def _at_the_longest(ds: xr.Dataset, fulfilled: Callable[..., xr.DataArray]) -> Finding:
    """Return in how many log10 of the median adjoint norms at the longest horizon meets a condition on them, the deciding input's place and the end."""
    settings = settings_of(ds)
    end, place = settings["longer"][-1], settings["place"]
    median = ds["adjoint_median"].sel(horizon=end).astype(float)
    return _share(ds, fulfilled(median, place, end).values, latched(ds, end))


def _stays(median: xr.DataArray, place: int, end: int) -> xr.DataArray:
    """Return whether the adjoint state at the deciding input is about as large as at the end."""
    return abs(median.sel(time=place) - median.sel(time=end)) < STEADY


def _stands_out(median: xr.DataArray, place: int, _: int) -> xr.DataArray:
    """Return whether the adjoint state at the deciding input exceeds all others."""
    return (
        median.sel(time=place) > median.sel(time=median["time"] != place).max("time") + STANDS_OUT
    )


linear = Judges(
    {"diss-2.5-emphasis": deciding_input_first, "diss-2.5-orthogonality": orthogonality_costs}
)
coadjoint = Judges({"diss-2.6-uniform": penalty_evens, "diss-2.6-accuracy": every_weight_learns})
padding = Judges(
    {
        "diss-2.8-no-relation": lambda ds: nearness(ds, 0),
        "diss-2.8-relation": lambda ds: nearness(
            ds, int(ds["padding"].where(ds["network"] == SWEEP).max())
        ),
    }
)
latching = Judges(
    {
        "diss-3.6-latch": lambda ds: _share(ds, latched(ds), np.ones(ds.sizes["training"], bool)),
        "diss-3.6-longer": latch_longer,
        "diss-3.6-adjoints": lambda ds: _at_the_longest(ds, _stays),
        "diss-3.6-place": lambda ds: _at_the_longest(ds, _stands_out),
    }
)
