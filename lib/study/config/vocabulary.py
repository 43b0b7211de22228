"""Which settings there are, and which part of a run each of them belongs to."""

from collections.abc import Iterable, Mapping

from longrnn.cells import cell_class

from study.config.run import PARTS
from study.config.section import ParameterError, Section, nearest

Makers = Mapping[str, type[Section]]
"""The settings that each maker of tasks takes, by its name."""

_OF_RUN = ("batch_size", "device", "replicates")
"""Settings that belong to a run as a whole."""
_NO_SETTINGS = ("cell", "hyper_parameters", "start_settings")
"""Fields of a network that are no settings: its cell, and those that hold other settings."""


def general_settings() -> dict[str, str]:
    """Return the settings that every run has, and the part of `RunConfig` that has them."""
    settings = dict.fromkeys(_OF_RUN, "")
    for part, kind in PARTS.items():
        settings |= {field: part for field in kind.model_fields if field not in _NO_SETTINGS}
    return settings


def known_settings(
    cell: str, starts: Iterable[str], makers: Iterable[type[Section]]
) -> dict[str, str]:
    """Return every setting that a network and a task take, and the part of a run that has it.

    Parameters
    ----------
    cell : str
        Name of the network's cell.
    starts : iterable of str
        Names of its initial weights; names that the cell does not have are skipped here.
    makers : iterable of type of Section
        The settings of the makers of its tasks.

    Returns
    -------
    dict
        From setting to ``""`` (the run itself), ``network``, ``recipe``, ``measurement``,
        ``hyper_parameters``, ``start_settings`` or ``task``.
    """
    kind = cell_class(cell)
    parts: dict[str, str] = {}
    for maker in makers:
        parts |= dict.fromkeys(maker.model_fields, "task")
    for name in starts:
        start = kind.starts.get(name)
        if start is not None:
            parts |= dict.fromkeys(start.settings, "start_settings")
    parts |= dict.fromkeys(kind.hyper_parameters, "hyper_parameters")
    return parts | general_settings()


def refuse_unknown(key: str, where: str, known: Iterable[str]) -> None:
    """Raise `ParameterError` if a setting is not known, with the names most like it."""
    known = list(known)
    if key not in known:
        raise ParameterError(
            f"params.yaml: unknown setting {where}.{key}; expected one of {nearest(key, known)}"
        )
