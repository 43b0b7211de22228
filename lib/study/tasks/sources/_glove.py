"""GloVe's word vectors (J. Pennington, R. Socher, C. Manning 2014) for the words of a vocabulary.

UnICORNN's program uses GloVe's vectors of size 100, and draws the vectors of unknown words from
N(0, 1). The mirror has vectors of this size for the most frequent words, and vectors of size 50 for
nearly all words of IMDB. Both sets are stored with the data, with the number of words they cover.
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
"""Size of the vectors, by the name of the set of vectors in a prepared data set."""
SEED = 6
"""Seed of the vectors of unknown words."""

Lines = Iterable[tuple[str, Sequence]]
"""Words and their vectors, as numbers or as text."""


def glove(known: list[str], tokens: np.ndarray) -> dict:
    """Return the vectors of a vocabulary, and how many of its words GloVe covers.

    Parameters
    ----------
    known : list of str
        The words that have ids, starting with `FIRST_WORD`.
    tokens : numpy.ndarray
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
        vectors[name], covered = glove_vectors(_lines(size), known, size)
        if not covered.all():
            covered_tokens = np.isin(tokens, FIRST_WORD + np.flatnonzero(covered))
            fraction = covered_tokens.sum() / (tokens >= START).sum()
            sentences.append(
                f"GloVe's vectors of {size} numbers for {covered.sum():,} of {len(known):,} words, "
                f"{fraction:.0%} of the training tokens, and random ones for the others"
            )
    return {"substitute": "; ".join(sentences), "vectors": vectors}


def glove_vectors(lines: Lines, words: list[str], size: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return the embedding of a vocabulary.

    Parameters
    ----------
    lines : iterable of (str, sequence)
        GloVe's words with their vectors.
    words : list of str
        The vocabulary.
    size : int
        Size of a vector.

    Returns
    -------
    embedding : numpy.ndarray
        Shape (3 + words, size), float32. Words without a vector of GloVe get numbers from N(0, 1);
        the ids of padding, start and unknown words get zeros.
    covered : numpy.ndarray
        Whether GloVe has a vector of each word, (words,) bool.
    """
    index = {word: k for k, word in enumerate(words, FIRST_WORD)}
    shape = FIRST_WORD + len(words), size
    embedding = np.random.default_rng(SEED).standard_normal(shape, np.float32)
    embedding[:FIRST_WORD] = 0
    covered = np.zeros(shape[0], bool)
    for word, vector in lines:
        if word in index:
            k = index[word]
            embedding[k] = np.asarray(vector, np.float64).reshape(size)
            covered[k] = True
    return embedding, covered[FIRST_WORD:]


def _lines(size: int) -> Lines:
    """Return the words and vectors of a size, from the mirror or the publisher's archive."""
    if mirror() is None:
        return _from_text(member(fetch("glove", ARCHIVE), f"glove.6B.{size}d.txt"))
    if size == SIZES["glove"]:
        return _from_text(unpacked(fetch("glove", HEAD)))
    return _from_arrays(fetch("glove", SELECTION))


def _from_text(content: bytes) -> Iterator[tuple[str, list[str]]]:
    """Read GloVe's text format: a word and its numbers per line."""
    for line in io.StringIO(content.decode("utf-8")):
        word, *values = line.rstrip("\n").split(" ")
        yield word, values


def _from_arrays(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Read the mirror's selection: words as bytes, one per line, and their vectors."""
    file = read_arrays(path)
    words = file["words"].tobytes().decode("utf-8").split("\n")
    return zip(words, file["vectors"], strict=True)
