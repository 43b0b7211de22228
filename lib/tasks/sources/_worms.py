"""EigenWorms and its stand-in: one way from a ``.ts`` or ``.arff`` file to the parts that the texts' programs use."""

import io
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import xarray as xr
from sklearn.model_selection import train_test_split

from lib.tasks.formats import FormatError
from lib.tasks.formats.archives import members
from lib.tasks.formats.series import Series, read_arff, read_ts, ts_lines
from lib.tasks.prepared import prepared_dataset
from lib.tasks.standins.switching import switching_series

READERS: dict[str, Callable[[Iterable[str], str], Series]] = {".ts": read_ts, ".arff": read_arff}
PARTS = ("EigenWorms_TRAIN", "EigenWorms_TEST")
STATE = 1234
"""The programs' ``random_state``."""
CASES, LENGTH = 259, 17_984
STAND_IN = "switching series, made up: slow turns in noisy oscillations (stand-in for EigenWorms)"


def from_archive(path: Path) -> Series:
    """Return all cases of the archive's zip, the training file's first.

    Raises
    ------
    FormatError
        The archive holds neither both ``.ts`` nor both ``.arff`` files, or a file is not as its format says.
    """
    for suffix, reader in READERS.items():
        read = {}
        for name, content in members(path, rf"(.*/)?({'|'.join(PARTS)})\{suffix}"):
            file = Path(name)
            lines = io.TextIOWrapper(io.BytesIO(content), encoding="latin-1")
            read[file.stem] = reader(lines, file.name)
        if set(read) == set(PARTS):
            train, test = (read[part] for part in PARTS)
            if train.labels != test.labels or train.inputs.shape[1:] != test.inputs.shape[1:]:
                raise FormatError(
                    f"{path.name}: training and test file differ in length, dimensions or classes"
                )
            inputs = np.concatenate([train.inputs, test.inputs])
            return Series(inputs, np.concatenate([train.targets, test.targets]), train.labels)
    raise FormatError(f"{path.name}: expected both {' and '.join(PARTS)}, as .ts or as .arff")


def made_up(size: int, time_steps: int, faster: float = 1.0) -> Series:
    """Return the stand-in, written as a ``.ts`` file and read again."""
    drawn = switching_series(size, time_steps, np.random.default_rng(STATE), faster)
    return read_ts(ts_lines(drawn, "SwitchingSeries", STAND_IN), "SwitchingSeries.ts")


def worms(name: str, series: Series, source: str, substitute: str) -> xr.Dataset:
    """Return the parts of 70, 15 and 15 per cent that the programs draw, not stratified, 181, 39 and 39 of 259."""
    inputs, rest, targets, rest_targets = train_test_split(
        series.inputs, series.targets, test_size=0.3, random_state=STATE
    )
    validation, test, validation_targets, test_targets = train_test_split(
        rest, rest_targets, test_size=0.5, random_state=STATE
    )
    return prepared_dataset(
        name,
        (inputs, targets),
        (test, test_targets),
        validation=(validation, validation_targets),
        kind="series",
        source=source,
        outputs=len(series.labels),
        substitute=substitute,
    )
