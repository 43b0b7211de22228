"""Tone words: twelve words of twenty clips with LEM's features, for runs of seconds."""

import xarray as xr

from lib.tasks.formats.sound import log_mel
from lib.tasks.sources._registry import source
from lib.tasks.sources._speech import COMMANDS, lem_classes, made_up_keywords

CLIPS, SPEAKERS = 20, 10


@source
def tone_words_short() -> xr.Dataset:
    """Return made-up clips as 126 x 80 log mel magnitudes in twelve classes."""
    return made_up_keywords(
        "tone_words_short",
        lem_classes(),
        lambda samples, name: log_mel(samples),
        standardise=None,
        words=(*COMMANDS, "bed", "bird"),
        clips=CLIPS,
        speakers=SPEAKERS,
    )
