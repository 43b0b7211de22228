"""What the adding problem (section 2.9.1, Figure 2.8) says of the text's claims: who learns, at which length."""

import numpy as np
import xarray as xr

from lib.results.claims import Finding, Judges, Scale, geometric_mean, unable
from lib.results.learned import ADDING_GUESS
from lib.results.published import load_published
from lib.results.schema import COMPLETED, DIVERGED

judges = Judges("adding")


def final_errors(ds: xr.Dataset, architecture: str, time_steps: int) -> np.ndarray:
    """Return the last test errors of a network at its best setting, one for each replicate: the author's start, tanh.

    The best has the smallest mean validation error, that of a training that diverged counting as infinite; its own error
    then is that of having learned nothing.
    """
    asked = (ds["architecture"] == architecture) & (ds["time_steps"] == time_steps)
    asked &= ds["start"] == "author"
    if "activation" in ds.coords:
        asked &= ds["activation"].isin(["tanh", ""])
    asked &= ds["status"].isin((COMPLETED, DIVERGED)).any("replicate")
    part = ds.isel(run=np.flatnonzero(asked))
    ran, done = part["status"].isin((COMPLETED, DIVERGED)), part["status"] == COMPLETED
    if not part.sizes["run"]:
        return np.empty(0)
    last = part.isel(record=part["records"] - 1)
    validation = last["validation_metric"].where(done, np.inf).where(ran).mean("replicate")
    error = last["test_metric"].where(done, ADDING_GUESS).where(ran)
    return error.isel(run=int(validation.argmin("run"))).dropna("replicate").values


def relative_error(ds: xr.Dataset, architecture: str, time_steps: int) -> Finding:
    """Return the error of the best setting over that of guessing, its geometric mean over replicates."""
    errors = final_errors(ds, architecture, time_steps)
    if not len(errors):
        return unable("no training from the author's start")
    of = ds.isel(run=np.flatnonzero(ds["architecture"] == architecture))
    scale = Scale(
        width=int(of["width"].max()),
        replicates=len(errors),
        test_size=int(of["test_sequences"].max()),
    )
    # No network is perfect: the last digits of an error must not rule the mean of logarithms.
    return geometric_mean(np.maximum(errors / ADDING_GUESS, 1e-6), scale)


def _drawn(architecture: str, time_steps: int, learned: bool):
    """Return how to draw results in which a network learns, or does not learn, against the claim."""

    def draw(rng: np.random.Generator, starts: int = 3) -> xr.Dataset:
        # Between the bounds of the two kinds of claims both are false; each start has its own luck.
        middle = rng.uniform(0.12, 1.0) if learned else rng.uniform(0.001, 0.85)
        spread = rng.uniform(0.05, 0.5)
        errors = ADDING_GUESS * middle * np.exp(spread * rng.standard_normal(starts))
        training = ("run", "replicate")
        curve = ((*training, "record"), errors[None, :, None])
        return xr.Dataset(
            {
                "architecture": ("run", [architecture]),
                "time_steps": ("run", [time_steps]),
                "status": (training, np.full((1, starts), COMPLETED)),
                "records": (training, np.ones((1, starts), int)),
                "validation_metric": curve,
                "test_metric": curve,
                **dict.fromkeys(("width", "test_sequences"), ("run", [1])),
            },
            {"start": ("run", ["author"])},
        )

    return draw


for _row in load_published("diss-fig-2.8").itertuples():
    judges.add(
        f"diss-2.9-{_row.architecture.replace('_', '-')}-{_row.time_steps}",
        lambda ds, name=_row.architecture, steps=_row.time_steps: relative_error(ds, name, steps),
        false=_drawn(_row.architecture, _row.time_steps, bool(_row.learned)),
    )
