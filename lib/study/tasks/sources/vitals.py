"""BIDMC: windows of 32 s of a PPG and an ECG, with the heart or respiratory rate.

M. Pimentel et al., *Toward a robust estimation of respiratory rate from pulse oximeters*, IEEE
Transactions on Biomedical Engineering 2017, from PhysioNet (A. Goldberger et al. 2000), under the
Open Data Commons Attribution licence. The archive of time series regression (C. Tan et al. 2021),
which the papers use, holds 7,949 windows for the heart rate and does not print how they were cut. A
window every 3 s gives 150 in each of the 53 recordings, 7,950, and the rate printed for one second
at its end is missing in exactly one: so they are cut here. (A mean over the window would be missing
in 12 or none.) A respiratory rate printed as 0 stays one.
"""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from study.tasks.formats.archives import members
from study.tasks.sources._fetch import arrays, check_contents
from study.tasks.sources._table import parted, reader, split_at_random, split_by
from study.tasks.standins.beats import beats

RATE, SECONDS, HOP, WINDOWS = 125, 32, 3, 150
SUBSTITUTE = "windows cut anew from the recordings, not the file of the archive that the texts use"


@reader
def vital_sign(sign: str, by_patient: bool) -> dict:
    """Return windows (4000, 2) of PPG and ECG, and ``hr`` or ``resp_rate`` a minute.

    `by_patient`, the parts share no patient. The texts' split is at random, though windows overlap:
    there a test window shares most of its samples with training windows.
    """
    inputs, targets, patient = windows(arrays("bidmc", _from_archive), sign)
    indices = split_by(patient) if by_patient else split_at_random(len(inputs))
    return parted(inputs, targets, **indices) | {"substitute": SUBSTITUTE}


@reader
def beats_by_patient(patients: int, windows: int, every: int, seed: int) -> dict:
    """Return made-up windows and the heart rate a minute; no patient in two parts."""
    inputs, targets, patient = beats(patients, windows, np.random.default_rng(seed), every)
    return parted(inputs, targets[:, :1], **split_by(patient))


def windows(raw: dict[str, np.ndarray], sign: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut recordings into windows; one without a value at its end is left out.

    Parameters
    ----------
    raw
        Signals and values per second, by channel.
    sign
        ``hr`` or ``resp_rate``.

    Returns
    -------
    tuple of numpy.ndarray
        Windows (n, 4000, 2), the sign's value at the end of each (n, 1), and patients (n,).
    """
    starts = HOP * np.arange(WINDOWS)
    values = raw[sign][:, starts + SECONDS - 1]
    patient, window = np.nonzero(np.isfinite(values))
    signals = np.stack([raw["pleth"], raw["ecg_ii"]], axis=2, dtype=np.float32)
    cut = sliding_window_view(signals, SECONDS * RATE, axis=1)[patient, RATE * starts[window]]
    return cut.swapaxes(1, 2), values[patient, window][:, None].astype(np.float32), patient


def _from_archive(path: Path) -> dict[str, np.ndarray]:
    """Read the recordings from PhysioNet's zip; what is not printed for a second is nan."""
    wanted = r".*/bidmc_\d\d_(Signals|Numerics)\.csv"
    columns = {"PLETH": "pleth", "II": "ecg_ii", "HR": "hr", "RESP": "resp_rate"}
    of_file = {"Signals": ["PLETH", "II"], "Numerics": ["HR", "RESP"]}
    raw = {channel: [] for channel in columns.values()}
    for name, content in sorted(members(path, wanted)):
        table = pd.read_csv(io.BytesIO(content), skipinitialspace=True)
        table = table.apply(pd.to_numeric, errors="coerce")
        for column in of_file[re.fullmatch(wanted, name)[1]]:
            raw[columns[column]].append(table[column].to_numpy(np.float32))
    raw = {channel: np.stack(recordings) for channel, recordings in raw.items()}
    contents = {channel: values.tobytes() for channel, values in raw.items()}
    check_contents("bidmc", contents, path.name)
    return raw
