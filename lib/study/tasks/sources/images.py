"""Images as sequences of pixels, row by row: MNIST, Fashion MNIST, CIFAR-10, and digits."""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from study.tasks.formats.archives import members
from study.tasks.formats.idx import read_idx
from study.tasks.prepared import RawSplit
from study.tasks.sources._fetch import fetch, mirror, read_arrays, unpacked
from study.tasks.sources._table import reader, select_splits


@reader
def idx_images(origin: str) -> dict:
    """Read MNIST or Fashion MNIST with their official splits.

    Parameters
    ----------
    origin : str
        ``mnist`` or ``fashion_mnist``.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train`` and ``test``, pixels (n, 784,
        1) and classes (n,).
    """

    def read(name: str) -> np.ndarray:
        return read_idx(unpacked(fetch(origin, name)), name)

    def read_split(name: str) -> RawSplit:
        images = read(f"{name}-images-idx3-ubyte.gz")
        labels = read(f"{name}-labels-idx1-ubyte.gz")
        return RawSplit(images.reshape(len(images), -1, 1), labels)

    return {"train": read_split("train"), "test": read_split("t10k")}


# CIFAR-10. The dissertation prints T = 1024, one input per pixel. It does not say whether the
# colors stay: here a pixel's red, green and blue are the three features of its input, p = 3.
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")
TEST = "test_batch"
SIDE = 32
PIXELS = SIDE * SIDE
EXACT = {"train": "cifar10_train_exact_first15000.npz", "test": "cifar10_test_exact.npz"}
"""The mirror's files."""
OFFICIAL_SIZES = {"train": 50_000, "test": 10_000}


@reader
def cifar10() -> dict:
    """Read CIFAR-10 with its official splits, or the part of them that the mirror has.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train`` and ``test``, pixels (n,
        1024, 3) and classes (n,); and ``substitute`` if they come from the mirror.
    """
    if mirror() is None:
        return _from_binary()
    splits = {split: _from_strips(fetch("cifar10", name)) for split, name in EXACT.items()}
    train_size = len(splits["train"].targets)
    test_size = len(splits["test"].targets)
    substitute = (
        f"{train_size:,} of {OFFICIAL_SIZES['train']:,} training images and {test_size:,} of "
        f"{OFFICIAL_SIZES['test']:,} test images, with their exact pixels"
    )
    return splits | {"substitute": substitute}


def _from_binary() -> dict[str, RawSplit]:
    """Read the publisher's archive: records of a label and three color planes."""
    wanted = rf"cifar-10-batches-bin/({'|'.join((*BATCHES, TEST))})\.bin"
    archive = fetch("cifar10", "cifar-10-binary.tar.gz")
    files = {Path(name).stem: content for name, content in members(archive, wanted)}

    def read_split(*names: str) -> RawSplit:
        content = b"".join(files[name] for name in names)
        records = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * PIXELS)
        pixels = records[:, 1:].reshape(-1, 3, PIXELS).transpose(0, 2, 1)
        return RawSplit(pixels, records[:, 0])

    return {"train": read_split(*BATCHES), "test": read_split(TEST)}


def _from_strips(path: Path) -> RawSplit:
    """Read the mirror's file: lossless WebP pictures, each with images one below the other.

    A few images are only available with lossy compression; they are left out.
    """
    file = read_arrays(path)
    strips = []
    for picture in np.split(file["webp"], file["offsets"][1:-1]):
        strips.append(np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")))
    images = np.concatenate(strips).reshape(-1, PIXELS, 3)
    return RawSplit(images[file["exact"]], file["labels"][file["exact"]])


# Digits.
MNIST_LENGTH = 784
NOISE_INPUTS = 1000


@reader
def digits() -> dict:
    """Read scikit-learn's digits: 1,797 images of 8 x 8 pixels with 17 gray levels, offline.

    They are the test set of E. Alpaydin and C. Kaynak. The file is sorted by writer, and every
    fourth image is for testing, so all writers are in both splits. The noise has 82 inputs, the
    same number per pixel as 1,000 inputs for MNIST's 784 pixels.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train`` and ``test``, pixels (n, 64,
        1) and classes (n,); and ``noise_inputs``.
    """
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.uint8)[:, :, None]
    test = np.arange(len(labels)) % 4 == 3
    noise = {"noise_inputs": round(NOISE_INPUTS * images.shape[1] / MNIST_LENGTH)}
    return select_splits(images, labels, train=~test, test=test) | noise
