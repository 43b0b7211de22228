"""EigenWorms, its stand-in, and UCR Worms.

EigenWorms (A. Brown et al. 2013, in the UEA archive, A. Bagnall et al. 2018) has the movement of
259 worms of five kinds in six coordinates, 17,984 steps. The publisher states no checksum. But the
checksums inside the zip file reveal damage, and the numbers of series and steps reveal a different
data set. If a mirror is set but does not have the file, switching series replace the data, and the
prepared data set says so.
"""

import io
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from study.tasks.formats import FormatError
from study.tasks.formats.archives import member
from study.tasks.formats.series import Series, read_ts, read_tsv, ts_lines
from study.tasks.prepared import RawSplit
from study.tasks.sources._fetch import fetch, in_mirror, mirror, read_or_remove, unpacked
from study.tasks.sources._table import reader, select_splits
from study.tasks.standins.switching import switching_series

STATE = 1234
"""``random_state`` in the papers' programs."""
SHAPE = (259, 17_984)
"""Number and length of the series of EigenWorms."""
UCR_SHAPE = (258, 900)
"""Number and length of the series of UCR Worms."""
UCR_TRAIN = 181
"""Number of training series of UCR Worms."""
STAND_IN = "switching series, made up: slow turns in noisy oscillations (stand-in for EigenWorms)"


@reader
def worms() -> dict:
    """Read EigenWorms, or draw its stand-in.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train``, ``validation`` and ``test``,
        inputs (n, 17984, 6) and classes (n,); and ``substitute`` if it is the stand-in.
    """
    if mirror() is not None and not in_mirror("eigenworms", "EigenWorms.zip"):
        return switching(*SHAPE)
    return _split(read_or_remove(fetch("eigenworms", "EigenWorms.zip"), _from_archive))


@reader
def switching(size: int, time_steps: int, faster: float = 1.0) -> dict:
    """Draw the stand-in, which is written as a ``.ts`` file and read by the same code.

    Parameters
    ----------
    size : int
        Number of series.
    time_steps : int
        Length of a series.
    faster : float
        Factor of all rates of turns, see `study.tasks.standins.switching.switching_series`.

    Returns
    -------
    dict
        As `worms`.
    """
    drawn = switching_series(size, time_steps, np.random.default_rng(STATE), faster)
    series = read_ts({"SwitchingSeries.ts": ts_lines(drawn)})
    return _split(series) | {"source": "made up", "substitute": STAND_IN}


@reader
def ucr_worms() -> dict:
    """Read the UCR archive's Worms, which is related to EigenWorms but not the same data set.

    Laboratory, strains and classes are the same (A. Brown et al. 2013; UCR archive, H. Dau et al.
    2018), but there is only the first eigenworm, averaged to 1 Hz and normalized per series.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train`` and ``test``, inputs (n, 900,
        1) and classes (n,).
    """
    if mirror() is None:
        series = read_or_remove(fetch("ucr_worms", "Worms.zip"), _worms_from_archive)
        train = np.arange(len(series.targets)) < UCR_TRAIN
        return select_splits(series.inputs, series.targets, train=train, test=~train)
    splits = {}
    for split in ("train", "test"):
        name = f"Worms_{split.upper()}.tsv.gz"
        inputs, targets = read_tsv(unpacked(fetch("ucr_worms", name)).decode("utf-8"), name)
        splits[split] = RawSplit(inputs, targets - 1)
    return splits


def _worms_from_archive(path: Path) -> Series:
    """Return the series in the zip of UCR Worms, those of the training file first."""
    names = ("Worms_TRAIN.ts", "Worms_TEST.ts")
    return _checked(_read_members(path, names), UCR_SHAPE, path)


def _from_archive(path: Path) -> Series:
    """Return the series in the publisher's zip, those of the training file first."""
    names = ("EigenWorms_TRAIN.ts", "EigenWorms_TEST.ts")
    return _checked(_read_members(path, names), SHAPE, path)


def _read_members(path: Path, names: tuple[str, ...]) -> Series:
    """Read ``.ts`` files from a zip, one after the other."""
    return read_ts({name: io.StringIO(member(path, name).decode("latin-1")) for name in names})


def _checked(series: Series, shape: tuple[int, int], path: Path) -> Series:
    """Return the series if their number and length are as expected; refuse others."""
    if series.inputs.shape[:2] != shape:
        raise FormatError(
            f"{path.name}: expected {shape[0]} series of {shape[1]} steps, "
            f"got {series.inputs.shape[:2]}"
        )
    return series


def _split(series: Series) -> dict[str, RawSplit]:
    """Split as the papers' programs do, without stratification: 181, 39 and 39 of 259 series."""
    order = np.arange(len(series.targets))
    train, rest = train_test_split(order, test_size=0.3, random_state=STATE)
    validation, test = train_test_split(rest, test_size=0.5, random_state=STATE)
    return select_splits(
        series.inputs, series.targets, train=train, validation=validation, test=test
    )
