"""Texts from a Markov chain: a stand-in for reviews and for Penn Treebank.

Words are made of syllables, and their frequencies follow Zipf's law. Most of the time a word is
followed by one of a few words of its own. In reviews some words come from a set that belongs to the
class, so that a classifier can learn it.
"""

from dataclasses import dataclass

import numpy as np

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_FOLLOWERS = 4
"""Number of words that may follow a word by its rule."""
_FOLLOWS_RULE = 0.7
"""Probability that a word follows by the rule of the last."""
_CLASS_WORDS = 20
"""Number of words of each class of reviews."""
_CLASS_WORD_RATE = 0.06
"""Share of these words in a review."""


@dataclass(frozen=True)
class Language:
    """A synthetic language of V words."""

    words: np.ndarray
    """Words by falling frequency, shape (V,)."""
    frequency: np.ndarray
    """Their frequency among words that follow no rule, shape (V,)."""
    followers: np.ndarray
    """Indices of the words that follow each word by its rule, shape (V, 4). The first is twice as
    likely as the second, and so on.
    """


def language(vocabulary: int, rng: np.random.Generator) -> Language:
    """Draw a language.

    Parameters
    ----------
    vocabulary
        Number of words.
    rng
        Random numbers.

    Returns
    -------
    Language
        The language.
    """
    words: dict[str, None] = {}
    while len(words) < vocabulary:
        syllables = rng.choice(_SYLLABLES, rng.integers(1, 4))
        words["".join(syllables)] = None
    frequency = 1 / np.arange(1, vocabulary + 1)
    frequency /= frequency.sum()
    followers = rng.choice(vocabulary, (vocabulary, _FOLLOWERS), p=frequency)
    return Language(np.array(list(words)), frequency, followers)


def text(language: Language, length: int, rng: np.random.Generator) -> list[str]:
    """Draw a text.

    Parameters
    ----------
    language
        Its language.
    length
        Number of words.
    rng
        Random numbers.

    Returns
    -------
    list of str
        The words.
    """
    weights = 0.5 ** np.arange(_FOLLOWERS)
    unruled = rng.choice(len(language.words), length, p=language.frequency)
    choice = rng.choice(_FOLLOWERS, length, p=weights / weights.sum())
    follows_rule = rng.random(length) < _FOLLOWS_RULE
    indices = np.empty(length, int)
    indices[0] = unruled[0]
    for t in range(1, length):
        if follows_rule[t]:
            indices[t] = language.followers[indices[t - 1], choice[t]]
        else:
            indices[t] = unruled[t]
    return language.words[indices].tolist()


def sentences(language: Language, count: int, rng: np.random.Generator) -> list[str]:
    """Draw sentences, one per line as in Penn Treebank's files.

    Parameters
    ----------
    language
        Their language.
    count
        Number of sentences.
    rng
        Random numbers.

    Returns
    -------
    list of str
        Sentences of 5 to 35 words.
    """
    lengths = rng.integers(5, 36, count)
    return [" ".join(text(language, int(length), rng)) for length in lengths]


def reviews(
    language: Language, count: int, classes: int, rng: np.random.Generator
) -> tuple[list[str], np.ndarray]:
    """Draw reviews with their classes.

    The words of a class are rare words of the language. Any of them may also appear in any review
    by chance.

    Parameters
    ----------
    language
        Their language.
    count
        Number of reviews.
    classes
        Number of classes.
    rng
        Random numbers.

    Returns
    -------
    texts
        Reviews of 20 to 80 words.
    targets
        Their classes, shape (n,).
    """
    rare = np.arange(len(language.words) // 4, len(language.words))
    chosen = rng.permutation(rare)[: classes * _CLASS_WORDS]
    class_words = language.words[chosen].reshape(classes, _CLASS_WORDS)
    targets = rng.permutation(np.arange(count) % classes)
    texts = []
    for target in targets:
        words = text(language, int(rng.integers(20, 81)), rng)
        replaced = rng.random(len(words)) < _CLASS_WORD_RATE
        for index in np.flatnonzero(replaced):
            words[index] = str(rng.choice(class_words[target]))
        texts.append(" ".join(words))
    return texts, targets
