"""What networks on the long time gap task (sections 2.5 and 2.6, Figures 2.2 and 2.3) say of the text's claims."""

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis.gaps import LEARNED, emphasis_table, kept_accuracy, normalised_adjoints
from lib.analysis.units import KAPPA
from lib.results.claims import Finding, Judges, Scale, correlation, mean, share, smallest, unable
from lib.results.schema import COMPLETED, settings_of

LARGEST = 1e4
"""The largest weight of Figure 2.3, in the units of the author's program."""
HALFWAY = 0.75
"""Accuracy, halfway from guessing to always right, that a linear network must reach to be asked what it emphasises; border ours."""

linear, coadjoint = Judges("linear_gaps"), Judges("coadjoint_gaps")


def _scale(ds: xr.Dataset, replicates: int) -> Scale:
    settings = settings_of(ds)
    return Scale(
        sequences=settings["steps"] * settings["batch_size"],
        width=settings["width"],
        replicates=replicates,
        test_size=settings["test_size"],
    )


def _first(ds: xr.Dataset, place: int) -> pd.DataFrame:
    """Return the networks without the penalty, of the text's place or of the only one."""
    table = emphasis_table(ds)
    place = place if place in ds["place"] else int(ds["place"][0])
    free = table["orthogonality"] == table["orthogonality"].min()
    return table[free & (table["place"] == place)]


def _drawn_linear(rng: np.random.Generator, emphasised: float = 1.0, cost: float = 0.0):
    """Draw networks of which a share emphasises the input at 50, and whose penalty costs accuracy."""
    replicates, times = 20, np.array([49, 50, 51])
    shape = (1, 2, replicates)
    emphasis = rng.standard_normal((*shape, len(times))) / 10
    emphasis[..., 1] = np.where(rng.random(shape) < emphasised, 1.0, 0.0)
    emphasis[..., 2] += 0.5
    accuracy = 0.9 + 0.05 * rng.standard_normal(shape)
    accuracy[:, 1] -= cost
    dims = ("place", "orthogonality", "replicate")
    return xr.Dataset(
        {
            "emphasis": ((*dims, "time"), emphasis),
            "accuracy": (dims, accuracy),
            "departure": (dims, np.ones(shape)),
            "status": (dims, np.full(shape, COMPLETED)),
        },
        {"place": [50], "orthogonality": [0.0, 0.1], "replicate": range(replicates), "time": times},
        {"settings": '{"steps": 1, "batch_size": 1, "width": 4, "test_size": 1}'},
    )


@linear.judge("diss-2.5-emphasis", false=lambda rng: _drawn_linear(rng, rng.uniform(0, 0.5)))
def deciding_input_first(ds: xr.Dataset) -> Finding:
    """Networks that hardly learned the task say nothing of what a trained one emphasises."""
    table = _first(ds, 50)
    rank = table.loc[table["accuracy"] >= HALFWAY, "rank"]
    if rank.empty:
        best = table["accuracy"].max()
        reason = f"no network learned the task halfway: the best is right in {best:.0%}, guessing in 50 %"
        return unable(reason, _scale(ds, len(table)))
    return share(int((rank == 1).sum()), len(rank), _scale(ds, len(rank)))


@linear.judge("diss-2.5-orthogonality", false=lambda rng: _drawn_linear(rng, cost=-0.02))
def orthogonality_costs(ds: xr.Dataset) -> Finding:
    """Each start is trained with and without the penalty, at several places: a start's mean over places is one value."""
    accuracy = ds["accuracy"].where(ds["status"] == COMPLETED)
    weights = ds["orthogonality"]
    change = accuracy.sel(orthogonality=weights.max()) - accuracy.sel(orthogonality=weights.min())
    starts = change.mean("place").values
    starts = starts[np.isfinite(starts)]
    return mean(starts, _scale(ds, len(starts)))


def _drawn_coadjoint(rng: np.random.Generator, rises: bool = True, learned: float = 1.0):
    """Draw networks whose adjoints become more even with kappa, or at random, and of which a share learns."""
    kappas, replicates = np.array([0.0, 0.1, 1.0, 5.0]), 12
    shape = (len(kappas), replicates)
    spread = np.where(rises, 4.0 - np.arange(len(kappas)), 2.0)[:, None]
    spread = spread + 0.5 * rng.standard_normal(shape)
    training, once = ("run", "replicate"), ("run", np.ones(len(kappas), int))
    accuracy = ((*training, "record"), np.where(rng.random((*shape, 1)) < learned, 1.0, 0.5))
    adjoint = -abs(spread)[:, :, None, None] * np.linspace(1, 0, 5)
    return xr.Dataset(
        {
            "adjoint_norm": ((*training, "sequence", "time"), adjoint),
            "validation_metric": accuracy,
            "test_metric": accuracy,
            **dict.fromkeys(("width", "test_sequences"), once),
        },
        {"run": range(len(kappas)), "record": [0], "kappa": ("run", kappas)},
    )


def _scale_of_rows(ds: xr.Dataset) -> Scale:
    return Scale(
        width=int(ds["width"][0]),
        replicates=ds.sizes["replicate"],
        test_size=int(ds["test_sequences"][0]),
    )


@coadjoint.judge("diss-2.6-uniform", false=lambda rng: _drawn_coadjoint(rng, rises=False))
def penalty_evens(ds: xr.Dataset) -> Finding:
    evenness = normalised_adjoints(ds).mean(["sequence", "time"]).to_dataframe("evenness")
    rows = evenness.dropna(subset="evenness")
    return correlation(rows["kappa"], rows["evenness"], _scale_of_rows(ds))


@coadjoint.judge(
    "diss-2.6-accuracy", false=lambda rng: _drawn_coadjoint(rng, learned=rng.uniform(0, 0.5))
)
def every_weight_learns(ds: xr.Dataset) -> Finding:
    inside = kept_accuracy(ds).isel(run=np.flatnonzero(ds["kappa"] * KAPPA <= LARGEST))
    scale, replicates = _scale_of_rows(ds), ds.sizes["replicate"]
    return smallest(
        share(int(count), replicates, scale) for count in (inside >= LEARNED).sum("replicate")
    )
