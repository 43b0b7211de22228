"""BIDMC: windows of 32 s of a PPG and an ECG, and the heart or respiratory rate that goes with them.

M. Pimentel et al., *Toward a robust estimation of respiratory rate from pulse oximeters*, IEEE Transactions on Biomedical
Engineering 2017, from PhysioNet (A. Goldberger et al. 2000), under the Open Data Commons Attribution licence. The archive
of time series regression (C. Tan et al. 2021), which the texts use, holds 7,949 windows for the heart rate and does not
print how they were cut. A window every 3 s gives 150 in each of the 53 recordings, 7,950, and the rate printed for one
second at its end is missing in exactly one: so they are cut here. (A mean over the window would be missing in 12 or none.)
A respiratory rate printed as 0 stays one. Where the mirror holds the archive itself, its windows are taken for the split at
random.
"""

import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lib.tasks.formats.archives import member, members
from lib.tasks.formats.series import joined, read_ts
from lib.tasks.permutations import torch_permutation
from lib.tasks.sources._fetch import arrays, check_contents, fetch, in_mirror
from lib.tasks.sources._table import reader
from lib.tasks.standins.beats import beats

WINDOWED = "Monash_UEA_UCR_Regression_Archive.zip"
PROBLEMS = {"hr": "BIDMC32HR", "resp_rate": "BIDMC32RR"}
RATE, SECONDS, HOP, WINDOWS = 125, 32, 3, 150
SEED = 123_456
"""The generator's seed in LEM's program, which splits at random."""
SUBSTITUTE = "windows cut anew from the recordings, not the file of the archive that the texts use"

Indices = tuple[np.ndarray, ...]


@reader
def vital_sign(sign: str, by_patient: bool) -> dict:
    """Return windows (4000, 2) of PPG and ECG, and ``hr`` or ``resp_rate`` a minute.

    `by_patient`, the parts share no patient. The texts' split is at random, though windows overlap: there a test window shares
    most of its samples with training windows.
    """
    if not by_patient and in_mirror("bidmc", WINDOWED):  # it does not say whose a window is
        inputs, targets = from_windows(fetch("bidmc", WINDOWED), PROBLEMS[sign])
        return _parts(inputs, targets, split_at_random(len(inputs)))
    inputs, targets, patient = windows(arrays("bidmc", _from_archive), sign)
    indices = split_by(patient) if by_patient else split_at_random(len(inputs))
    return _parts(inputs, targets, indices) | {"substitute": SUBSTITUTE}


@reader
def beats_by_patient(patients: int, windows: int, every: int, seed: int) -> dict:
    """Return made-up windows and the heart rate a minute; no patient in two parts."""
    inputs, targets, patient = beats(patients, windows, np.random.default_rng(seed), every)
    return _parts(inputs, targets[:, :1], split_by(patient))


def _parts(inputs: np.ndarray, targets: np.ndarray, indices: Sequence[np.ndarray]) -> dict:
    names = ("train", "validation", "test")
    return {n: (inputs[which], targets[which]) for n, which in zip(names, indices, strict=True)}


def from_windows(archive: Path, problem: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows of a problem in the regression archive, (n, 4000, 2), and their values (n, 1); training file first."""
    parts = []
    for file in (f"{problem}_TRAIN.ts", f"{problem}_TEST.ts"):
        content = member(archive, f"{problem}/{file}", largest=2**30)
        parts.append(read_ts(io.StringIO(content.decode("latin-1")), file))
    both = joined(*parts, archive.name)
    return both.inputs, both.targets[:, None]


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


def split_at_random(size: int) -> Indices:
    """Return indices for training, validation and testing as LEM's program draws them: 70, 15 and 15 per cent.

    >>> [len(part) for part in split_at_random(7949)]
    [5565, 1192, 1192]
    """
    order = torch_permutation(size, SEED)
    few = round(0.15 * size)
    train, rest = order[: size - 2 * few], order[size - 2 * few :]
    rest = rest[torch_permutation(len(rest), SEED)]
    return train, rest[few:], rest[:few]


def split_by(patient: np.ndarray) -> Indices:
    """Return indices for training, validation and testing that share no patient: 70, 15 and 15 per cent of the patients."""
    patients = np.unique(patient)
    parts = (patients[part] for part in split_at_random(len(patients)))
    return tuple(np.flatnonzero(np.isin(patient, part)) for part in parts)


def _from_archive(path: Path) -> dict[str, np.ndarray]:
    """Read the recordings from PhysioNet's zip; what is not printed for a second is nan."""
    wanted = r".*/bidmc_(\d\d)_(Signals|Numerics)\.csv"
    columns = {
        "Signals": {"PLETH": "pleth", "II": "ecg_ii"},
        "Numerics": {"HR": "hr", "RESP": "resp_rate"},
    }
    read: dict[str, dict[str, np.ndarray]] = {}
    for name, content in members(path, wanted):
        patient, kind = re.fullmatch(wanted, name).groups()
        lines = content.decode("ascii").splitlines()
        head = [column.strip() for column in lines[0].split(",")]
        table = np.genfromtxt(lines[1:], delimiter=",").astype(np.float32)
        for column, channel in columns[kind].items():
            read.setdefault(channel, {})[patient] = table[:, head.index(column)]
    raw = {
        channel: np.stack([found[patient] for patient in sorted(found)])
        for channel, found in read.items()
    }
    contents = {channel: values.tobytes() for channel, values in raw.items()}
    check_contents("bidmc", contents, path.name)
    return raw
