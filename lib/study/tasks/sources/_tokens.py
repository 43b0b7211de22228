"""Texts as token ids, by the frequency of words in the training part."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from study.tasks.prepared import FIRST_WORD, PAD, START, UNKNOWN

VOCABULARY_SIZE = 10_000
LENGTH = 500
_SEPARATORS = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n\r\x02\x03', " "))

Texts = tuple[Sequence[str], np.ndarray]
"""The texts of a part and their classes."""


def words(text: str) -> list[str]:
    """Return the lower-case words of a text; an apostrophe belongs to its word.

    Parameters
    ----------
    text
        The text.

    Returns
    -------
    list of str
        Its words.

    Examples
    --------
    >>> words("Don't panic -- it's 42!")
    ["don't", 'panic', "it's", '42']

    """
    return text.lower().translate(_SEPARATORS).split()


def by_frequency(tokens: Iterable[str]) -> list[str]:
    """Return all different tokens, the most frequent first.

    Parameters
    ----------
    tokens
        Tokens, with repetitions.

    Returns
    -------
    list of str
        Each token once, ties in alphabetical order.

    """
    counts = Counter(tokens)
    return sorted(counts, key=lambda token: (-counts[token], token))


def vocabulary(texts: Sequence[str], size: int = VOCABULARY_SIZE) -> list[str]:
    """Return the words that have ids, from the first one, `FIRST_WORD`, on.

    Parameters
    ----------
    texts
        The training texts.
    size
        Number of ids, those of padding, start and unknown words included.

    Returns
    -------
    list of str
        The most frequent words.

    """
    return by_frequency(word for text in texts for word in words(text))[: size - FIRST_WORD]


def encode(train: Texts, test: Texts, size: int = VOCABULARY_SIZE, length: int = LENGTH) -> dict:
    """Return both parts with texts as ids.

    Ids are padding, start, unknown word, then words by frequency in the training part. A text keeps
    its last tokens; a shorter one is padded in front, so that what is read last is always text.
    This is the convention of the widely used Keras encodings of IMDB and Reuters, except that Keras
    leaves the id 3 unused. The author's program has 20,000 words, the dissertation gives no number;
    10,000 is our choice.

    Parameters
    ----------
    train, test
        Texts and classes of each part.
    size
        Size of the vocabulary.
    length
        Tokens of a text.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train`` and ``test``, ids of shape
        (n, length) and classes (n,), ``valid_max`` and ``vocabulary_size``.

    """
    ids = {word: i for i, word in enumerate(vocabulary(train[0], size), FIRST_WORD)}

    def sequence(text: str) -> np.ndarray:
        tokens = [START, *(ids.get(word, UNKNOWN) for word in words(text))][-length:]
        return np.array([PAD] * (length - len(tokens)) + tokens, np.int32)

    def encoded(texts: Sequence[str]) -> np.ndarray:
        return np.stack([sequence(text) for text in texts])

    return {
        "train": (encoded(train[0]), train[1]),
        "test": (encoded(test[0]), test[1]),
        "valid_max": size - 1,
        "vocabulary_size": size,
    }
