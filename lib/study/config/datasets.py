"""The prepared data sets that a profile reads."""

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from study.config.grammar import Sections
from study.config.section import Factor, Section, checked
from study.config.tables import layers, pairs, read_definitions, read_tables


class _FactorialData(Section):
    """The part of the factorial design that names data sets."""

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
        If a group has an unknown word, network or task.
    """
    known = checked(Sections, sections, "")
    names = set(checked(_FactorialData, known.factorial, "factorial").dataset)
    definitions, _ = read_definitions(known.networks, known.tasks)
    for group, content in known.groups.items():
        if content is None:
            continue
        for where, table in read_tables(group, content).items():
            for pair in pairs(where, table, definitions):
                settings: dict[str, Any] = {}
                for layer in layers(where, table, pair, definitions):
                    settings |= layer.levels
                names |= {level.value for level in settings.get("dataset", ())}
    return sorted(names - {None})
