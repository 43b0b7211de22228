"""What the adding problem (section 2.9.1, Figure 2.8) says of the text's claims: who learns, at which length."""

import json

import numpy as np
import xarray as xr

from lib.analysis.adding import AUTHOR
from lib.results.claims import Finding, Judges, Scale, geometric_mean, unable
from lib.results.learned import ADDING_GUESS
from lib.results.published import load_published
from lib.results.schema import COMPLETED, DIVERGED, settings_of

judges = Judges("adding")


def final_errors(ds: xr.Dataset, architecture: str, time_steps: int) -> np.ndarray:
    """Return the last test errors of the author's network at its best learning rate, one for each replicate.

    The best has the smallest mean validation error, that of a training that diverged counting as infinite, as in
    `lib.analysis.adding.chosen_rates`; its own error then is that of having learned nothing.
    """
    asked = {"architecture": architecture, "time_steps": time_steps, **AUTHOR}
    if any(name not in ds.dims or level not in ds[name] for name, level in asked.items()):
        return np.empty(0)
    part = ds.sel(asked)
    ran = part["status"].isin((COMPLETED, DIVERGED))
    if not ran.any():
        return np.empty(0)
    last, done = part.isel(checkpoint=-1), part["status"] == COMPLETED
    validation = last["validation"].where(done, np.inf).where(ran).mean("replicate")
    best = (
        last["error"]
        .where(done, ADDING_GUESS)
        .where(ran)
        .isel(learning_rate=int(validation.argmin("learning_rate")))
    )
    return best.dropna("replicate").values


def relative_error(ds: xr.Dataset, architecture: str, time_steps: int) -> Finding:
    """Return the error of the best learning rate over that of guessing, its geometric mean over replicates."""
    asked = {"architecture": architecture, "time_steps": time_steps, **AUTHOR}
    errors = final_errors(ds, architecture, time_steps)
    if not len(errors):
        return unable("no training from the author's start")
    settings = settings_of(ds)
    part = ds["training_steps"].sel(asked)
    scale = Scale(
        sequences=int(part.max()) * settings["batch_size"],
        width=settings["width"],
        replicates=len(errors),
        test_size=settings["test_size"],
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
        dims = ("architecture", "time_steps", "learning_rate", "start", "activation", "replicate")
        one = (dims, np.zeros((1, 1, 1, 1, 1, starts), int))
        curve = ((*dims, "checkpoint"), errors[None, None, None, None, None, :, None])
        return xr.Dataset(
            {"status": one, "training_steps": one, "error": curve, "validation": curve},
            {"architecture": [architecture], "time_steps": [time_steps], "learning_rate": [0.1]}
            | {name: [level] for name, level in AUTHOR.items()},
            {"settings": json.dumps({"batch_size": 1, "width": 1, "test_size": 1})},
        )

    return draw


for _row in load_published("diss-fig-2.8").itertuples():
    judges.add(
        f"diss-2.9-{_row.architecture.replace('_', '-')}-{_row.time_steps}",
        lambda ds, name=_row.architecture, steps=_row.time_steps: relative_error(ds, name, steps),
        false=_drawn(_row.architecture, _row.time_steps, bool(_row.learned)),
    )
