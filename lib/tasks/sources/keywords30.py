"""Google-30: the thirty words of Speech Commands v0.01 as EdgeML's program reads them, log energies of 32 bands."""

import xarray as xr

from lib.tasks.formats.sound import log_energies, standardise
from lib.tasks.sources._registry import source
from lib.tasks.sources._speech import WORDS_30, keywords


@source
def keywords30() -> xr.Dataset:
    """Return clips as 99 x 32 log energies in thirty classes, or tone words."""
    return keywords(
        "keywords30",
        "speech_commands_v0.01.tar.gz",
        {word: k for k, word in enumerate(WORDS_30)},
        log_energies,
        standardise,
        made_up=WORDS_30,
    )
