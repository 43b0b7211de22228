"""Activities from sensors on the body: HAR-2 and DSA-19."""

import re
from pathlib import Path

import numpy as np
from scipy.ndimage import median_filter
from scipy.signal import butter, sosfiltfilt

from study.tasks.formats.archives import members
from study.tasks.sources._fetch import arrays, check_contents
from study.tasks.sources._table import reader, select_splits, standardize_splits

# ------------------------------------------------------------------------------- HAR-2

RATE = 50.0
"""Samples per second."""
WINDOW = 128
"""Samples per window."""
STEP = 64
"""Samples from the start of one window to that of the next."""
NOISE_CUTOFF = 20.0
"""Cutoff frequency of the filter that removes noise, in Hz."""
GRAVITY_CUTOFF = 0.3
"""Cutoff frequency of the filter that separates gravity, in Hz."""
ORDER = 3
"""Order of these Butterworth filters."""
TEST_USERS = (2, 4, 9, 10, 12, 13, 18, 20, 24)
ACTIVITIES = 6
"""Activities 1 to 6: walking, upstairs, downstairs, sitting, standing, laying.

Higher numbers are transitions between these.
"""
CLASS_1 = (1, 3, 5)
"""Activities of class 1: walking, downstairs, standing."""


@reader
def har2() -> dict:
    """Read HAR-2: windows of 128 x 9 in two classes, split by the official test users.

    The nine signals are the body's acceleration, angular velocity and total acceleration. J.
    Reyes-Ortiz et al., *Transition-aware human activity recognition using smartphones*,
    Neurocomputing 2015. The papers use windows that were published as UCI HAR. Here windows are cut
    from the recordings that UCI HAR was made of (HAPT): 128 samples with step 64, inside each
    labeled interval of an activity, filtered as UCI HAR's description says. The classes are those
    of A. Kusupati et al., *FastGRNN*, 2018. The terms of the data set prohibit commercial use, so
    none of it is committed.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train`` and ``test``, inputs (n, 128,
        9) and classes (n,).
    """
    inputs, targets, user = windows(arrays("hapt", _recordings))
    test = np.isin(user, TEST_USERS)
    return standardize_splits(select_splits(inputs, targets, train=~test, test=test), (0, 1))


