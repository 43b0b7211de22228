"""Penn Treebank, words: a language model of them; see `lib.tasks.sources._ptb`."""

import xarray as xr

from lib.tasks.sources._ptb import SOURCE, read_texts
from lib.tasks.sources._registry import source
from lib.tasks.sources._stream import sentence_words, stream_dataset


@source
def ptb_words() -> xr.Dataset:
    """Return the text as a stream of words, each with the one after it as its target."""
    return stream_dataset("ptb_words", *map(sentence_words, read_texts()), source=SOURCE)
