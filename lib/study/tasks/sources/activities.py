"""What sensors on the body feel: HAR-2 and DSA-19."""

import re
from pathlib import Path

import numpy as np
from scipy.ndimage import median_filter
from scipy.signal import butter, sosfiltfilt

from study.tasks.formats.archives import members
from study.tasks.sources._fetch import arrays, check_contents
from study.tasks.sources._table import parted, reader, standardised

# ------------------------------------------------------------------------------- HAR-2

RATE, WINDOW, STEP = 50.0, 128, 64
NOISE_CUT, GRAVITY_CUT, ORDER = 20.0, 0.3, 3
TEST_USERS = (2, 4, 9, 10, 12, 13, 18, 20, 24)
ACTIVITIES = 6
"""Activities 1..6 are walking, upstairs, downstairs, sitting, standing, laying; the others are
transitions.
"""
SECOND = (1, 3, 5)
"""Activities of class 1: walking, downstairs, standing."""


@reader
def har2() -> dict:
    """Return windows of 128 x 9, split by the official test users.

    The nine signals are the body's acceleration, angular velocity and total acceleration. J.
    Reyes-Ortiz et al., *Transition-aware human activity recognition using smartphones*,
    Neurocomputing 2015. The texts use the windows published as UCI HAR; here they are cut anew from
    the recordings behind them (HAPT): 128 samples with step 64 inside each labelled interval of an
    activity, filtered as that set's description says. Classes as in A. Kusupati et al., *FastGRNN*,
    2018. Any commercial use is prohibited; nothing of it is committed.
    """
    inputs, targets, user = windows(arrays("hapt", _recordings))
    test = np.isin(user, TEST_USERS)
    return standardised(parted(inputs, targets, train=~test, test=test), (0, 1))


def windows(raw: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return windows (n, 128, 9), their classes (n,) and their users (n,).

    `raw` has ``signals`` (samples, 6) of all recordings, acceleration before angular velocity;
    ``offsets``, where recordings start and end; ``experiment`` and ``user`` of each; ``labels``,
    rows of experiment, user, activity, first and last sample of an interval, counted from 1.
    """
    cut = []
    for k, (experiment, user) in enumerate(zip(raw["experiment"], raw["user"], strict=True)):
        signals = filtered(raw["signals"][raw["offsets"][k] : raw["offsets"][k + 1]])
        intervals = raw["labels"][(raw["labels"][:, :2] == (experiment, user)).all(axis=1)]
        for _, _, activity, first, last in intervals[intervals[:, 2] <= ACTIVITIES]:
            starts = range(first - 1, last - WINDOW + 1, STEP)
            target = int(activity in SECOND)
            cut += [(signals[start : start + WINDOW], target, user) for start in starts]
    inputs, targets, users = zip(*cut, strict=True)
    return np.stack(inputs), np.array(targets), np.array(users)


def filtered(signals: np.ndarray) -> np.ndarray:
    """Return the nine signals of a recording: body, gyroscope and total, three axes each, (n, 9).

    A median of three samples and a low pass of third order at 20 Hz take noise away, one at 0.3 Hz
    leaves gravity. The set's description does not say whether the filters delay the signal; here
    they do not.
    """
    low = median_filter(signals.astype(np.float64), (3, 1))
    low = sosfiltfilt(butter(ORDER, NOISE_CUT, fs=RATE, output="sos"), low, axis=0)
    total, angular = low[:, :3], low[:, 3:]
    gravity = sosfiltfilt(butter(ORDER, GRAVITY_CUT, fs=RATE, output="sos"), total, axis=0)
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
            key = int(file["experiment"]), int(file["user"])
            sensors.setdefault(key, {})[file["sensor"]] = values.reshape(-1, 3)
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

STEPS, SENSORS, TRAIN_USERS, EVERY = 125, 45, 4, 4


@reader
def dsa19() -> dict:
    """Return segments of 125 x 45, nineteen activities.

    K. Altun, B. Barshan, O. Tuncel, *Comparative study on classifying human activities with
    miniature inertial and magnetic sensors*, Pattern Recognition 2010. The text splits the 9,120
    segments in halves and does not say how: here users 1 to 4 train and users 5 to 8 test.
    """
    raw, about = arrays("dsa", _segments), {}
    if "float32_byte_planes" in raw:  # the mirror's: the four bytes of each number are stored apart
        planes = np.ascontiguousarray(np.moveaxis(raw["float32_byte_planes"], 0, -1))
        raw["inputs"] = planes.view("<f4")[..., 0].transpose(0, 2, 1)
        about = {"substitute": "every fourth segment of the data set"}
    targets, test = raw["activity"].astype(int) - 1, raw["subject"] > TRAIN_USERS
    return standardised(parted(raw["inputs"], targets, train=~test, test=test), (0, 1)) | about


def _segments(path: Path) -> dict[str, np.ndarray]:
    """Read all segments from the publisher's zip."""
    wanted, read = r"(?:.*/)?a(\d+)/p(\d+)/s(\d+)\.txt", {}
    for name, content in members(path, wanted):
        values = np.array(content.replace(b",", b" ").split(), np.float64)
        key = tuple(map(int, re.fullmatch(wanted, name).groups()))
        read[key] = values.astype(np.float32).reshape(STEPS, SENSORS)
    inputs = np.stack([read[key] for key in sorted(read)])
    activity, subject, segment = np.array(sorted(read)).T
    check_contents("dsa", {"quarter": inputs[segment % EVERY == 1].tobytes()}, path.name)
    return {"inputs": inputs, "activity": activity, "subject": subject}