def windows(raw: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut recordings into windows, inside the labeled intervals of activities.

    Parameters
    ----------
    raw : dict of str to numpy.ndarray
        ``signals``, (samples, 6), of all recordings, acceleration before angular velocity;
        ``offsets``, (recordings + 1,), where each recording starts and the last one ends;
        ``experiment`` and ``user`` of each recording; and ``labels``, with a row per interval:
        experiment, user, activity, first and last sample, counted from 1.

    Returns
    -------
    inputs : numpy.ndarray
        Windows, (n, 128, 9).
    targets : numpy.ndarray
        Their classes, (n,).
    users : numpy.ndarray
        Their users, (n,).
    """
    inputs = []
    targets = []
    users = []
    for k, (experiment, user) in enumerate(zip(raw["experiment"], raw["user"], strict=True)):
        signals = filter_signals(raw["signals"][raw["offsets"][k] : raw["offsets"][k + 1]])
        intervals = raw["labels"][(raw["labels"][:, :2] == (experiment, user)).all(axis=1)]
        for _, _, activity, first, last in intervals[intervals[:, 2] <= ACTIVITIES]:
            for start in range(first - 1, last - WINDOW + 1, STEP):
                inputs.append(signals[start : start + WINDOW])
                targets.append(int(activity in CLASS_1))
                users.append(user)
    return np.stack(inputs), np.array(targets), np.array(users)


def filter_signals(signals: np.ndarray) -> np.ndarray:
    """Compute the nine signals of a recording from its acceleration and angular velocity.

    A median over three samples and a low-pass filter of third order at 20 Hz remove noise; a
    low-pass filter at 0.3 Hz gives gravity. The data set's description does not say whether its
    filters delay the signal; these do not.

    Parameters
    ----------
    signals : numpy.ndarray
        Total acceleration, then angular velocity, three axes each, (n, 6).

    Returns
    -------
    numpy.ndarray
        Acceleration of the body, angular velocity, total acceleration, three axes each, (n, 9).
    """
    low = median_filter(signals.astype(np.float64), (3, 1))
    low = sosfiltfilt(butter(ORDER, NOISE_CUTOFF, fs=RATE, output="sos"), low, axis=0)
    total = low[:, :3]
    angular = low[:, 3:]
    gravity = sosfiltfilt(butter(ORDER, GRAVITY_CUTOFF, fs=RATE, output="sos"), total, axis=0)
    return np.concatenate([total - gravity, angular, total], axis=1)


def _recordings(path: Path) -> dict[str, np.ndarray]:
    """Read the recordings from the publisher's zip."""
    wanted = (
        r".*RawData/(labels|(?P<sensor>acc|gyro)_exp(?P<experiment>\d+)_user(?P<user>\d+))\.txt"
    )
    sensors: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    for name, content in members(path, wanted):
        values = np.array(content.split(), np.float64)
        file = re.fullmatch(wanted, name)
        if file["sensor"]:
            recording = (int(file["experiment"]), int(file["user"]))
            sensors.setdefault(recording, {})[file["sensor"]] = values.reshape(-1, 3)
        else:
            labels = values.astype(int).reshape(-1, 5)
    recordings = [np.hstack([both["acc"], both["gyro"]]) for _, both in sorted(sensors.items())]
    signals = np.concatenate(recordings).astype(np.float32)
    check_contents("hapt", {"signals": signals.tobytes()}, path.name)
    experiment, user = np.array(sorted(sensors)).T
    offsets = np.cumsum([0, *map(len, recordings)])
    return {
        "experiment": experiment,
        "user": user,
        "labels": labels,
        "signals": signals,
        "offsets": offsets,
    }


# ------------------------------------------------------------------------------- DSA-19

STEPS = 125
"""Time steps per segment."""
SENSORS = 45
TRAIN_USERS = 4
"""Users 1 to 4 are for training, the others for testing."""
EVERY = 4
"""The mirror has every fourth segment."""


@reader
def dsa19() -> dict:
    """Read DSA-19: segments of 125 x 45, nineteen activities.

    K. Altun, B. Barshan, O. Tuncel, *Comparative study on classifying human activities with
    miniature inertial and magnetic sensors*, Pattern Recognition 2010. The paper splits the 9,120
    segments in halves and does not say how. Here users 1 to 4 are for training and users 5 to 8 for
    testing.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train`` and ``test``, inputs (n, 125,
        45) and classes (n,); and ``substitute`` if they come from the mirror.
    """
    raw = arrays("dsa", _segments)
    substitute = {}
    if "float32_byte_planes" in raw:  # the mirror stores the four bytes of each number separately
        planes = np.ascontiguousarray(np.moveaxis(raw["float32_byte_planes"], 0, -1))
        raw["inputs"] = planes.view("<f4")[..., 0].transpose(0, 2, 1)
        substitute = {"substitute": "every fourth segment of the data set"}
    targets = raw["activity"].astype(int) - 1
    test = raw["subject"] > TRAIN_USERS
    splits = select_splits(raw["inputs"], targets, train=~test, test=test)
    return standardize_splits(splits, (0, 1)) | substitute


def _segments(path: Path) -> dict[str, np.ndarray]:
    """Read all segments from the publisher's zip."""
    wanted = r"(?:.*/)?a(\d+)/p(\d+)/s(\d+)\.txt"
    segments = {}
    for name, content in members(path, wanted):
        values = np.array(content.replace(b",", b" ").split(), np.float64)
        numbers = tuple(map(int, re.fullmatch(wanted, name).groups()))
        segments[numbers] = values.astype(np.float32).reshape(STEPS, SENSORS)
    order = sorted(segments)
    inputs = np.stack([segments[numbers] for numbers in order])
    activity, subject, segment = np.array(order).T
    check_contents("dsa", {"quarter": inputs[segment % EVERY == 1].tobytes()}, path.name)
    return {"inputs": inputs, "activity": activity, "subject": subject}
