"""IMDB, word vectors: the reviews as the texts' programs read them, 25,000 words and vectors that their embedding starts from.

UnICORNN's program takes GloVe's vectors and draws those of unknown words from N(0, 1). The mirror has GloVe's most frequent
words alone, so both what they cover and a second set of vectors are kept with the data: positive pointwise mutual
information of the training reviews, reduced by a singular value decomposition.
"""

import io
from collections.abc import Iterable

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from lib.tasks.formats import FormatError
from lib.tasks.formats.archives import member
from lib.tasks.prepared import FIRST_WORD, START
from lib.tasks.sources._fetch import fetch, mirror, unpacked
from lib.tasks.sources._table import reader
from lib.tasks.sources.texts import encode, labelled, labels, read_reviews, vocabulary

MEMBER = "glove.6B.100d.txt"
WORDS, SIZE, SEED = 25_000, 100, 6
WINDOW = 5
"""Words on either side that count as near."""


@reader
def reviews_with_vectors() -> dict:
    """Return the reviews as 500 tokens, the official split, with the vectors ``glove`` and ``ppmi`` of their words."""
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
    scale = glove[FIRST_WORD:][has_one].std()
    vectors = {"glove": glove, "ppmi": ppmi_vectors(tokens[0], size, scale)}
    about = {"substitute": "" if has_one.all() else substitute, "vectors": vectors}
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


def ppmi_vectors(tokens: np.ndarray, ids: int, scale: float, size: int = SIZE) -> np.ndarray:
    """Return an embedding (ids, size) that follows from which words stand near each other.

    In the texts `tokens`, (n, T), what is below `FIRST_WORD` is no word; the numbers of the words' vectors get the deviation `scale`.
    """
    counts = sparse.csr_matrix((ids, ids), dtype=np.float64)
    for distance in range(1, WINDOW + 1):
        left, right = tokens[:, :-distance].ravel(), tokens[:, distance:].ravel()
        both = (left >= FIRST_WORD) & (right >= FIRST_WORD)
        pairs = (np.ones(both.sum()), (left[both].astype(int), right[both].astype(int)))
        counts = counts + sparse.csr_matrix(pairs, shape=(ids, ids))
    counts = (counts + counts.T).tocoo()
    total, row = counts.data.sum(), np.asarray(counts.sum(axis=1)).ravel()
    information = np.log(counts.data * total / (row[counts.row] * row[counts.col]))
    kept = information > 0
    matrix = sparse.csr_matrix(
        (information[kept], (counts.row[kept], counts.col[kept])), shape=(ids, ids)
    )
    left, strength, _ = randomized_svd(matrix, size, n_iter=2, random_state=SEED)
    vectors = (left * np.sqrt(strength)).astype(np.float32)
    vectors[FIRST_WORD:] *= scale / vectors[FIRST_WORD:].std()
    return vectors
