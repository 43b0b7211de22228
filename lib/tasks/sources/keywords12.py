"""Google-12: Speech Commands v0.02 as LEM's program reads it, mel spectrograms, ten commands, silence and the rest."""

import xarray as xr

from lib.tasks.formats.sound import log_mel
from lib.tasks.sources._registry import source
from lib.tasks.sources._speech import COMMANDS, keywords, lem_classes


@source
def keywords12() -> xr.Dataset:
    """Return clips as 126 x 80 log mel magnitudes in twelve classes, or tone words."""
    return keywords(
        "keywords12",
        "speech_commands_v0.02.tar.gz",
        lem_classes(),
        lambda samples, name: log_mel(samples),
        standardise=None,
        made_up=(*COMMANDS, "bed", "bird"),
    )
