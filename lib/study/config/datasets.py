"""The prepared data sets that a profile reads."""

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from study.config.grammar import Sections, Table
from study.config.levels import Level
from study.config.section import Factor, ParameterError, Section, checked, format_value
from study.config.tables import (
    Definitions,
    Pair,
    layers,
    pairs,
    read_definitions,
    read_tables,
)


class _DesignData(Section):
    """The part of a design that names data sets."""

    model_config = ConfigDict(extra="ignore")
    dataset: Factor[str]


def datasets(sections: Mapping[str, Any]) -> list[str]:
    """Return the names of the data sets that any run of a profile reads, sorted.

    This needs neither the cells nor the tasks, so it takes no time.

    Parameters
    ----------
    sections : mapping
        The sections of a profile as plain values (`study.config.file.merged`).

    Raises
    ------
    ParameterError
        If a group has an unknown word, network or task, or a data set is not a name.
    """
    known = checked(Sections, sections, "")
    names: set[str | None] = set()
    for section in ("factorial", "interventions"):
        design = checked(_DesignData, getattr(known, section), section)
        names.update(design.dataset)
    definitions, _ = read_definitions(known.networks, known.tasks)
    for group, content in known.groups.items():
        if content is None:
            continue
        for where, table in read_tables(group, content).items():
            for pair in pairs(where, table, definitions):
                names |= _of_pair(where, table, pair, definitions)
    return sorted(names)


def _of_pair(where: str, table: Table, pair: Pair, definitions: Definitions) -> set[str]:
    """Return the data sets that a network reads on a task: none, one, or several levels."""
    levels: list[Level] = []
    for layer in layers(where, table, pair, definitions):
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
