"""Texts from a Markov chain: a stand-in for reviews and for Penn Treebank.

Words consist of syllables, and their frequencies follow Zipf's law. Most of the time, the next word
is one of a few followers of the last word. Each class of reviews has some words of its own, from
which a classifier can learn the class.
"""

from dataclasses import dataclass

import numpy as np

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_FOLLOWERS = 4
"""Number of followers of a word."""
_FOLLOWS_RULE = 0.7
"""Probability that the next word is a follower of the last one."""
_CLASS_WORDS = 20
"""Number of words of each class of reviews."""
_CLASS_WORD_RATE = 0.06
"""Fraction of the words of a review that come from the words of its class."""


@dataclass(frozen=True)
class Language:
    """A synthetic language of V words."""

    words: np.ndarray
    """The words, the most frequent first, (V,)."""
    frequency: np.ndarray
    """Probability of each word if the next word is not a follower of the last one, (V,)."""
    followers: np.ndarray
    """Indices of the followers of each word, (V, 4). Each is twice as likely as the next one."""


def language(vocabulary: int, rng: np.random.Generator) -> Language:
    """Draw a language.

    Parameters
    ----------
    vocabulary : int
        Number of words V.
    rng : numpy.random.Generator

    Returns
    -------
    Language
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
    language : Language
    length : int
        Number of words.
    rng : numpy.random.Generator

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
    language : Language
    count : int
        Number of sentences.
    rng : numpy.random.Generator

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
    language : Language
    count : int
        Number of reviews n.
    classes : int
        Number of classes.
    rng : numpy.random.Generator

    Returns
    -------
    texts : list of str
        Reviews of 20 to 80 words.
    targets : numpy.ndarray
        Their classes, (n,).
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
