"""EigenWorms: the movement of 259 worms in six coordinates, 17,984 steps, five kinds of worm.

A. Brown et al. 2013, in the UEA archive (A. Bagnall et al. 2018). The publisher states no checksum: the first archive seen
counts from then on. Where a mirror is set and does not hold it, switching series take its place, and say so.
"""

import xarray as xr

from lib.tasks.sources._fetch import fetch_pinned, in_mirror, mirror, read_or_remove
from lib.tasks.sources._registry import source
from lib.tasks.sources._worms import CASES, LENGTH, STAND_IN, from_archive, made_up, worms

URL = "https://www.timeseriesclassification.com/aeon-toolkit/EigenWorms.zip"
PATH = "eigenworms/EigenWorms.zip"


@source
def eigenworms() -> xr.Dataset:
    """Return the series, (17984, 6), or their stand-in."""
    if mirror() is not None and not in_mirror(PATH):
        return worms("eigenworms", made_up(CASES, LENGTH), source="made up", substitute=STAND_IN)
    archive = fetch_pinned(PATH, URL)
    series = from_archive(archive) if mirror() else read_or_remove(archive, from_archive)
    return worms(
        "eigenworms",
        series,
        source="Brown et al. 2013; UEA archive, Bagnall et al. 2018",
        substitute="",
    )
