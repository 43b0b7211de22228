"""Texts as a stream of tokens whose next one is asked for: language models."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import xarray as xr

from lib.tasks.language import cut
from lib.tasks.prepared import prepared_dataset

ROW = 50
"""Tokens of a row in the prepared file; the rows follow each other, and tasks cut them anew."""


def stream_dataset(
    name: str,
    train: Sequence[str],
    validation: Sequence[str],
    test: Sequence[str],
    source: str,
    substitute: str = "",
) -> xr.Dataset:
    """Return three streams of tokens with the next token as the target at every step.

    Parameters
    ----------
    name
        The data set's name.
    train, validation, test
        Tokens in their order. The vocabulary is that of the training stream, by frequency (ties by spelling).
    source, substitute
        As for every data set.

    Raises
    ------
    ValueError
        A stream has a token that the training stream has not, or is shorter than a row.
    """
    counts = Counter(train)
    ids = {token: k for k, token in enumerate(sorted(counts, key=lambda t: (-counts[t], t)))}
    parts = {}
    for part, tokens in {"train": train, "validation": validation, "test": test}.items():
        if unknown := set(tokens) - set(ids):
            raise ValueError(
                f"{name}: the {part} part has {min(unknown)!r}, which the training part has not"
            )
        if len(tokens) <= ROW:
            raise ValueError(
                f"{name}: expected more than {ROW} tokens in the {part} part, got {len(tokens)}"
            )
        stream = np.array([ids[token] for token in tokens], np.int32)
        parts[part] = cut(stream, ROW)
    return prepared_dataset(
        name,
        parts["train"],
        parts["test"],
        validation=parts["validation"],
        kind="tokens",
        target="steps",
        source=source,
        outputs=len(ids),
        valid_max=len(ids) - 1,
        vocabulary_size=len(ids),
        substitute=substitute,
    )


def sentence_words(text: str) -> list[str]:
    """Return the words of a text with one sentence a line, and a mark after each."""
    return [word for line in text.splitlines() for word in [*line.split(), "<eos>"]]


def sentence_characters(text: str) -> list[str]:
    """Return the characters of a text with one sentence a line: blanks as ``_``, a mark after each sentence."""
    return [c for line in text.splitlines() for c in [*"_".join(line.split()), "<eos>"]]
