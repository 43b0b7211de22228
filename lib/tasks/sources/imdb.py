"""IMDB: A. Maas et al. 2011, 25,000 + 25,000 film reviews, half of them favourable.

Free for research with citation; the reviews belong to their authors, and nothing of them is committed.
"""

import re
import tarfile
from pathlib import Path

import numpy as np
import xarray as xr

from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._fetch import from_mirror, from_publisher, mirror, unpacked
from lib.tasks.sources._registry import source
from lib.tasks.sources._text import VOCABULARY_SIZE, encode

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
ARCHIVE = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
MIRRORED = {
    "imdb/aclImdb_train.txt.gz": (
        "c691f51f7d261c9e1668b5179b7f529ec18b9fd12d81840c1045bed27155ccaf"
    ),
    "imdb/aclImdb_test.txt.gz": (
        "e0dbe478be6030ba4b73dd26d022def6adc631d127cd29bced6f61c31ab32443"
    ),
}
CLASSES = ("neg", "pos")
_MEMBER = re.compile(r"aclImdb/(?P<part>train|test)/(?P<name>(neg|pos)/\d+_\d+)\.txt")

Reviews = list[tuple[str, str]]
"""(name, text) of reviews; a name is <class>/<id>_<rating>."""


@source
def imdb() -> xr.Dataset:
    """Return the reviews as 500 tokens, the official split; class 1 is favourable."""
    train, test = read_reviews()
    tokens = encode([text for _, text in train], [text for _, text in test])
    return prepared_dataset(
        "imdb",
        (tokens[0], labels(train)),
        (tokens[1], labels(test)),
        kind="tokens",
        source="Maas et al.: Learning word vectors for sentiment analysis, ACL 2011",
        outputs=len(CLASSES),
        valid_max=VOCABULARY_SIZE - 1,
        vocabulary_size=VOCABULARY_SIZE,
    )


def read_reviews() -> tuple[Reviews, Reviews]:
    """Return the reviews for training and testing, in one order whatever the container: by class, then by number."""
    if mirror() is not None:
        train, test = (_from_lines(from_mirror(*item)) for item in MIRRORED.items())
    else:
        train, test = _from_archive(from_publisher(URL, ARCHIVE, "imdb"))
    return sorted(train, key=_class_and_number), sorted(test, key=_class_and_number)


def _from_lines(path: Path) -> Reviews:
    """Read one review a line: its name, a tab, its text (which may hold further tabs)."""
    lines = unpacked(path).decode("utf-8").removesuffix("\n").split("\n")
    return [_without_breaks(*line.split("\t", 1)) for line in lines]


def _from_archive(path: Path) -> tuple[Reviews, Reviews]:
    """Read the labelled reviews straight from the archive: nothing is extracted."""
    parts: dict[str, Reviews] = {"train": [], "test": []}
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile() and (found := _MEMBER.fullmatch(member.name)):
                text = tar.extractfile(member).read().decode("utf-8")
                parts[found["part"]].append(_without_breaks(found["name"], text))
    return parts["train"], parts["test"]


def _without_breaks(name: str, text: str) -> tuple[str, str]:
    return name, text.replace("<br />", " ")


def _class_and_number(review: tuple[str, str]) -> tuple[str, int]:
    label, rest = review[0].split("/")
    return label, int(rest.split("_")[0])


def labels(reviews: Reviews) -> np.ndarray:
    """Return 1 for a favourable review and 0 for another."""
    return np.array([CLASSES.index(name.split("/")[0]) for name, _ in reviews])
