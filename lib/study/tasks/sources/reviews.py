"""Reviews as tokens: films (IMDB) and businesses (Yelp)."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from study.tasks.formats.archives import members
from study.tasks.sources._fetch import ChecksumError, fetch, mirror, read_or_remove, unpacked
from study.tasks.sources._glove import glove
from study.tasks.sources._table import reader
from study.tasks.sources._tokens import LENGTH, VOCABULARY_SIZE, Texts, encode, vocabulary

# IMDB: A. Maas et al. 2011.
Reviews = list[tuple[str, str]]
"""(name, text) of reviews; a name is <class>/<id>_<stars>."""


@reader
def reviews(
    vectors: bool = False,
    vocabulary_size: int = VOCABULARY_SIZE,
    length: int = LENGTH,
) -> dict:
    """Return 25,000 + 25,000 film reviews, the official split.

    Half of them are favorable, class 1. With `vectors` GloVe's vectors of their words come along.
    """
    train, test = read_reviews()
    train_texts = [text for _, text in train]
    test_texts = [text for _, text in test]
    settings = encode(
        (train_texts, labels(train)), (test_texts, labels(test)), vocabulary_size, length
    )
    if vectors:
        settings |= glove(vocabulary(train_texts, vocabulary_size), settings["train"][0])
    return settings


def read_reviews() -> tuple[Reviews, Reviews]:
    """Return the reviews for training and testing.

    Returns
    -------
    tuple
        Both parts, each by class, then by number, whatever the container.

    """
    parts: dict[str, Reviews] = {"train": [], "test": []}
    if mirror() is None:
        wanted = r"aclImdb/(train|test)/((?:neg|pos)/\d+_\d+)\.txt"
        for path, content in members(fetch("imdb", "aclImdb_v1.tar.gz"), wanted):
            part, name = re.fullmatch(wanted, path).groups()
            parts[part].append((name, content.decode("utf-8")))
    else:  # one review per line: its name, a tab, its text (which may hold further tabs)
        for part, read in parts.items():
            text = unpacked(fetch("imdb", f"aclImdb_{part}.txt.gz")).decode("utf-8")
            for line in text.removesuffix("\n").split("\n"):
                name, _, review = line.partition("\t")
                read.append((name, review))
    return _cleaned(parts["train"]), _cleaned(parts["test"])


def _cleaned(reviews: Reviews) -> Reviews:
    """Return reviews in the order of their names, with blanks for line breaks."""
    plain = [(name, text.replace("<br />", " ")) for name, text in reviews]
    return sorted(plain, key=_place)


def labels(reviews: Reviews) -> np.ndarray:
    """Return the class of each review.

    Parameters
    ----------
    reviews
        Names and texts.

    Returns
    -------
    numpy.ndarray
        1 for a favorable review and 0 for another, shape (n,), int64.

    Examples
    --------
    >>> labels([("neg/0_2", "bad"), ("pos/17_10", "good")]).tolist()
    [0, 1]

    """
    return np.array([int(name.startswith("pos")) for name, _ in reviews])


def _place(review: tuple[str, str]) -> tuple[str, int]:
    label, rest = review[0].split("/")
    return label, int(rest.split("_")[0])


# Yelp: the Yelp data set's terms allow academic use and forbid redistribution; none is committed.
YELP_ARCHIVE = "yelp_review_full_csv.tgz"
YELP_FULL = {"train": 650_000, "test": 50_000}
"""Reviews in the publisher's archive, which states no checksum."""
YELP_SMALL = (
    "{train:,} training and {test:,} test reviews of Yelp in their natural mix of stars, "
    "not the balanced 650,000 and 50,000 of yelp_review_full"
)


@reader
def yelp(vocabulary_size: int, length: int) -> dict:
    """Return reviews of businesses with one to five stars, classes 0 to 4.

    X. Zhang, J. Zhao, Y. LeCun 2015 made the set that iRNN's paper reads, 650,000 + 50,000 with as
    many reviews of each class. The mirror has fewer reviews in their natural mix.
    """
    if mirror() is None:
        parts = read_or_remove(fetch("yelp", YELP_ARCHIVE), _yelp_full)
        return encode(parts["train"], parts["test"], vocabulary_size, length)
    train = [*_yelp_rows("augpe_dev.csv.gz"), *_yelp_lines("academic_head.jsonl.gz")]
    test = list(_yelp_rows("augpe_test.csv.gz"))
    tested = {text for text, _ in test}
    train = [review for review in dict.fromkeys(train) if review[0] not in tested]
    about = {"substitute": YELP_SMALL.format(train=len(train), test=len(test))}
    return encode(_texts(train), _texts(test), vocabulary_size, length) | about


def _texts(reviews: list[tuple[str, int]]) -> Texts:
    return [text for text, _ in reviews], np.array([stars - 1 for _, stars in reviews])


def _yelp_rows(name: str) -> Iterator[tuple[str, int]]:
    """Give text and stars of a CSV file with a column ``Review Stars: 5.0``."""
    content = unpacked(fetch("yelp", name)).decode("utf-8")
    for row in csv.DictReader(io.StringIO(content, newline="")):
        yield row["text"], round(float(row["label2"].removeprefix("Review Stars: ")))


def _yelp_lines(name: str) -> Iterator[tuple[str, int]]:
    """Give text and stars of a file with a JSON object per line."""
    for line in unpacked(fetch("yelp", name)).splitlines():
        review = json.loads(line)
        yield review["text"], round(review["stars"])


def _yelp_full(path: Path) -> dict[str, Texts]:
    """Read the publisher's archive: class and text in a CSV file per part."""
    parts = {}
    for name, content in members(path, r"(?:.*/)?(?:train|test)\.csv"):
        rows = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
        reviews = [(text.replace("\\n", " "), int(stars)) for stars, text in rows]
        parts[Path(name).stem] = _texts(reviews)
    counts = {part: len(texts) for part, (texts, _) in sorted(parts.items())}
    if counts != dict(sorted(YELP_FULL.items())):
        raise ChecksumError(f"{path.name}: expected {YELP_FULL} reviews, got {counts}")
    return parts
