"""Encode texts as token ids, numbered by the frequency of words in the training split."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from study.tasks.prepared import FIRST_WORD, PAD, START, UNKNOWN

VOCABULARY_SIZE = 10_000
LENGTH = 500
_SEPARATORS = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n\r\x02\x03', " "))

Texts = tuple[Sequence[str], np.ndarray]
"""The texts of a split, and their classes, (n,)."""


def words(text: str) -> list[str]:
    """Return the lower-case words of a text; an apostrophe belongs to its word.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

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
    tokens : iterable of str
        Tokens, with repetitions.

    Returns
    -------
    list of str
        Each token once; tokens of equal frequency in alphabetical order.
    """
    counts = Counter(tokens)
    return sorted(counts, key=lambda token: (-counts[token], token))


def vocabulary(texts: Sequence[str], size: int = VOCABULARY_SIZE) -> list[str]:
    """Return the words that have ids; the first one has the id `FIRST_WORD`.

    Parameters
    ----------
    texts : sequence of str
        The training texts.
    size : int
        Number of ids, including those of padding, start and unknown words.

    Returns
    -------
    list of str
        The most frequent words, in this order.
    """
    return by_frequency(word for text in texts for word in words(text))[: size - FIRST_WORD]


def encode(train: Texts, test: Texts, size: int = VOCABULARY_SIZE, length: int = LENGTH) -> dict:
    """Encode the texts of both splits as ids.

    The first ids stand for padding, the start of a text and unknown words. Words follow, in the
    order of their frequency in the training split. A long text keeps its last tokens. A short text
    is padded in front, so the last inputs are always words. This is the convention of Keras for
    IMDB and Reuters, except that Keras does not use the id 3. The author's program has 20,000
    words, and the dissertation gives no number; 10,000 is our choice.

    Parameters
    ----------
    train, test : (sequence of str, numpy.ndarray)
        Texts and classes of each split.
    size : int
        Size of the vocabulary.
    length : int
        Tokens per text.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train`` and ``test``, ids (n, length)
        and classes (n,); ``valid_max`` and ``vocabulary_size``.
    """
    ids = {word: i for i, word in enumerate(vocabulary(train[0], size), FIRST_WORD)}

    def sequence(text: str) -> np.ndarray:
        tokens = [START]
        tokens += [ids.get(word, UNKNOWN) for word in words(text)]
        tokens = tokens[-length:]
        padding = [PAD] * (length - len(tokens))
        return np.array(padding + tokens, np.int32)

    def encoded(texts: Sequence[str]) -> np.ndarray:
        return np.stack([sequence(text) for text in texts])

    return {
        "train": (encoded(train[0]), train[1]),
        "test": (encoded(test[0]), test[1]),
        "valid_max": size - 1,
        "vocabulary_size": size,
    }
