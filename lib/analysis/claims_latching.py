"""What the latching experiment (section 3.6) says of the text's claims.

That the states stay bounded (Figure 3.7) is no claim: tanh bounds them whatever the weights.
"""

import json
from dataclasses import replace

import numpy as np
import xarray as xr

from lib.results.claims import Finding, Judges, Scale, share, unable
from lib.results.schema import settings_of

STEADY = 3.0
"""Orders of magnitude within which an adjoint neither vanishes nor explodes."""
STANDS_OUT = 0.04
"""log10 of the factor, a tenth, by which an adjoint that is emphasised exceeds all others."""

judges = Judges("latching")


def latched(ds: xr.Dataset, horizon: int | None = None) -> np.ndarray:
    """Return which trainings reached the tolerance at the shortest horizon, those the text goes on with, and at `horizon`."""
    settings = settings_of(ds)
    asked = [settings["horizon"], horizon or settings["horizon"]]
    return (ds["error"].sel(horizon=asked) < settings["tolerance"]).all("horizon").values


def _share(ds: xr.Dataset, fulfilled: np.ndarray, of: np.ndarray) -> Finding:
    settings = settings_of(ds)
    scale = Scale(
        sequences=settings["training_steps"] * settings["batch_size"],
        width=settings["width"],
        replicates=int(of.sum()),
        test_size=settings["test_size"],
    )
    if not of.any():
        return unable("no training reaches the tolerance where this claim asks for it", scale)
    return share(int((fulfilled & of).sum()), int(of.sum()), scale)


def _drawn(rng: np.random.Generator, latch: float, longer: float, steady: float, peak: float):
    """Draw results of 24 trainings of which the given shares fulfil each claim."""
    trainings, times, place = 24, np.array([20, 22, 23, 24, 800]), 23
    chance = lambda p: rng.random(trainings) < p  # noqa: E731
    short = np.where(chance(latch), 0.001, 0.3)
    long = np.where(chance(longer), 0.001, 0.3)
    slope = np.where(chance(steady), 0.0, 10.0)
    adjoint = -slope[:, None] * (800 - times) / 777
    adjoint[:, times == place] += np.where(chance(peak), 0.3, 0.0)[:, None]
    return xr.Dataset(
        {
            "error": (("training", "horizon"), np.stack([short, long], 1)),
            "adjoint_median": (
                ("training", "horizon", "time"),
                np.stack([adjoint, adjoint], 1),
            ),
        },
        {"training": range(trainings), "horizon": [40, 800], "time": times},
        {
            "settings": json.dumps(
                {"horizon": 40, "longer": [800], "place": place, "tolerance": 0.01}
                | {"training_steps": 1, "batch_size": 1, "width": 4, "test_size": 1}
            )
        },
    )


@judges.judge("diss-3.6-latch", false=lambda rng: _drawn(rng, rng.uniform(0, 0.5), 1, 1, 1))
def can_latch(ds: xr.Dataset) -> Finding:
    found = _share(ds, latched(ds), np.ones(ds.sizes["training"], bool))
    return replace(
        found, note="the text shows one network; that half of them must latch is our border"
    )


@judges.judge("diss-3.6-longer", false=lambda rng: _drawn(rng, 0.9, rng.uniform(0, 0.5), 1, 1))
def latch_longer(ds: xr.Dataset) -> Finding:
    settings = settings_of(ds)
    everywhere = (ds["error"].sel(horizon=settings["longer"]) < settings["tolerance"]).all(
        "horizon"
    )
    return _share(ds, everywhere.values, latched(ds))


@judges.judge("diss-3.6-adjoints", false=lambda rng: _drawn(rng, 0.9, 1, rng.uniform(0, 0.5), 1))
def adjoints_stay(ds: xr.Dataset) -> Finding:
    settings = settings_of(ds)
    longest = settings["longer"][-1]
    median = ds["adjoint_median"].sel(horizon=longest).astype(float)
    change = median.sel(time=settings["place"]) - median.sel(time=longest)
    return _share(ds, (abs(change) < STEADY).values, latched(ds, longest))


@judges.judge("diss-3.6-place", false=lambda rng: _drawn(rng, 0.9, 1, 1, rng.uniform(0, 0.5)))
def adjoints_mark_the_place(ds: xr.Dataset) -> Finding:
    settings = settings_of(ds)
    longest = settings["longer"][-1]
    median = ds["adjoint_median"].sel(horizon=longest).astype(float)
    others = median.sel(time=median["time"] != settings["place"]).max("time")
    stands_out = median.sel(time=settings["place"]) > others + STANDS_OUT
    return _share(ds, stands_out.values, latched(ds, longest))
