"""List the prepared data sets that a profile reads, without importing cells or tasks."""

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from study.config.definitions import Definitions, read_definitions
from study.config.grammar import Sections, Table
from study.config.levels import Level
from study.config.section import Factor, ParameterError, Section, format_value, parse_section
from study.config.tables import Pair, network_task_pairs, read_tables, setting_layers


class _DesignData(Section):
    """The field of a design that names data sets. All other fields are ignored."""

    model_config = ConfigDict(extra="ignore")
    dataset: Factor[str]


def datasets(sections: Mapping[str, Any]) -> list[str]:
    """Return the names of the data sets that any run of a profile reads, sorted.

    This imports neither cells nor tasks, so it is fast.

    Parameters
    ----------
    sections : mapping
        The sections of a profile as plain values (`study.config.file.merge_profile`).

    Returns
    -------
    list of str

    Raises
    ------
    ParameterError
        If a group has an unknown key, network or task, or the value of a ``dataset`` setting is not
        a name.
    """
    known = parse_section(Sections, sections, "")
    names: set[str | None] = set()
    for section in ("factorial", "interventions"):
        design = parse_section(_DesignData, getattr(known, section), section)
        names.update(design.dataset)
    definitions, _ = read_definitions(known.networks, known.tasks)
    for group, content in known.groups.items():
        if content is None:
            continue
        for where, table in read_tables(group, content).items():
            for pair in network_task_pairs(where, table, definitions):
                names |= _names_of_pair(where, table, pair, definitions)
    return sorted(names)


def _names_of_pair(where: str, table: Table, pair: Pair, definitions: Definitions) -> set[str]:
    """Return the data sets that a network reads on a task: several if `dataset` is swept.

    The file gives every `dataset` that is read, because the setting has no default.
    """
    levels: list[Level] = []
    for layer in setting_layers(where, table, pair, definitions):
        levels = layer.levels.get("dataset", levels)
    names = set()
    for level in levels:
        if isinstance(level.value, str):
            names.add(level.value)
        elif level.value is not None:
            raise ParameterError(
                f"params.yaml: the dataset of {pair.task} is {format_value(level.value)}; "
                "expected the name of a data set"
            )
    return names
