"""Beats: 100 short windows of made-up pulses, the stand-in for BIDMC in runs of seconds."""

import numpy as np
import xarray as xr

from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._bidmc import split_by
from lib.tasks.sources._registry import source
from lib.tasks.standins.beats import beats

PATIENTS, WINDOWS, EVERY, SEED = 20, 5, 16, 32


@source
def beats_short() -> xr.Dataset:
    """Return made-up windows of PPG and ECG, (250, 2), and the heart rate a minute; no patient in two parts."""
    drawn = beats(PATIENTS, WINDOWS, np.random.default_rng(SEED), every=EVERY)
    train, validation, test = (
        (drawn.inputs[part], drawn.targets[part, :1]) for part in split_by(drawn.patient)
    )
    return prepared_dataset(
        "beats_short",
        train,
        test,
        validation=validation,
        kind="series",
        target="value",
        outputs=1,
        source="made up",
        substitute="beats, made up: sums of Gaussians at known rates (stand-in for BIDMC)",
    )
