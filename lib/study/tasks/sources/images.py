"""Images as sequences of pixels, row by row: MNIST and Fashion MNIST in their idx format, CIFAR-10, scikit-learn's digits."""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from study.tasks.formats.archives import members
from study.tasks.prepared import Arrays
from study.tasks.sources._fetch import fetch, mirror, read_arrays, unpacked
from study.tasks.sources._table import parted, reader


@reader
def idx_images(origin: str) -> dict:
    """Return the official split, (n, T, 1) pixels."""

    def part(name: str) -> Arrays:
        images = read_idx(fetch(origin, f"{name}-images-idx3-ubyte.gz"))
        labels = read_idx(fetch(origin, f"{name}-labels-idx1-ubyte.gz"))
        return images.reshape(len(images), -1, 1), labels

    return {"train": part("train"), "test": part("t10k")}


def read_idx(path: Path) -> np.ndarray:
    """Return the array in a gzipped idx file of unsigned bytes: four bytes, the last the number of dimensions, these, the values."""
    content = unpacked(path)
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], ">u4")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


# ------------------------------------------------------------------------------- CIFAR-10

# The dissertation prints T = 1024, one input per pixel. It does not say whether the colours stay: here a pixel's red, green and
# blue are the three features of its input, p = 3.
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")
TEST = "test_batch"
PIXELS = 32 * 32


@reader
def cifar10() -> dict:
    """Return the official split, (n, 1024, 3)."""
    if mirror() is None:
        return _from_binary()
    train, test = (
        _from_jpeg(fetch("cifar10", f"cifar10_{part}_jpeg.npz")) for part in ("train", "test")
    )
    # The error was measured on the first 4,000 training images, whose exact pixels are known.
    substitute = (
        "decoded from JPEG copies of the images (mean absolute error 5.8 of 255), sorted by class"
    )
    return {"train": train, "test": test, "substitute": substitute}


def _from_binary() -> dict[str, Arrays]:
    """Read the publisher's archive: records of a label and three colour planes."""
    wanted = rf"cifar-10-batches-bin/({'|'.join((*BATCHES, TEST))})\.bin"
    archive = fetch("cifar10", "cifar-10-binary.tar.gz")
    files = {Path(name).stem: content for name, content in members(archive, wanted)}

    def part(*names: str) -> Arrays:
        content = b"".join(files[name] for name in names)
        records = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * PIXELS)
        return records[:, 1:].reshape(-1, 3, PIXELS).transpose(0, 2, 1), records[:, 0]

    return {"train": part(*BATCHES), "test": part(TEST)}


def _from_jpeg(path: Path) -> Arrays:
    file = read_arrays(path)
    streams = np.split(file["jpeg"], file["offsets"][1:-1])
    images = [np.asarray(Image.open(io.BytesIO(stream)).convert("RGB")) for stream in streams]
    return np.stack(images).reshape(len(images), PIXELS, 3), file["labels"]


# ------------------------------------------------------------------------------- digits

MNIST_LENGTH, NOISE_INPUTS = 784, 1000


@reader
def digits() -> dict:
    """Return 1,797 images of 8 x 8 pixels with 17 levels of grey, real data that need no network.

    They are the test part of E. Alpaydin's and C. Kaynak's set. Every fourth image is for testing, in the order of the file,
    in which writers follow each other. The experiment's noise is in proportion: as many inputs as 1,000 are for MNIST's 784.
    """
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.uint8)[:, :, None]
    test = np.arange(len(labels)) % 4 == 3
    noise = {"noise_inputs": round(NOISE_INPUTS * images.shape[1] / MNIST_LENGTH)}
    return parted(images, labels, train=~test, test=test) | noise
