"""DSA-19: nineteen daily and sports activities felt by 45 sensors worn on the body.

K. Altun, B. Barshan, O. Tuncel, *Comparative study on classifying human activities with miniature inertial and magnetic
sensors*, Pattern Recognition 2010. 9,120 segments of 125 samples. The text splits them in halves and does not say how: here
users 1 to 4 train and users 5 to 8 test.
"""

import re
from pathlib import Path

import numpy as np
import xarray as xr

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

URL = "https://archive.ics.uci.edu/static/public/256/daily+and+sports+activities.zip"
MIRRORED = (
    "dsa/dsa_every4th_segment.npz",
    "6d6904a3fc8272671f9971744b36abe6a94769d3728ab158b1ee7938b4b9c712",
)
QUARTER = "a6635bcede1cbf45bc777e5426bb00b8d5f5ad93f1c9f2eb15155f140995ac9d"
"""SHA-256 of the segments 1, 5, ..., 57 of every activity and user: the publisher states none of the archive."""
STEPS, SENSORS, ACTIVITIES, TRAIN_USERS, EVERY = 125, 45, 19, 4, 4


@source
def dsa19() -> xr.Dataset:
    """Return segments of 125 x 45, each sensor standardised over the training part."""
    if mirror() is not None:
        inputs, activity, user = _from_planes(from_mirror(*MIRRORED))
        substitute = "every fourth segment of the data set"
    else:
        archive = from_publisher(URL, None, "dsa")
        inputs, activity, user = read_or_remove(archive, _from_archive)
        substitute = ""
    train = user <= TRAIN_USERS
    inputs = (inputs - inputs[train].mean((0, 1))) / inputs[train].std((0, 1))
    return prepared_dataset(
        "dsa19",
        (inputs[train], activity[train] - 1),
        (inputs[~train], activity[~train] - 1),
        kind="series",
        source="Altun, Barshan, Tuncel: Daily and Sports Activities, UCI 2013",
        outputs=ACTIVITIES,
        substitute=substitute,
    )


def _from_planes(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Put together the four bytes of each float32, which the mirror's file stores apart."""
    raw = read_arrays(path)
    numbers = np.ascontiguousarray(np.moveaxis(raw["float32_byte_planes"], 0, -1)).view("<f4")
    inputs = numbers[..., 0].transpose(0, 2, 1)
    return inputs, raw["activity"].astype(int), raw["subject"].astype(int)


_SEGMENT = re.compile(r"(?:.*/)?a(\d+)/p(\d+)/s(\d+)\.txt")


def _from_archive(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read all segments from the publisher's zip: nothing is extracted."""
    read = {}
    for name, content in members(path, _SEGMENT.pattern):
        key = tuple(map(int, _SEGMENT.fullmatch(name).groups()))
        values = np.array(content.replace(b",", b" ").split(), np.float64)
        read[key] = values.astype(np.float32).reshape(STEPS, SENSORS)
    keys = np.array(sorted(read)).reshape(-1, 3)
    inputs = np.stack([read[tuple(key)] for key in keys.tolist()])
    check(inputs[keys[:, 2] % EVERY == 1].tobytes(), QUARTER, path.name)
    return inputs, keys[:, 0], keys[:, 1]
