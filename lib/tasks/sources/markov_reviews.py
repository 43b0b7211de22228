"""Markov reviews: texts of a Markov chain in four classes, for runs of seconds."""

import numpy as np
import xarray as xr

from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._registry import source
from lib.tasks.sources._text import encode
from lib.tasks.standins.markov_text import language, reviews

SEED, WORDS, SIZE, CLASSES, LENGTH, TEST = 8, 500, 800, 4, 80, 200


@source
def markov_reviews() -> xr.Dataset:
    """Return made-up reviews as 80 tokens in four classes."""
    rng = np.random.default_rng(SEED)
    texts, targets = reviews(language(WORDS, rng), SIZE, CLASSES, rng)
    tokens = encode(texts[TEST:], texts[:TEST], length=LENGTH)
    largest = int(max(part.max() for part in tokens))
    return prepared_dataset(
        "markov_reviews",
        (tokens[0], targets[TEST:]),
        (tokens[1], targets[:TEST]),
        kind="tokens",
        source="made up",
        outputs=CLASSES,
        valid_max=largest,
        vocabulary_size=largest + 1,
        substitute="reviews of a Markov chain, made up (stand-in for IMDB and Yelp)",
    )
