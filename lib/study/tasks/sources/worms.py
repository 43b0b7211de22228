"""EigenWorms, its stand-in, and UCR Worms.

EigenWorms (A. Brown et al. 2013, in the UEA archive, A. Bagnall et al. 2018) has the movement of
259 worms of five kinds in six coordinates, 17,984 steps. The publisher states no checksum: the zip
file's own reveal damage, and these numbers whether it is the set. If a mirror is set and does not
have it, switching series stand in, and are named so.
"""

import io
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from study.tasks.formats import FormatError
from study.tasks.formats.archives import member
from study.tasks.formats.series import Series, read_ts, read_tsv, ts_lines
from study.tasks.sources._fetch import fetch, in_mirror, mirror, read_or_remove, unpacked
from study.tasks.sources._table import parted, reader
from study.tasks.standins.switching import switching_series

STATE = 1234
"""The programs' ``random_state``."""
CASES, LENGTH = 259, 17_984
UCR_CASES, UCR_LENGTH, UCR_TRAIN = 258, 900, 181
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


@reader
def ucr_worms() -> dict:
    """Return the UCR archive's Worms (900, 1): a relative of EigenWorms, not the set itself.

    They come from the same laboratory, strains and classes (A. Brown et al. 2013; UCR archive, H.
    Dau et al. 2018), but with the first eigenworm alone, averaged to 1 Hz and normalised per
    series.
    """
    if mirror() is None:
        series = read_or_remove(fetch("ucr_worms", "Worms.zip"), _worms_from_archive)
        train = np.arange(len(series.targets)) < UCR_TRAIN
        return parted(series.inputs, series.targets, train=train, test=~train)
    parts = {}
    for part in ("train", "test"):
        name = f"Worms_{part.upper()}.tsv.gz"
        inputs, targets = read_tsv(unpacked(fetch("ucr_worms", name)).decode("utf-8"), name)
        parts[part] = inputs, targets - 1
    return parts


def _worms_from_archive(path: Path) -> Series:
    names = ("Worms_TRAIN.ts", "Worms_TEST.ts")
    return _checked(_read_members(path, names), (UCR_CASES, UCR_LENGTH), path)


def _from_archive(path: Path) -> Series:
    """Return the cases in the publisher's zip, those of the training file first."""
    names = ("EigenWorms_TRAIN.ts", "EigenWorms_TEST.ts")
    return _checked(_read_members(path, names), (CASES, LENGTH), path)


def _read_members(path: Path, names: tuple[str, ...]) -> Series:
    return read_ts({name: io.StringIO(member(path, name).decode("latin-1")) for name in names})


def _checked(series: Series, shape: tuple[int, int], path: Path) -> Series:
    """Return series of the expected number and length; refuse others."""
    if series.inputs.shape[:2] != shape:
        raise FormatError(
            f"{path.name}: expected {shape[0]} series of {shape[1]} steps, "
            f"got {series.inputs.shape[:2]}"
        )
    return series


def _parts(series: Series) -> dict:
    """Return the parts that the papers' programs draw, not stratified: 181, 39 and 39 of 259."""
    order = np.arange(len(series.targets))
    train, rest = train_test_split(order, test_size=0.3, random_state=STATE)
    validation, test = train_test_split(rest, test_size=0.5, random_state=STATE)
    return parted(series.inputs, series.targets, train=train, validation=validation, test=test)
