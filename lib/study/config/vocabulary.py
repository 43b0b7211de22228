"""The known settings, and the part of a run that each of them belongs to."""

from collections.abc import Iterable, Mapping

from longrnn.cells import cell_class, cell_names

from study.config.run import PARTS
from study.config.section import ParameterError, Section, similar_names

SettingsByMaker = Mapping[str, type[Section]]
"""The class with the settings of each maker, by the maker's name.

A maker is a function in `study.tasks` that makes a task.
"""

RUN_PART = "run"
"""The part of settings that belong to a run as a whole, see `known_settings`."""
_RUN_SETTINGS = ("batch_size", "device", "replicates")
"""Settings that belong to a run as a whole."""
_USUAL_NAMES = {
    "lr": "learning_rate",
    "hidden_size": "width",
    "hidden_dim": "width",
    "num_layers": "layers",
    "clip_norm": "gradient_clip",
    "grad_clip": "gradient_clip",
    "init": "start",
    "initialization": "start",
    "seq_len": "time_steps",
}
"""Names that other libraries and papers use for our settings."""
_SEEDS = ("seed", "seeds")
"""Names of a setting that does not exist here."""
_NO_SETTINGS = ("cell", "hyper_parameters", "start_settings")
"""Fields of a network that are not settings: its cell, and the dictionaries of settings."""


def general_settings() -> dict[str, str]:
    """Return the settings that every run has, and the part of a run of each.

    Returns
    -------
    dict of str to str
        As `known_settings`, without hyperparameters, settings of initializations and of tasks.
    """
    settings = dict.fromkeys(_RUN_SETTINGS, RUN_PART)
    for part, kind in PARTS.items():
        settings |= {field: part for field in kind.model_fields if field not in _NO_SETTINGS}
    return settings


def known_settings(
    cell: str, starts: Iterable[str], makers: Iterable[type[Section]]
) -> dict[str, str]:
    """Return every setting of a network and its tasks, and the part of a run of each.

    Parameters
    ----------
    cell : str
        Name of the network's cell.
    starts : iterable of str
        Names of its initializations. Names that the cell does not have are skipped; another check
        refuses them.
    makers : iterable of type of Section
        The classes with the settings of the makers of its tasks.

    Returns
    -------
    dict
        From setting to `RUN_PART`, ``network``, ``recipe``, ``measurement``, ``hyper_parameters``,
        ``start_settings`` or ``task``.
    """
    kind = cell_class(cell)
    part_by_setting: dict[str, str] = {}
    for maker in makers:
        part_by_setting |= dict.fromkeys(maker.model_fields, "task")
    for name in starts:
        start = kind.starts.get(name)
        if start is not None:
            part_by_setting |= dict.fromkeys(start.settings, "start_settings")
    part_by_setting |= dict.fromkeys(kind.hyper_parameters, "hyper_parameters")
    return part_by_setting | general_settings()


def all_settings(makers: SettingsByMaker) -> set[str]:
    """Return the settings of all cells and of all tasks.

    Parameters
    ----------
    makers : mapping of str to type of Section
        The class with the settings of each maker, by the maker's name.

    Returns
    -------
    set of str
    """
    settings: set[str] = set()
    for name in cell_names():
        settings |= known_settings(name, cell_class(name).starts, makers.values()).keys()
    return settings


def refuse_unknown(key: str, where: str, known: Iterable[str]) -> None:
    """Refuse a setting that is unknown.

    Parameters
    ----------
    key : str
        Name of the setting.
    where : str
        Path of the setting in `params.yaml`, for the error message.
    known : iterable of str
        Names of the known settings.

    Raises
    ------
    ParameterError
        It is not one of them; the message lists similar names.
    """
    known = list(known)
    if key in known:
        return
    our_name = _USUAL_NAMES.get(key)
    if key in _SEEDS and "replicates" in known:
        advice = "seeds follow from a run's settings, and replicates is the number of seeds"
    elif our_name in known:
        advice = f"its name here is {our_name}"
    else:
        advice = f"expected one of {similar_names(key, known)}"
    raise ParameterError(f"params.yaml: unknown setting {where}; {advice}")
