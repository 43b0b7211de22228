"""Texts from a Markov chain: a stand-in for reviews and for Penn Treebank.

Words are made of syllables and as frequent as Zipf's law says; each is followed, most of the time,
by one of a few words of its own. In reviews some words are drawn from a set that tells the opinion,
so that they can be told apart.
"""

from dataclasses import dataclass

import numpy as np

_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
_FOLLOWERS, _FAITHFUL = 4, 0.7
"""Words that may follow a word by its own rule, and how often the rule holds."""
_OPINION, _OPINIONATED = 20, 0.06
"""Words of each opinion, and their share of a review."""


@dataclass(frozen=True)
class Language:
    """A made-up language.

    It has words (V,) by frequency, their frequency (V,) among words that obey no rule, and
    followers (V, 4): the indices of the words that follow a word by its rule, the first twice as
    likely as the second, and so on.
    """

    words: np.ndarray
    frequency: np.ndarray
    followers: np.ndarray


def language(vocabulary: int, rng: np.random.Generator) -> Language:
    """Draw a language of so many words."""
    words: dict[str, None] = {}
    while len(words) < vocabulary:
        words["".join(rng.choice(_SYLLABLES, rng.integers(1, 4)))] = None
    frequency = 1 / np.arange(1, vocabulary + 1)
    frequency /= frequency.sum()
    followers = rng.choice(vocabulary, (vocabulary, _FOLLOWERS), p=frequency)
    return Language(np.array(list(words)), frequency, followers)


def text(of: Language, length: int, rng: np.random.Generator) -> list[str]:
    """Return a text of so many words."""
    weights = 0.5 ** np.arange(_FOLLOWERS)
    free = rng.choice(len(of.words), length, p=of.frequency)
    choice = rng.choice(_FOLLOWERS, length, p=weights / weights.sum())
    faithful = rng.random(length) < _FAITHFUL
    places = np.empty(length, int)
    last = free[0]
    for t in range(length):
        last = of.followers[last, choice[t]] if faithful[t] and t else free[t]
        places[t] = last
    return of.words[places].tolist()


def sentences(of: Language, count: int, rng: np.random.Generator) -> list[str]:
    """Return sentences of 5 to 35 words, one a line as in Penn Treebank's files."""
    return [" ".join(text(of, int(length), rng)) for length in rng.integers(5, 36, count)]


def reviews(
    of: Language, count: int, classes: int, rng: np.random.Generator
) -> tuple[list[str], np.ndarray]:
    """Return reviews of 20 to 80 words and their classes, (n,): each class has words of its own.

    The words that tell a class are rare ones of the language; any may appear in any review by
    chance.
    """
    telling = rng.permutation(np.arange(len(of.words) // 4, len(of.words)))[: classes * _OPINION]
    telling = of.words[telling].reshape(classes, _OPINION)
    targets = rng.permutation(np.arange(count) % classes)
    texts = []
    for target in targets:
        words = text(of, int(rng.integers(20, 81)), rng)
        for place in np.flatnonzero(rng.random(len(words)) < _OPINIONATED):
            words[place] = str(rng.choice(telling[target]))
        texts.append(" ".join(words))
    return texts, targets
