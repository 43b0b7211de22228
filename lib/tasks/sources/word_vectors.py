"""IMDB, word vectors: the reviews as the texts' programs read them, 25,000 words and vectors that their embedding starts from.

UnICORNN's program takes GloVe's vectors and draws those of unknown words from N(0, 1). The mirror has GloVe's most frequent
words alone, so what they cover is kept with the data.
"""

import io
from collections.abc import Iterable

import numpy as np

from lib.tasks.formats import FormatError
from lib.tasks.formats.archives import member
from lib.tasks.prepared import FIRST_WORD, START
from lib.tasks.sources._fetch import fetch, mirror, unpacked
from lib.tasks.sources._table import reader
from lib.tasks.sources.texts import encode, labelled, labels, read_reviews, vocabulary

MEMBER = "glove.6B.100d.txt"
WORDS, SIZE, SEED = 25_000, 100, 6


@reader
def reviews_with_vectors() -> dict:
    """Return the reviews as 500 tokens, the official split, with the vectors ``glove`` of their words."""
    train, test = read_reviews()
    texts = [text for _, text in train]
    known = vocabulary(texts, WORDS + FIRST_WORD)
    size = FIRST_WORD + len(known)
    tokens = encode(texts, [text for _, text in test], vocabulary_size=WORDS + FIRST_WORD)
    if mirror() is None:
        text = member(fetch("glove", "glove.6B.zip"), MEMBER, largest=2**30)
    else:
        text = unpacked(fetch("glove", "glove.6B.100d.top.txt.gz"))
    glove, has_one = glove_vectors(io.StringIO(text.decode("utf-8")), known)
    in_glove = np.isin(tokens[0], FIRST_WORD + np.flatnonzero(has_one))
    covered = in_glove.sum() / (tokens[0] >= START).sum()
    substitute = (
        f"GloVe's vectors for {has_one.sum():,} of {len(known):,} words, {covered:.0%} of the training tokens, "
        "and random ones for the others"
    )
    about = {"substitute": "" if has_one.all() else substitute, "vectors": {"glove": glove}}
    return labelled(tokens, (labels(train), labels(test)), size) | about


def glove_vectors(
    lines: Iterable[str], words: list[str], size: int = SIZE
) -> tuple[np.ndarray, np.ndarray]:
    """Return the embedding (3 + n, size) of the words and whether each has a vector of GloVe's, (n,) bool.

    GloVe's file has a word and its numbers a line; a line with more or fewer numbers, or something else, is a `FormatError`. Words
    without a vector get N(0, 1), filling, start and unknown words zeros.
    """
    places = {word: place for place, word in enumerate(words, FIRST_WORD)}
    shape = FIRST_WORD + len(words), size
    embedding = np.random.default_rng(SEED).standard_normal(shape, np.float32)
    embedding[:FIRST_WORD], has_one = 0, np.zeros(shape[0], bool)
    for number, line in enumerate(lines, 1):
        word, *values = line.rstrip("\n").split(" ")
        if place := places.get(word):
            try:
                embedding[place] = np.array(list(map(float, values))).reshape(size)
            except ValueError:
                raise FormatError(
                    f"{MEMBER}, line {number}: expected {size} numbers after {word!r}, got {len(values)} words; "
                    "the file is cut or has vectors of another size"
                ) from None
            has_one[place] = True
    return embedding, has_one[FIRST_WORD:]
