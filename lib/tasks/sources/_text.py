"""From texts to tokens: the most frequent words, and sequences of one length."""

from collections import Counter

import numpy as np

from lib.tasks.prepared import FIRST_WORD, PAD, START, UNKNOWN

VOCABULARY_SIZE = 10_000
LENGTH = 500
_SEPARATORS = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n\r\x02\x03', " "))


def words(text: str) -> list[str]:
    """Return the lower-case words of a text; an apostrophe belongs to its word.

    >>> words("Don't panic -- it's 42!")
    ["don't", 'panic', "it's", '42']
    """
    return text.lower().translate(_SEPARATORS).split()


def encode(
    train: list[str],
    *others: list[str],
    vocabulary_size: int = VOCABULARY_SIZE,
    length: int = LENGTH,
) -> tuple[np.ndarray, ...]:
    """Return all parts as tokens, (n, 500) each.

    Parameters
    ----------
    train, others
        Texts. The vocabulary comes from the training part alone.
    vocabulary_size
        Number of ids, at most 32,767.
    length
        Tokens of a text.

    Returns
    -------
    tuple of int16 arrays
        Ids: filling, start, unknown word, then words by frequency (ties by spelling). A text keeps its last
        tokens, a shorter one is filled in front, so that what is read last is always text. This is the
        convention of the widely used Keras encodings of these two data sets, except that Keras leaves the
        id 3 unused.
    """
    ids = {word: i for i, word in enumerate(vocabulary(train, vocabulary_size), FIRST_WORD)}
    return tuple(
        np.stack([_sequence(words(text), ids, length) for text in part])
        for part in (train, *others)
    )


def vocabulary(texts: list[str], size: int = VOCABULARY_SIZE) -> list[str]:
    """Return the words that have ids, from the first, `FIRST_WORD`, on."""
    counts = Counter(word for text in texts for word in words(text))
    return sorted(counts, key=lambda word: (-counts[word], word))[: size - FIRST_WORD]


def _sequence(text: list[str], ids: dict[str, int], length: int) -> np.ndarray:
    tokens = [START, *(ids.get(word, UNKNOWN) for word in text)][-length:]
    sequence = np.full(length, PAD, np.int16)
    sequence[length - len(tokens) :] = tokens
    return sequence
