"""Images as sequences of pixels, row by row.

MNIST and Fashion MNIST in their idx format, CIFAR-10, and scikit-learn's digits.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from study.tasks.formats.archives import members
from study.tasks.formats.idx import read_idx
from study.tasks.prepared import Arrays
from study.tasks.sources._fetch import fetch, mirror, read_arrays, unpacked
from study.tasks.sources._table import parted, reader


@reader
def idx_images(origin: str) -> dict:
    """Return the official split, (n, T, 1) pixels."""

    def read(name: str) -> np.ndarray:
        return read_idx(unpacked(fetch(origin, name)), name)

    def part(name: str) -> Arrays:
        images = read(f"{name}-images-idx3-ubyte.gz")
        labels = read(f"{name}-labels-idx1-ubyte.gz")
        return Arrays(images.reshape(len(images), -1, 1), labels)

    return {"train": part("train"), "test": part("t10k")}


# CIFAR-10. The dissertation prints T = 1024, one input per pixel. It does not say whether the
# colors stay: here a pixel's red, green and blue are the three features of its input, p = 3.
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")
TEST = "test_batch"
SIDE = 32
PIXELS = SIDE * SIDE
EXACT = {"train": "cifar10_train_exact_first15000.npz", "test": "cifar10_test_exact.npz"}
WHOLE = {"train": 50_000, "test": 10_000}


@reader
def cifar10() -> dict:
    """Return the official split, (n, 1024, 3), or the part of it that the mirror has."""
    if mirror() is None:
        return _from_binary()
    parts = {part: _from_strips(fetch("cifar10", name)) for part, name in EXACT.items()}
    train, test = (len(parts[part].targets) for part in ("train", "test"))
    substitute = (
        f"{train:,} of {WHOLE['train']:,} training images and {test:,} of {WHOLE['test']:,} test "
        "images, with their exact pixels"
    )
    return parts | {"substitute": substitute}


def _from_binary() -> dict[str, Arrays]:
    """Read the publisher's archive: records of a label and three color planes."""
    wanted = rf"cifar-10-batches-bin/({'|'.join((*BATCHES, TEST))})\.bin"
    archive = fetch("cifar10", "cifar-10-binary.tar.gz")
    files = {Path(name).stem: content for name, content in members(archive, wanted)}

    def part(*names: str) -> Arrays:
        content = b"".join(files[name] for name in names)
        records = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * PIXELS)
        pixels = records[:, 1:].reshape(-1, 3, PIXELS).transpose(0, 2, 1)
        return Arrays(pixels, records[:, 0])

    return {"train": part(*BATCHES), "test": part(TEST)}


def _from_strips(path: Path) -> Arrays:
    """Read the mirror's file: images one below the other in lossless WebP pictures.

    A few images were nowhere to be had without loss; they are left out.
    """
    file = read_arrays(path)
    pictures = np.split(file["webp"], file["offsets"][1:-1])
    strips = [np.asarray(Image.open(io.BytesIO(one)).convert("RGB")) for one in pictures]
    images = np.concatenate(strips).reshape(-1, PIXELS, 3)
    return Arrays(images[file["exact"]], file["labels"][file["exact"]])


# Digits.
MNIST_LENGTH = 784
NOISE_INPUTS = 1000


@reader
def digits() -> dict:
    """Return 1,797 images of 8 x 8 pixels with 17 levels of gray, real data without a network.

    They are the test part of E. Alpaydin's and C. Kaynak's set. Every fourth image is for testing,
    in the order of the file, in which writers follow each other. The experiment's noise is in
    proportion: as many inputs as 1,000 are for MNIST's 784.
    """
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.uint8)[:, :, None]
    test = np.arange(len(labels)) % 4 == 3
    noise = {"noise_inputs": round(NOISE_INPUTS * images.shape[1] / MNIST_LENGTH)}
    return parted(images, labels, train=~test, test=test) | noise
