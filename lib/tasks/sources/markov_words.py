"""Markov words: sentences of a Markov chain as a language model of words, for runs of seconds."""

import numpy as np
import xarray as xr

from lib.tasks.sources._registry import source
from lib.tasks.sources._stream import sentence_words, stream_dataset
from lib.tasks.standins.markov_text import language, sentences

SEED, WORDS, SENTENCES = 9, 100, (1000, 150, 150)


@source
def markov_words() -> xr.Dataset:
    """Return a made-up text as a stream of words, each with the one after it as its target."""
    rng = np.random.default_rng(SEED)
    spoken = language(WORDS, rng)
    parts = ("\n".join(sentences(spoken, count, rng)) for count in SENTENCES)
    return stream_dataset(
        "markov_words",
        *map(sentence_words, parts),
        source="made up",
        substitute="sentences of a Markov chain, made up (stand-in for Penn Treebank)",
    )
