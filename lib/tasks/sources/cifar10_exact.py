"""CIFAR-10, exact part: the 8,068 + 1,017 images whose exact pixels can be had without the publisher's archive.

They are the first 4,000 images of the publisher's first file and the first 1,017 of each of the other five, so the set is
the same whether it comes from the archive or from the mirror.
"""

import numpy as np
import xarray as xr

from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._fetch import from_mirror, from_publisher, mirror, read_arrays
from lib.tasks.sources._registry import source
from lib.tasks.sources.cifar10 import ARCHIVE, SIDE, TEST, TRAIN, URL, from_binary

FIRST = (
    "cifar10/cifar10_train_first4000_exact.npz",
    "a1831977cb3356a5f585d16776915beee797caa550f0f93610008f508b30c798",
)
HEADS = (
    "cifar10/cifar10_heads_exact.npz",
    "e0d43ef38b6128c3baf6089c04b440c92fa88287ca9b8568fba39504315526e2",
)
FIRST_OF_ONE, FIRST_OF_OTHERS, A_FILE = 4000, 1017, 10_000


@source
def cifar10_exact() -> xr.Dataset:
    """Return the images as sequences of 1,024 pixels, row by row, in the publisher's order."""
    heads = (np.arange(FIRST_OF_OTHERS) + A_FILE * k for k in range(1, len(TRAIN)))
    chosen = np.concatenate([np.arange(FIRST_OF_ONE), *heads])
    if mirror() is not None:
        first, others = (read_arrays(from_mirror(*item)) for item in (FIRST, HEADS))
        train = (
            np.concatenate([first["images"], others["train_images"]]),
            others["train_labels_all"][chosen],
        )
        test = others["test_images"], others["test_labels_all"][:FIRST_OF_OTHERS]
    else:
        archive = from_publisher(URL, ARCHIVE, "cifar10")
        train, test = from_binary(archive, TRAIN), from_binary(archive, TEST)
        train = train[0][chosen], train[1][chosen]
        test = test[0][:FIRST_OF_OTHERS], test[1][:FIRST_OF_OTHERS]
    return prepared_dataset(
        "cifar10_exact",
        *((images.reshape(-1, SIDE * SIDE, 3), labels) for images, labels in (train, test)),
        kind="pixels",
        source="Krizhevsky: Learning multiple layers of features from tiny images, 2009",
        outputs=10,
        valid_max=255,
        substitute="8,068 of the 50,000 training and 1,017 of the 10,000 test images",
    )
