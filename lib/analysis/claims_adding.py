"""What the adding problem (section 2.9.1, Figure 2.8) says of the text's claims: who learns, at which length."""

import json

import numpy as np
import xarray as xr

from lib.results.claims import Finding, Judges, Scale, geometric_mean, unable
from lib.results.published import load_published
from lib.results.schema import COMPLETED, DIVERGED

GUESS = 1 / 6
"""Mean squared error of answering 1, the variance of the sum of two uniform numbers (remark 2.3)."""

judges = Judges("adding")


def final_errors(ds: xr.Dataset, architecture: str, time_steps: int) -> np.ndarray:
    """Return the last test errors of the best learning rate, one for each start.

    Results may have further levels (activation, start): each of their combinations is a setting like a learning rate. The
    best has the smallest mean error, as in `lib.analysis.adding.chosen_rates`; a training that diverged counts
    as having learned nothing.
    """
    part = ds.sel(architecture=architecture, time_steps=time_steps)
    ran = part["status"].isin((COMPLETED, DIVERGED))
    error = part["error"].isel(checkpoint=-1).where(part["status"] == COMPLETED, GUESS)
    error = (
        error.where(ran).transpose(..., "replicate").values.reshape(-1, error.sizes["replicate"])
    )
    error = error[np.isfinite(error).any(1)]
    if not len(error):
        return np.empty(0)
    best = error[np.nanmean(error, 1).argmin()]
    return best[np.isfinite(best)]


def relative_error(ds: xr.Dataset, architecture: str, time_steps: int) -> Finding:
    """Return the error of the best learning rate over that of guessing, its geometric mean over starts."""
    if architecture not in ds["architecture"] or time_steps not in ds["time_steps"]:
        return unable("not part of this experiment")
    errors = final_errors(ds, architecture, time_steps)
    settings = json.loads(ds.attrs["settings"])
    part = ds["training_steps"].sel(architecture=architecture, time_steps=time_steps)
    scale = Scale(
        sequences=int(part.max()) * settings["batch_size"],
        width=settings["width"],
        replicates=len(errors),
        test_size=settings["test_size"],
    )
    # No network is perfect: the last digits of an error must not rule the mean of logarithms.
    return geometric_mean(np.maximum(errors / GUESS, 1e-6), scale)


def _drawn(architecture: str, time_steps: int, learned: bool):
    """Return how to draw results in which a network learns, or does not learn, against the claim."""

    def draw(rng: np.random.Generator, starts: int = 3) -> xr.Dataset:
        # Between the bounds of the two kinds of claims both are false; each start has its own luck.
        middle = rng.uniform(0.12, 1.0) if learned else rng.uniform(0.001, 0.85)
        spread = rng.uniform(0.05, 0.5)
        factors = np.exp(spread * rng.standard_normal(starts))
        return xr.Dataset(
            {
                "status": (
                    ("architecture", "time_steps", "replicate"),
                    np.zeros((1, 1, starts), int),
                ),
                "training_steps": (
                    ("architecture", "time_steps", "replicate"),
                    np.ones((1, 1, starts), int),
                ),
                "error": (
                    ("architecture", "time_steps", "replicate", "checkpoint"),
                    (GUESS * middle * factors)[None, None, :, None],
                ),
            },
            {"architecture": [architecture], "time_steps": [time_steps]},
            {"settings": json.dumps({"batch_size": 1, "width": 1, "test_size": 1})},
        )

    return draw


for _row in load_published("diss-fig-2.8").itertuples():
    judges.add(
        f"diss-2.9-{_row.architecture.replace('_', '-')}-{_row.time_steps}",
        lambda ds, name=_row.architecture, steps=_row.time_steps: relative_error(ds, name, steps),
        false=_drawn(_row.architecture, _row.time_steps, bool(_row.learned)),
    )
