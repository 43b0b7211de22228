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


def encode(train: list[str], test: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return both splits as tokens, (n, 500) each.

    Parameters
    ----------
    train, test
        Texts. The vocabulary comes from the training part alone.

    Returns
    -------
    tuple of int16 arrays
        Ids below 10,000: filling, start, unknown word, then words by frequency (ties by spelling). A
        text keeps its last 500 tokens, a shorter one is filled in front, so that what is read last is
        always text. This is the convention of the widely used Keras encodings of these two data sets,
        except that Keras leaves the id 3 unused.
    """
    tokenised = [[words(text) for text in part] for part in (train, test)]
    counts = Counter(word for text in tokenised[0] for word in text)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    ids = {word: i for i, word in enumerate(frequent[: VOCABULARY_SIZE - FIRST_WORD], FIRST_WORD)}
    return tuple(np.stack([_sequence(text, ids) for text in part]) for part in tokenised)


def _sequence(text: list[str], ids: dict[str, int]) -> np.ndarray:
    tokens = [START, *(ids.get(word, UNKNOWN) for word in text)][-LENGTH:]
    sequence = np.full(LENGTH, PAD, np.int16)
    sequence[LENGTH - len(tokens) :] = tokens
    return sequence
