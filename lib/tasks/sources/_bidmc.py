"""BIDMC: windows of 32 s of a PPG and an ECG, and the heart or respiratory rate that goes with them.

M. Pimentel et al., *Toward a robust estimation of respiratory rate from pulse oximeters*, IEEE Transactions on Biomedical
Engineering 2017, from PhysioNet (A. Goldberger et al. 2000), under the Open Data Commons Attribution licence. The archive
of time series regression (C. Tan et al. 2021), which the texts use, holds 7,949 windows for the heart rate and does not
print how they were cut. A window every 3 s gives 150 in each of the 53 recordings, 7,950, and the rate printed for one
second at its end is missing in exactly one: so they are cut here. (A mean over the window would be missing in 12 or none.)
A respiratory rate printed as 0 stays one. Where the mirror holds the archive itself, its windows are taken for the split at
random.
"""

import csv
import io
import re
from pathlib import Path

import numpy as np
import xarray as xr

from lib.tasks.formats.archives import member, members
from lib.tasks.formats.series import read_ts
from lib.tasks.permutations import torch_permutation
from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._fetch import (
    check,
    fetch_pinned,
    from_mirror,
    from_publisher,
    in_mirror,
    mirror,
    read_arrays,
    read_or_remove,
)

URL = "https://physionet.org/static/published-projects/bidmc/bidmc-ppg-and-respiration-dataset-1.0.0.zip"
MIRRORED = (
    "bidmc/bidmc_53x480s.npz",
    "7045bc4a54af6964688728bf0119e0f424b4c06708868a5d8aa124e5985f5ff5",
)
SHA256 = {
    "pleth": "d0976f2e9a47cd93937e62e20706831ee25bf505401afa77c58c7385a9986d53",
    "ecg_ii": "a2b0dfb1c73f709da8ffb8bf991130589a4b95d053a7bccc216a183c400e4eee",
    "hr": "c2b16fa3346b08de269e1d6c0d2937d05e51f5fb80a5b2c73630cc034129af06",
    "resp_rate": "f46740697991c6aef4d76bc1ff8e19e882909b018ab9df1f5eb56b6fc860cf3e",
}
"""SHA-256 of the numbers of each channel, all recordings: what is read from the publisher must equal them."""

WINDOWED = "bidmc/Monash_UEA_UCR_Regression_Archive.zip"
"""The archive of time series regression in the mirror; no checksum of it is published."""
PROBLEMS = {"hr": "BIDMC32HR", "resp_rate": "BIDMC32RR"}

RATE, SECONDS, HOP, WINDOWS = 125, 32, 3, 150
SEED = 123_456
"""The generator's seed in LEM's program, which splits at random."""
SUBSTITUTE = "windows cut anew from the recordings, not the file of the archive that the texts use"


def vital_sign(name: str, sign: str, by_patient: bool) -> xr.Dataset:
    """Return the windows with one vital sign, in one of two splits.

    Parameters
    ----------
    name
        The data set's name.
    sign
        ``hr`` or ``resp_rate``, a minute.
    by_patient
        Whether the parts share no patient. The texts' split is at random, though windows overlap: there a test window
        shares most of its samples with training windows.
    """
    if not by_patient and in_mirror(WINDOWED):  # the archive does not say whose a window is
        inputs, targets = from_windows(fetch_pinned(WINDOWED, ""), PROBLEMS[sign])
        parts, substitute = split_at_random(len(inputs)), ""
    else:
        inputs, targets, patient = windows(_recordings(), sign)
        parts = split_by(patient) if by_patient else split_at_random(len(inputs))
        substitute = SUBSTITUTE
    train, validation, test = ((inputs[part], targets[part]) for part in parts)
    return prepared_dataset(
        name,
        train,
        test,
        validation=validation,
        kind="series",
        target="value",
        outputs=1,
        source="Pimentel et al.: BIDMC PPG and Respiration Dataset, PhysioNet 2017",
        substitute=substitute,
    )


def from_windows(archive: Path, problem: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows of a problem in the regression archive, (n, 4000, 2), and their values (n, 1); training file first."""
    parts = []
    for part in ("TRAIN", "TEST"):
        file = f"{problem}_{part}.ts"
        content = member(archive, f"{problem}/{file}", largest=2**30)
        parts.append(read_ts(io.TextIOWrapper(io.BytesIO(content), encoding="latin-1"), file))
    return (
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.targets for part in parts])[:, None],
    )


def _recordings() -> dict[str, np.ndarray]:
    if mirror() is not None:
        return read_arrays(from_mirror(*MIRRORED))
    return read_or_remove(from_publisher(URL, None, "bidmc"), _from_archive)


def windows(raw: dict[str, np.ndarray], sign: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return windows (n, 4000, 2), the sign's value at the end of each (n, 1), and patients (n,); without a value, no window."""
    starts = HOP * np.arange(WINDOWS)
    values = raw[sign][:, starts + SECONDS - 1]
    patient, window = np.nonzero(np.isfinite(values))
    inputs = np.empty((len(patient), SECONDS * RATE, 2), np.float32)
    for k, (who, start) in enumerate(zip(patient, RATE * starts[window], strict=True)):
        for channel, signal in enumerate((raw["pleth"], raw["ecg_ii"])):
            inputs[k, :, channel] = signal[who, start : start + SECONDS * RATE]
    return inputs, values[patient, window][:, None].astype(np.float32), patient


def split_at_random(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indices for training, validation and testing as LEM's program draws them: 70, 15 and 15 per cent.

    >>> [len(part) for part in split_at_random(7949)]
    [5565, 1192, 1192]
    """
    order = torch_permutation(size, SEED)
    few = round(0.15 * size)
    train, rest = order[: size - 2 * few], order[size - 2 * few :]
    rest = rest[torch_permutation(len(rest), SEED)]
    return train, rest[few:], rest[:few]


def split_by(patient: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indices for training, validation and testing that share no patient: 70, 15 and 15 per cent of the patients."""
    patients = np.unique(patient)
    train, validation, test = (patients[part] for part in split_at_random(len(patients)))
    return tuple(np.flatnonzero(np.isin(patient, part)) for part in (train, validation, test))


_COLUMNS = {"PLETH": "pleth", "II": "ecg_ii", "HR": "hr", "RESP": "resp_rate"}
_FILE = re.compile(r".*/bidmc_(\d\d)_(Signals|Numerics)\.csv")


def _from_archive(path: Path) -> dict[str, np.ndarray]:
    """Read the recordings from PhysioNet's zip: nothing is extracted."""
    channels: dict[str, dict[str, list]] = {channel: {} for channel in SHA256}
    for name, content in members(path, _FILE.pattern):
        patient, kind = _FILE.fullmatch(name).groups()
        head, *rows = csv.reader(io.StringIO(content.decode("ascii")))
        head = [column.strip() for column in head]
        wanted = ("PLETH", "II") if kind == "Signals" else ("HR", "RESP")
        for column in wanted:
            place = head.index(column)
            channels[_COLUMNS[column]][patient] = [_number(row[place]) for row in rows]
    raw = {
        channel: np.array([values for _, values in sorted(by_patient.items())], np.float32)
        for channel, by_patient in channels.items()
    }
    for channel, values in raw.items():
        check(values.tobytes(), SHA256[channel], f"{path.name}, {channel}")
    return raw


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # not printed for this second
        return float("nan")
