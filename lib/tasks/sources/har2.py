"""HAR-2: which of two kinds of activity a smartphone felt, cut from the raw recordings of HAPT.

J. Reyes-Ortiz, L. Oneto, A. Sama, X. Parra, D. Anguita, *Transition-aware human activity recognition using smartphones*,
Neurocomputing 2015. The texts use the windows published as UCI HAR; here they are cut anew from the recordings behind them:
128 samples with step 64 inside each labelled interval of an activity, filtered as that set's description says. Classes as in
A. Kusupati et al., *FastGRNN*, 2018. Any commercial use is prohibited; nothing of it is committed.
"""

import re
from pathlib import Path

import numpy as np
import xarray as xr
from scipy.ndimage import median_filter
from scipy.signal import butter, sosfiltfilt

from lib.tasks.formats.archives import members
from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._fetch import (
    check,
    from_mirror,
    from_publisher,
    mirror,
    read_arrays,
    read_or_remove,
)
from lib.tasks.sources._registry import source

URL = (
    "https://archive.ics.uci.edu/static/public/341/"
    "smartphone+based+recognition+of+human+activities+and+postural+transitions.zip"
)
MIRRORED = (
    "hapt/hapt_raw.npz",
    "571f39936ff275b00bad673dd8b2480117b1e19d5ceabee3e401919682a2ea46",
)
SIGNALS = "42c58204afb2faa0f7d65e42a45006b669c07a7adbbf7b0b2a6d27de5c53879a"
"""SHA-256 of all samples: the publisher states none of the archive."""

RATE, WINDOW, STEP = 50.0, 128, 64
NOISE_CUT, GRAVITY_CUT, ORDER = 20.0, 0.3, 3
TEST_USERS = (2, 4, 9, 10, 12, 13, 18, 20, 24)
ACTIVITIES = 6
"""Activities 1..6 are walking, upstairs, downstairs, sitting, standing, laying; the others are transitions."""
SECOND = (1, 3, 5)
"""Activities of class 1: walking, downstairs, standing."""


@source
def har2() -> xr.Dataset:
    """Return windows of 128 x 9: acceleration of the body, angular velocity, whole acceleration; the official test users."""
    raw = (
        read_arrays(from_mirror(*MIRRORED))
        if mirror()
        else read_or_remove(from_publisher(URL, None, "hapt"), _from_archive)
    )
    inputs, targets, user = windows(raw)
    test = np.isin(user, TEST_USERS)
    train_inputs = inputs[~test]
    inputs = (inputs - train_inputs.mean((0, 1))) / train_inputs.std((0, 1))
    return prepared_dataset(
        "har2",
        (inputs[~test], targets[~test]),
        (inputs[test], targets[test]),
        kind="series",
        source="Reyes-Ortiz et al.: Transition-aware human activity recognition using smartphones, 2015",
        outputs=2,
        substitute="windows cut anew from the raw recordings (HAPT), not the published windows of UCI HAR",
    )


def windows(raw: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return windows (n, 128, 9), their classes (n,) and their users (n,).

    Parameters
    ----------
    raw
        ``signals`` (samples, 6) of all recordings, acceleration before angular velocity; ``offsets``, where recordings start
        and end; ``experiment`` and ``user`` of each; ``labels``, rows of experiment, user, activity, first and last sample of
        an interval, counted from 1.
    """
    inputs, targets, users = [], [], []
    for k, (experiment, user) in enumerate(zip(raw["experiment"], raw["user"], strict=True)):
        signals = filtered(raw["signals"][raw["offsets"][k] : raw["offsets"][k + 1]])
        mine = raw["labels"][(raw["labels"][:, :2] == (experiment, user)).all(axis=1)]
        for _, _, activity, first, last in mine:
            if activity > ACTIVITIES:
                continue
            for start in range(first - 1, last - WINDOW + 1, STEP):
                inputs.append(signals[start : start + WINDOW])
                targets.append(int(activity in SECOND))
                users.append(user)
    return np.stack(inputs), np.array(targets), np.array(users)


def filtered(signals: np.ndarray) -> np.ndarray:
    """Return nine signals of a recording of six, (n, 9): body, gyroscope and total, three axes each.

    A median of three samples and a low pass of third order at 20 Hz take noise away, one at 0.3 Hz leaves gravity. The set's
    description does not say whether the filters delay the signal; here they do not.
    """
    low = median_filter(signals.astype(np.float64), (3, 1))
    low = sosfiltfilt(butter(ORDER, NOISE_CUT, fs=RATE, output="sos"), low, axis=0)
    total, angular = low[:, :3], low[:, 3:]
    gravity = sosfiltfilt(butter(ORDER, GRAVITY_CUT, fs=RATE, output="sos"), total, axis=0)
    return np.concatenate([total - gravity, angular, total], axis=1)


_RECORDING = re.compile(r".*/(?P<sensor>acc|gyro)_exp(?P<experiment>\d+)_user(?P<user>\d+)\.txt")


def _from_archive(path: Path) -> dict[str, np.ndarray]:
    """Read the recordings from the publisher's zip: nothing is extracted."""
    sensors: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    labels = None
    for name, content in members(path, r".*RawData/(labels|(acc|gyro)_exp\d+_user\d+)\.txt"):
        values = np.array(content.split(), np.float64)
        if found := _RECORDING.fullmatch(name):
            key = int(found["experiment"]), int(found["user"])
            sensors.setdefault(key, {})[found["sensor"]] = values.reshape(-1, 3)
        else:
            labels = values.astype(int).reshape(-1, 5)
    recordings = {
        key: np.hstack([both["acc"], both["gyro"]]) for key, both in sorted(sensors.items())
    }
    signals = np.concatenate([*recordings.values()]).astype(np.float32)
    check(signals.tobytes(), SIGNALS, path.name)
    experiment, user = np.array([*recordings]).T
    offsets = np.cumsum([0, *map(len, recordings.values())])
    return {
        "signals": signals,
        "offsets": offsets,
        "experiment": experiment,
        "user": user,
        "labels": labels,
    }
