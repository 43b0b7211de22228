"""Switching series: 60 short ones of 1,000 steps, their turns 18 times as frequent, for runs of seconds."""

import xarray as xr

from lib.tasks.sources._registry import source
from lib.tasks.sources._worms import LENGTH, STAND_IN, made_up, worms

SIZE, STEPS = 60, 1000


@source
def switching_short() -> xr.Dataset:
    """Return the stand-in for EigenWorms at a small scale."""
    series = made_up(SIZE, STEPS, faster=round(LENGTH / STEPS))
    return worms("switching_short", series, source="made up", substitute=STAND_IN)
