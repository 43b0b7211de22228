"""IMDB, ratings: the printed stars in four classes, 1 and 2, 3 and 4, 7 and 8, 9 and 10, in the form of Yelp-5.

Ratings of 5 and 6 are not in the data. 300 words, a vocabulary of 20,000, as the text has for Yelp.
"""

import numpy as np
import xarray as xr

from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._registry import source
from lib.tasks.sources._text import encode
from lib.tasks.sources.imdb import Reviews, read_reviews

WORDS, LENGTH = 20_000, 300
CLASS = {1: 0, 2: 0, 3: 1, 4: 1, 7: 2, 8: 2, 9: 3, 10: 3}
"""Class by stars."""


@source
def imdb_ratings() -> xr.Dataset:
    """Return the reviews as 300 tokens in four classes, the official split."""
    train, test = read_reviews()
    tokens = encode(
        [text for _, text in train],
        [text for _, text in test],
        vocabulary_size=WORDS,
        length=LENGTH,
    )
    return prepared_dataset(
        "imdb_ratings",
        (tokens[0], ratings(train)),
        (tokens[1], ratings(test)),
        kind="tokens",
        source="Maas et al.: Learning word vectors for sentiment analysis, ACL 2011",
        outputs=4,
        valid_max=WORDS - 1,
        vocabulary_size=WORDS,
        substitute="film reviews of IMDB in four classes instead of Yelp's in five",
    )


def ratings(reviews: Reviews) -> np.ndarray:
    """Return the class of each review, from its name ``<class>/<id>_<stars>``.

    >>> ratings([("neg/0_2", "bad"), ("pos/17_10", "good")]).tolist()
    [0, 3]
    """
    return np.array([CLASS[int(name.rsplit("_", 1)[1])] for name, _ in reviews])
