"""Reviews as tokens: reviews of films (IMDB) and of businesses (Yelp)."""

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
"""Pairs of name and text; a name is <class>/<id>_<stars>."""


@reader
def reviews(
    vectors: bool = False,
    vocabulary_size: int = VOCABULARY_SIZE,
    length: int = LENGTH,
) -> dict:
    """Read IMDB with its official split: 25,000 + 25,000 film reviews, half of them favorable.

    Parameters
    ----------
    vectors : bool
        Whether to add GloVe's vectors of the words.
    vocabulary_size : int
        Number of token ids.
    length : int
        Tokens per review.

    Returns
    -------
    dict
        As `study.tasks.sources._tokens.encode`. Class 1 is favorable. With `vectors`, the keys of
        `study.tasks.sources._glove.glove` are added.
    """
    train, test = read_reviews()
    train_texts = [text for _, text in train]
    test_texts = [text for _, text in test]
    content = encode(
        (train_texts, labels(train)), (test_texts, labels(test)), vocabulary_size, length
    )
    if vectors:
        train_ids, _ = content["train"]
        content |= glove(vocabulary(train_texts, vocabulary_size), train_ids)
    return content


def read_reviews() -> tuple[Reviews, Reviews]:
    """Return the reviews for training and testing.

    Returns
    -------
    train, test : list of (str, str)
        Names and texts, sorted by class, then by number. The order does not depend on the archive.
    """
    splits: dict[str, Reviews] = {"train": [], "test": []}
    if mirror() is None:
        wanted = r"aclImdb/(train|test)/((?:neg|pos)/\d+_\d+)\.txt"
        for path, content in members(fetch("imdb", "aclImdb_v1.tar.gz"), wanted):
            split, name = re.fullmatch(wanted, path).groups()
            splits[split].append((name, content.decode("utf-8")))
    else:  # one review per line: its name, a tab, its text (which may contain further tabs)
        for split, split_reviews in splits.items():
            text = unpacked(fetch("imdb", f"aclImdb_{split}.txt.gz")).decode("utf-8")
            for line in text.removesuffix("\n").split("\n"):
                name, _, review = line.partition("\t")
                split_reviews.append((name, review))
    return _clean(splits["train"]), _clean(splits["test"])


def _clean(reviews: Reviews) -> Reviews:
    """Return reviews in the order of their names, with blanks instead of line breaks."""
    plain = [(name, text.replace("<br />", " ")) for name, text in reviews]
    return sorted(plain, key=_class_and_number)


def labels(reviews: Reviews) -> np.ndarray:
    """Return the class of each review.

    Parameters
    ----------
    reviews : list of (str, str)
        Names and texts.

    Returns
    -------
    numpy.ndarray
        1 for a favorable and 0 for an unfavorable review, (n,) int64.

    Examples
    --------
    >>> labels([("neg/0_2", "bad"), ("pos/17_10", "good")]).tolist()
    [0, 1]
    """
    return np.array([int(name.startswith("pos")) for name, _ in reviews])


def _class_and_number(review: tuple[str, str]) -> tuple[str, int]:
    """Return the class and the number in a review's name."""
    name, _ = review
    label, rest = name.split("/")
    number, _ = rest.split("_")
    return label, int(number)


# Yelp. The terms of the data set allow academic use and forbid redistribution, so none of it is
# committed.
YELP_ARCHIVE = "yelp_review_full_csv.tgz"
YELP_FULL = {"train": 650_000, "test": 50_000}
"""Reviews in the publisher's archive, which states no checksum."""
YELP_SMALL = (
    "{train:,} training and {test:,} test reviews of Yelp in their natural mix of stars, "
    "not the balanced 650,000 and 50,000 of yelp_review_full"
)


@reader
def yelp(vocabulary_size: int, length: int) -> dict:
    """Read reviews of businesses with one to five stars, classes 0 to 4.

    iRNN's paper uses the data set of X. Zhang, J. Zhao, Y. LeCun 2015: 650,000 + 50,000 reviews,
    equally many of each class. The mirror has fewer reviews, in their natural proportions.

    Parameters
    ----------
    vocabulary_size : int
        Number of token ids.
    length : int
        Tokens per review.

    Returns
    -------
    dict
        As `study.tasks.sources._tokens.encode`; and ``substitute`` if they come from the mirror.
    """
    if mirror() is None:
        splits = read_or_remove(fetch("yelp", YELP_ARCHIVE), _yelp_full)
        return encode(splits["train"], splits["test"], vocabulary_size, length)
    train = [*_yelp_rows("augpe_dev.csv.gz"), *_yelp_lines("academic_head.jsonl.gz")]
    test = list(_yelp_rows("augpe_test.csv.gz"))
    test_texts = {text for text, _ in test}
    train = [(text, stars) for text, stars in dict.fromkeys(train) if text not in test_texts]
    substitute = YELP_SMALL.format(train=len(train), test=len(test))
    content = encode(_texts(train), _texts(test), vocabulary_size, length)
    return content | {"substitute": substitute}


def _texts(reviews: list[tuple[str, int]]) -> Texts:
    """Return the texts of reviews, and their classes."""
    texts = [text for text, _ in reviews]
    classes = np.array([stars - 1 for _, stars in reviews])
    return texts, classes


def _yelp_rows(name: str) -> Iterator[tuple[str, int]]:
    """Yield text and stars of each row of a CSV file, which writes ``Review Stars: 5.0``."""
    content = unpacked(fetch("yelp", name)).decode("utf-8")
    for row in csv.DictReader(io.StringIO(content, newline="")):
        yield row["text"], round(float(row["label2"].removeprefix("Review Stars: ")))


def _yelp_lines(name: str) -> Iterator[tuple[str, int]]:
    """Yield text and stars of each line of a file with a JSON object per line."""
    for line in unpacked(fetch("yelp", name)).splitlines():
        review = json.loads(line)
        yield review["text"], round(review["stars"])


def _yelp_full(path: Path) -> dict[str, Texts]:
    """Read the publisher's archive: a CSV file per split with class and text in each row."""
    splits = {}
    for name, content in members(path, r"(?:.*/)?(?:train|test)\.csv"):
        rows = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
        reviews = [(text.replace("\\n", " "), int(stars)) for stars, text in rows]
        splits[Path(name).stem] = _texts(reviews)
    counts = {split: len(texts) for split, (texts, _) in sorted(splits.items())}
    if counts != dict(sorted(YELP_FULL.items())):
        raise ChecksumError(f"{path.name}: expected {YELP_FULL} reviews, got {counts}")
    return splits
