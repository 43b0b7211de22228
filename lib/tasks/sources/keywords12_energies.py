"""Google-12, log energies: Speech Commands v0.01 as EdgeML's program reads it, ten commands and the rest."""

import xarray as xr

from lib.tasks.formats.sound import log_energies, standardise
from lib.tasks.sources._registry import source
from lib.tasks.sources._speech import COMMANDS, edgeml_classes, keywords


@source
def keywords12_energies() -> xr.Dataset:
    """Return clips as 99 x 32 log energies in eleven classes, or tone words."""
    return keywords(
        "keywords12_energies",
        "speech_commands_v0.01.tar.gz",
        edgeml_classes(),
        log_energies,
        standardise,
        made_up=(*COMMANDS, "bed", "bird"),
    )
