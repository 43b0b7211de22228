"""Streams of tokens, to predict the next one, and made-up texts for runs of seconds."""

from collections.abc import Sequence

import numpy as np

from study.tasks.language import cut
from study.tasks.prepared import FIRST_WORD
from study.tasks.sources._fetch import fetch, mirror, unpacked
from study.tasks.sources._table import reader
from study.tasks.sources._tokens import by_frequency, encode, vocabulary
from study.tasks.standins import markov_text

ROW = 50
"""Tokens of a row in the prepared file; rows follow each other, and tasks cut them anew."""


def tokens_of(text: str, unit: str) -> list[str]:
    """Return the tokens of a text with one sentence per line.

    Parameters
    ----------
    text
        The text.
    unit
        ``words``, or ``characters`` with a blank as ``_``.

    Returns
    -------
    list of str
        The tokens, with ``<eos>`` after each sentence.

    """
    tokens = []
    for line in text.splitlines():
        sentence = line.split()
        tokens += sentence if unit == "words" else "_".join(sentence)
        tokens.append("<eos>")
    return tokens


@reader
def penn_treebank(unit: str) -> dict:
    """Return Penn Treebank (M. Marcus et al. 1993) as a stream of words or characters."""
    names = [f"ptb.{part}.txt" for part in ("train", "valid", "test")]
    if mirror() is None:
        texts = [fetch("ptb", name).read_bytes() for name in names]
    else:
        texts = [unpacked(fetch("ptb", f"{name}.gz")) for name in names]
    return stream(*(tokens_of(text.decode("utf-8"), unit) for text in texts))


@reader
def markov_stream(unit: str) -> dict:
    """Return sentences of a Markov chain as a stream, for runs of seconds."""
    rng = np.random.default_rng(9)
    spoken = markov_text.language(100, rng)
    parts = [markov_text.sentences(spoken, count, rng) for count in (1000, 150, 150)]
    return stream(*(tokens_of("\n".join(part), unit) for part in parts))


def stream(train: Sequence[str], validation: Sequence[str], test: Sequence[str]) -> dict:
    """Return three streams of tokens, with the next token as the target at every step.

    Parameters
    ----------
    train, validation, test
        The tokens of each part; the vocabulary is that of the training part.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`.

    """
    ids = {token: k for k, token in enumerate(by_frequency(train))}
    parts = {}
    for part, tokens in {"train": train, "validation": validation, "test": test}.items():
        parts[part] = cut(np.array([ids[token] for token in tokens], np.int32), ROW)
    size = len(ids)
    return parts | {"outputs": size, "valid_max": size - 1, "vocabulary_size": size}


@reader
def markov_reviews() -> dict:
    """Return made-up reviews of 80 tokens in four classes, for runs of seconds."""
    rng, size, test = np.random.default_rng(8), 800, 200
    texts, targets = markov_text.reviews(markov_text.language(500, rng), size, 4, rng)
    train, test = (texts[test:], targets[test:]), (texts[:test], targets[:test])
    return encode(train, test, FIRST_WORD + len(vocabulary(train[0])), length=80)
