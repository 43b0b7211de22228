"""Streams of tokens for language models (Penn Treebank), and synthetic texts for fast runs."""

from collections.abc import Sequence

import numpy as np

from study.tasks.language import cut
from study.tasks.prepared import FIRST_WORD
from study.tasks.sources._fetch import fetch, mirror, unpacked
from study.tasks.sources._table import reader
from study.tasks.sources._tokens import by_frequency, encode, vocabulary
from study.tasks.standins import markov_text

ROW = 50
"""Tokens per row of the prepared file.

The task joins the rows to a stream again, and cuts the stream into pieces of its own length.
"""


def tokens_of(text: str, unit: str) -> list[str]:
    """Return the tokens of a text with one sentence per line.

    Parameters
    ----------
    text : str
    unit : str
        ``words``, or ``characters``, with ``_`` for a blank.

    Returns
    -------
    list of str
        The tokens, with ``<eos>`` after each sentence.
    """
    tokens = []
    for line in text.splitlines():
        sentence = line.split()
        if unit == "words":
            tokens += sentence
        else:
            tokens += "_".join(sentence)
        tokens.append("<eos>")
    return tokens


@reader
def penn_treebank(unit: str) -> dict:
    """Read Penn Treebank (M. Marcus et al. 1993) as a stream of words or characters.

    Parameters
    ----------
    unit : str
        As in `tokens_of`.

    Returns
    -------
    dict
        As `stream`.
    """
    names = [f"ptb.{split}.txt" for split in ("train", "valid", "test")]
    if mirror() is None:
        texts = [fetch("ptb", name).read_bytes() for name in names]
    else:
        texts = [unpacked(fetch("ptb", f"{name}.gz")) for name in names]
    return stream(*(tokens_of(text.decode("utf-8"), unit) for text in texts))


@reader
def markov_stream(unit: str) -> dict:
    """Draw sentences from a Markov chain as a stream, for runs that take seconds.

    Parameters
    ----------
    unit : str
        As in `tokens_of`.

    Returns
    -------
    dict
        As `stream`.
    """
    rng = np.random.default_rng(9)
    language = markov_text.language(100, rng)
    tokens = []
    for count in (1000, 150, 150):
        sentences = markov_text.sentences(language, count, rng)
        tokens.append(tokens_of("\n".join(sentences), unit))
    return stream(*tokens)


def stream(train: Sequence[str], validation: Sequence[str], test: Sequence[str]) -> dict:
    """Encode three streams of tokens, with the next token as the target at every step.

    Parameters
    ----------
    train, validation, test : sequence of str
        The tokens of each split. The vocabulary is that of the training split.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train``, ``validation`` and ``test``,
        token ids and next token ids, (n, 50) each; ``outputs``, ``valid_max`` and
        ``vocabulary_size``.
    """
    ids = {token: k for k, token in enumerate(by_frequency(train))}
    splits = {}
    for split, tokens in {"train": train, "validation": validation, "test": test}.items():
        splits[split] = cut(np.array([ids[token] for token in tokens], np.int32), ROW)
    size = len(ids)
    return splits | {"outputs": size, "valid_max": size - 1, "vocabulary_size": size}


@reader
def markov_reviews() -> dict:
    """Draw 800 synthetic reviews of 80 tokens in four classes, for runs that take seconds.

    Returns
    -------
    dict
        As `study.tasks.sources._tokens.encode`; 200 of the reviews are for testing.
    """
    rng = np.random.default_rng(8)
    language = markov_text.language(500, rng)
    texts, targets = markov_text.reviews(language, 800, 4, rng)
    train = (texts[200:], targets[200:])
    test = (texts[:200], targets[:200])
    size = FIRST_WORD + len(vocabulary(texts[200:]))
    return encode(train, test, size, length=80)
