"""EigenWorms and its stand-in: one way from a ``.ts`` file to the parts that the texts' programs use.

A. Brown et al. 2013, in the UEA archive (A. Bagnall et al. 2018): the movement of 259 worms in six coordinates, 17,984 steps,
five kinds of worm. The publisher states no checksum: the zip file's own tell damage, and these numbers whether it is the set. Where a
mirror is set and does not hold it, switching series take its place, and say so.
"""

import io
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from study.tasks.formats import FormatError
from study.tasks.formats.archives import member
from study.tasks.formats.series import Series, read_ts, ts_lines
from study.tasks.sources._fetch import fetch, in_mirror, mirror, read_or_remove
from study.tasks.sources._table import parted, reader
from study.tasks.standins.switching import switching_series

STATE = 1234
"""The programs' ``random_state``."""
CASES, LENGTH = 259, 17_984
STAND_IN = "switching series, made up: slow turns in noisy oscillations (stand-in for EigenWorms)"


@reader
def worms() -> dict:
    """Return the series, (17984, 6), or their stand-in."""
    if mirror() is not None and not in_mirror("eigenworms", "EigenWorms.zip"):
        return switching(CASES, LENGTH)
    return _parts(read_or_remove(fetch("eigenworms", "EigenWorms.zip"), _from_archive))


@reader
def switching(size: int, time_steps: int, faster: float = 1.0) -> dict:
    """Return the stand-in, written as a ``.ts`` file and read again."""
    drawn = switching_series(size, time_steps, np.random.default_rng(STATE), faster)
    again = read_ts({"SwitchingSeries.ts": ts_lines(drawn)})
    return _parts(again) | {"source": "made up", "substitute": STAND_IN}


def _from_archive(path: Path) -> Series:
    """Return the cases in the publisher's zip, those of the training file first."""
    names = ("EigenWorms_TRAIN.ts", "EigenWorms_TEST.ts")
    series = read_ts({name: io.StringIO(member(path, name).decode("latin-1")) for name in names})
    if series.inputs.shape[:2] != (CASES, LENGTH):
        raise FormatError(
            f"{path.name}: expected {CASES} series of {LENGTH} steps, got {series.inputs.shape[:2]}"
        )
    return series


def _parts(series: Series) -> dict:
    """Return the parts of 70, 15 and 15 per cent that the programs draw, not stratified, 181, 39 and 39 of 259."""
    order = np.arange(len(series.targets))
    train, rest = train_test_split(order, test_size=0.3, random_state=STATE)
    validation, test = train_test_split(rest, test_size=0.5, random_state=STATE)
    return parted(series.inputs, series.targets, train=train, validation=validation, test=test)
