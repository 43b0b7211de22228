"""GloVe's word vectors (J. Pennington, R. Socher, C. Manning 2014) for the words of a vocabulary.

UnICORNN's program takes GloVe's vectors of 100 numbers and draws those of unknown words from
N(0, 1). The mirror has the head of these, and the vectors of 50 numbers for nearly all words of
IMDB; so both come along, and how much they cover is kept with the data.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from study.tasks.formats.archives import member
from study.tasks.prepared import FIRST_WORD, START
from study.tasks.sources._fetch import fetch, mirror, read_arrays, unpacked

ARCHIVE = "glove.6B.zip"
HEAD = "glove.6B.100d.top.txt.gz"
SELECTION = "glove.6B.50d.sub.npz"
SIZES = {"glove": 100, "glove_50": 50}
"""Numbers of a vector, by the name of the set in a prepared data set."""
SEED = 6

Lines = Iterable[tuple[str, Sequence]]
"""Words and their vectors, as numbers or as text."""


def glove(known: list[str], tokens: np.ndarray) -> dict:
    """Return the vectors of a vocabulary, and how much of it has one of GloVe's.

    Parameters
    ----------
    known
        The words that have ids, from `FIRST_WORD` on.
    tokens
        Ids of the training texts, (n, length).

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``vectors``, an array (3 + words, size)
        by the names in `SIZES`, and ``substitute``.

    """
    vectors = {}
    sentences = []
    for name, size in SIZES.items():
        vectors[name], has_one = glove_vectors(_lines(size), known, size)
        if not has_one.all():
            in_glove = np.isin(tokens, FIRST_WORD + np.flatnonzero(has_one))
            share = in_glove.sum() / (tokens >= START).sum()
            sentences.append(
                f"GloVe's vectors of {size} numbers for {has_one.sum():,} of {len(known):,} words, "
                f"{share:.0%} of the training tokens, and random ones for the others"
            )
    return {"substitute": "; ".join(sentences), "vectors": vectors}


def glove_vectors(lines: Lines, words: list[str], size: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return the embedding of a vocabulary.

    Parameters
    ----------
    lines
        GloVe's words with their vectors.
    words
        The vocabulary.
    size
        Numbers of a vector.

    Returns
    -------
    tuple
        The embedding, (3 + words, size) float32, and whether each word has a vector of GloVe's,
        (words,) bool. Words without a vector get N(0, 1), padding, start and unknown words zeros.

    """
    index = {word: k for k, word in enumerate(words, FIRST_WORD)}
    shape = FIRST_WORD + len(words), size
    embedding = np.random.default_rng(SEED).standard_normal(shape, np.float32)
    embedding[:FIRST_WORD] = 0
    has_one = np.zeros(shape[0], bool)
    for word, vector in lines:
        if k := index.get(word):
            embedding[k] = np.asarray(vector, np.float64).reshape(size)
            has_one[k] = True
    return embedding, has_one[FIRST_WORD:]


def _lines(size: int) -> Lines:
    """Return the words and vectors of a size, from the mirror or the publisher's archive."""
    if mirror() is None:
        return _from_text(member(fetch("glove", ARCHIVE), f"glove.6B.{size}d.txt"))
    if size == SIZES["glove"]:
        return _from_text(unpacked(fetch("glove", HEAD)))
    return _from_arrays(fetch("glove", SELECTION))


def _from_text(content: bytes) -> Iterator[tuple[str, list[str]]]:
    """Read GloVe's own format: a word and its numbers per line."""
    for line in io.StringIO(content.decode("utf-8")):
        word, *values = line.rstrip("\n").split(" ")
        yield word, values


def _from_arrays(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Read the mirror's selection: words as bytes with a line each, and their vectors."""
    file = read_arrays(path)
    words = file["words"].tobytes().decode("utf-8").split("\n")
    return zip(words, file["vectors"], strict=True)
