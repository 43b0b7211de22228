"""BIDMC: windows of 32 s of a PPG and an ECG, with the heart or respiratory rate.

M. Pimentel et al., *Toward a robust estimation of respiratory rate from pulse oximeters*, IEEE
Transactions on Biomedical Engineering 2017, from PhysioNet (A. Goldberger et al. 2000), under the
Open Data Commons Attribution License.

The papers use the archive of time series regression (C. Tan et al. 2021). It has 7,949 windows for
the heart rate, and does not say how they were cut. Here a window starts every 3 s, which gives 150
per recording and 7,950 for 53 recordings. The target is the rate in the last second. It is missing
for exactly one window, which leaves 7,949. A mean over the window would be missing for 12 windows
or for none. Respiratory rates of 0 are kept.
"""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from study.tasks.formats.archives import members
from study.tasks.sources._fetch import arrays, check_contents
from study.tasks.sources._table import reader, select_splits, split_at_random, split_by_group
from study.tasks.standins.beats import beats

RATE = 125
"""Samples per second."""
SECONDS = 32
"""Length of a window."""
HOP = 3
"""Seconds from the start of one window to that of the next."""
WINDOWS = 150
"""Windows per recording."""
SUBSTITUTE = "windows cut anew from the recordings, not the file of the archive that the papers use"


@reader
def vital_sign(sign: str, by_patient: bool) -> dict:
    """Read windows of PPG and ECG, with the heart rate or the respiratory rate as the target.

    The papers split the windows at random. Since windows overlap, a test window then has most of
    its samples in common with training windows.

    Parameters
    ----------
    sign : str
        ``hr`` or ``resp_rate``.
    by_patient : bool
        Whether no patient is in two splits; else windows are split at random.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train``, ``validation`` and ``test``,
        inputs (n, 4000, 2) and rates per minute (n, 1); and ``substitute``.
    """
    inputs, targets, patient = windows(arrays("bidmc", _from_archive), sign)
    if by_patient:
        indices = split_by_group(patient)
    else:
        indices = split_at_random(len(inputs))
    return select_splits(inputs, targets, **indices) | {"substitute": SUBSTITUTE}


@reader
def beats_by_patient(patients: int, windows: int, every: int, seed: int) -> dict:
    """Draw synthetic windows with the heart rate as the target; no patient is in two splits.

    Parameters
    ----------
    patients, windows : int
        Number of patients, and of windows per patient.
    every : int
        Keep one sample in `every`.
    seed : int

    Returns
    -------
    dict
        As `vital_sign`, without ``substitute``.
    """
    inputs, targets, patient = beats(patients, windows, np.random.default_rng(seed), every)
    return select_splits(inputs, targets[:, :1], **split_by_group(patient))


def windows(raw: dict[str, np.ndarray], sign: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut recordings into windows; windows without a rate in the last second are left out.

    Parameters
    ----------
    raw : dict of str to numpy.ndarray
        Signals ``pleth`` and ``ecg_ii``, (recordings, samples), and ``hr`` and ``resp_rate``,
        (recordings, seconds).
    sign : str
        ``hr`` or ``resp_rate``.

    Returns
    -------
    inputs : numpy.ndarray
        Windows, (n, 4000, 2) float32.
    targets : numpy.ndarray
        Rate in the last second of each window, per minute, (n, 1) float32.
    patient : numpy.ndarray
        Number of the patient, (n,).
    """
    starts = HOP * np.arange(WINDOWS)
    values = raw[sign][:, starts + SECONDS - 1]
    patient, window = np.nonzero(np.isfinite(values))
    signals = np.stack([raw["pleth"], raw["ecg_ii"]], axis=2, dtype=np.float32)
    cut = sliding_window_view(signals, SECONDS * RATE, axis=1)[patient, RATE * starts[window]]
    targets = values[patient, window][:, None].astype(np.float32)
    return cut.swapaxes(1, 2), targets, patient


def _from_archive(path: Path) -> dict[str, np.ndarray]:
    """Read the recordings from PhysioNet's zip; missing rates are nan."""
    wanted = r".*/bidmc_\d\d_(Signals|Numerics)\.csv"
    columns = {"PLETH": "pleth", "II": "ecg_ii", "HR": "hr", "RESP": "resp_rate"}
    columns_of = {"Signals": ["PLETH", "II"], "Numerics": ["HR", "RESP"]}
    raw = {channel: [] for channel in columns.values()}
    for name, content in sorted(members(path, wanted)):
        table = pd.read_csv(io.BytesIO(content), skipinitialspace=True)
        table = table.apply(pd.to_numeric, errors="coerce")
        for column in columns_of[re.fullmatch(wanted, name)[1]]:
            raw[columns[column]].append(table[column].to_numpy(np.float32))
    raw = {channel: np.stack(recordings) for channel, recordings in raw.items()}
    contents = {channel: values.tobytes() for channel, values in raw.items()}
    check_contents("bidmc", contents, path.name)
    return raw
