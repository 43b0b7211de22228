"""The grammar of the tables in `params.yaml`: networks and tasks by name, what varies as levels, and rows as what comes of it.

A table (group) is tasks x networks, and ``settings`` for all of them. A key is a field of `study.training.rows.Row`, a keyword of the cell, a setting of its
start or of the task, and no name is two of these. Its value is

=============================== ============================================================================================
``0.01``                        what holds
``[0.01, 0.1]``                 levels: a row for each, crossed with those of other keys; one that is itself a list is ``[[0.1, 0.3]]``
``{i=0: 1.0, i=3: 0.125}``      levels with names for people
``{sMNIST: 0.2, psMNIST: 0.3}`` a value, or levels, for each task by its name
``null``                        the default
=============================== ============================================================================================

It may stand with a task (``tasks``), with the table, with a task of the table, with a network (``networks``), and with a network of the table,
which may have several readings in a list; the later stands over the earlier. What a table says goes to all of its cells and tasks that
know it. A network is trained on all tasks of its table, or on its own ``tasks`` alone; ``tables`` are several tables of one dataset.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from longrnn.cells import cell_class

from study.config.file import overlaid
from study.config.recipe import WEIGHTS
from study.config.run import PARTS, RunConfig
from study.config.section import ParameterError, checked, format_value, nearest
from study.tasks import find_task
from study.training.rows import WHOLE, Row

_COLUMNS = ("width", "learning_rate")
"""What tables print beside a label, and not in it."""


class Level(NamedTuple):
    """One level of a factor: its value, what people call it, and what it adds to a label that says nothing itself."""

    value: Any
    text: str
    part: str = ""


def rows(
    group: str, content: Mapping, networks: Mapping[str, Mapping], tasks: Mapping[str, Mapping]
) -> tuple[Row, ...]:
    """Return the rows of a group of `params.yaml`, each with a name of its own.

    A `ParameterError` says in one sentence where something is wrong, what came, and what was expected.
    """
    where, tasks = f"trainings.{group}", _each_named(tasks)
    shared = _flat({key: said for key, said in content.items() if key != "tables"}, where)
    parts = {where: shared}
    if "tables" in content:
        parts = {
            f"{where}.tables.{name}": overlaid(shared, _flat(table, f"{where}.tables.{name}"))
            for name, table in mapping(content["tables"], f"{where}.tables").items()
            if table is not None
        }
    tables = [_Table(at, table, networks, tasks) for at, table in parts.items()]
    planned = [row for table in tables for row in table.rows()]
    if not planned:
        raise ParameterError(f"params.yaml: {where} has no rows; give it networks and tasks")
    said = {k for table in tables for k, value in table.shared.items() if value is not None}
    if idle := sorted(said.difference(*(table.used for table in tables))):
        raise ParameterError(
            f"params.yaml: no network or task of {where} knows {format_value(idle[0])}; remove it"
        )
    return _with_names(planned)


def _each_named(tasks: Mapping[str, Mapping]) -> dict[str, Mapping]:
    """Return the tasks, those with a setting in their name (``N={time_steps}``) one for each of its levels."""
    found = {}
    for name, said in tasks.items():
        _known(_settings, said.get("task"), f"tasks.{name}")
        keys = [key for key in re.findall(r"\{(\w+)\}", name) if key in said]
        for levels in itertools.product(*(_several(said[key]) for key in keys)):
            chosen = said | dict(zip(keys, levels, strict=True))
            filled = _filled(name, chosen, f"tasks.{name}")
            if found.setdefault(filled, chosen) is not chosen:
                raise ParameterError(
                    f"params.yaml: two tasks come to the name {format_value(filled)}"
                )
    return found


class _Table:
    """A table of `params.yaml` on its way to rows; `used` are the keys that a network or a task has known so far."""

    def __init__(self, where: str, content: Mapping, networks: Mapping, tasks: Mapping) -> None:
        self.where, self.known_networks, self.known_tasks = where, networks, tasks
        self.used: set[str] = set()
        self.shared = {k: v for k, v in content.items() if k not in ("networks", "tasks")}
        self.tasks = _chosen("tasks", content.get("tasks", {}), tasks, f"{where}.tasks")
        said = content.get("networks", {})
        self.networks = _chosen("networks", said, networks, f"{where}.networks")

    def rows(self) -> Iterator[Row]:
        """Yield the rows; no two of them are one training."""
        seen: dict[str, Row] = {}
        for name, readings in self.networks.items():
            where = f"{self.where}.networks.{name}"
            for reading in readings if isinstance(readings, list) else [readings]:
                chosen = _several(mapping(reading, where).get("tasks", list(self.tasks)))
                for task in _chosen("tasks", chosen, self.tasks, f"{self.where}.tasks"):
                    for row in self._expanded(name, reading, task, where):
                        same = seen.setdefault(json.dumps(row.identity(), sort_keys=True), row)
                        if same is not row:
                            raise ParameterError(
                                f"params.yaml: {self.where} plans one training twice, as {format_value(same.label)} and as "
                                f"{format_value(row.label)} on {format_value(row.task_label)}; plan it once"
                            )
                        yield row
        if idle := self.networks.keys() - {row.network for row in seen.values()}:
            raise ParameterError(
                f"params.yaml: {self.where} plans no training of {', '.join(sorted(idle))}; name its tasks, or leave it out with null"
            )

    def _expanded(self, name: str, reading: Mapping, task: str, where: str) -> Iterator[Row]:
        """Yield a row for each meeting of the levels of a network on a task."""
        levels, places = self._levels(name, reading, task, where)
        maker = self.known_tasks[task]
        label = reading.get("label", self.known_networks[name].get("label"))
        for chosen in itertools.product(*levels.values()):
            texts = {key: level.text for key, level in zip(levels, chosen, strict=True)}
            parts = ", ".join([name, *(level.part for level in chosen if level.part)])
            row: dict[str, Any] = {
                "network": name,
                "label": parts if label is None else _filled(label, texts, where),
                "task_label": _filled(maker.get("label", task), texts, f"tasks.{task}"),
                "task": {"task": maker.get("task")},
                "start_settings": {},
                "hyper_parameters": {},
            }
            for key, level in zip(levels, chosen, strict=True):
                if level.value is not None:
                    (row[places[key]] if places[key] else row)[key] = level.value
            weight = WEIGHTS.get(str(row.get("objective", "plain")))
            for key in {"kappa", "orthogonality"} - {weight}:
                if key in reading:
                    raise ParameterError(f"params.yaml: {where} gives {key} without its objective")
                row.pop(key, None)
            if row.get("kappa") == 0:
                row["objective"] = "plain"  # backpropagation
            yield Row.of(checked(RunConfig, _parts(row), where), where)

    def _levels(
        self, name: str, reading: Mapping, task: str, where: str
    ) -> tuple[dict[str, list[Level]], dict[str, str]]:
        """Return the levels of every key, the later over the earlier; and in which part of a row a key belongs, ``""`` its fields."""
        layers = (
            (f"tasks.{task}", self.known_tasks[task], ("task", "label"), False),
            (self.where, self.shared, (), False),
            (f"{self.where}.tasks.{task}", mapping(self.tasks[task], self.where), (), False),
            (f"networks.{name}", self.known_networks[name], ("label",), True),
            (where, reading, ("tasks", "label"), True),
        )
        both = {key: value for _, layer, *_ in layers for key, value in layer.items()}
        cell = both.get("cell")
        keywords = _known(lambda name: cell_class(name).hyper_parameters, cell, f"{where}.cell")
        settings = _settings(self.known_tasks[task]["task"])
        starts = map(cell_class(cell).starts.get, map(str, _several(both.get("start", "text"))))
        places = {
            **dict.fromkeys(settings, "task"),
            **{key: "start_settings" for start in starts if start for key in start.settings},
            **dict.fromkeys(keywords, "hyper_parameters"),
            **dict.fromkeys(Row.fields(), ""),
        }
        levels: dict[str, list[Level]] = {}
        for at, layer, entries, of_network in layers:
            for key, value in layer.items():
                if key in entries:
                    continue
                if isinstance(value, Mapping) and value.keys() & self.known_tasks.keys():
                    _chosen("tasks", value, self.known_tasks, f"{at}.{key}")
                    if task not in value:
                        continue
                    value = value[task]
                if key not in places:
                    if layer is self.shared:
                        continue  # for another cell, or another task
                    raise ParameterError(
                        f"params.yaml: unknown parameter {at}.{key}; expected a field of a row, one of {cell}'s "
                        f"keywords ({', '.join(keywords) or 'none'}), or a setting of the task ({', '.join(settings) or 'none'})"
                    )
                self.used.add(key)
                levels.pop(key, None)
                levels[key] = _levels_in(key, value, f"{at}.{key}", of_network)
        return levels, places


def _parts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as the parts of a `RunConfig`."""
    parts: dict[str, Any] = {name: {} for name in PARTS}
    for key, value in row.items():
        part = next((name for name, kind in PARTS.items() if key in kind.model_fields), None)
        if key == "network":
            parts["network_name"] = value
        elif key == "task":
            parts["task"] = {"maker": value.pop("task"), "settings": value}
        elif part is None:
            parts[key] = value
        else:
            parts[part][key] = value
    return parts


def _chosen(kind: str, entries: object, known: Mapping, where: str) -> dict[str, Any]:
    """Return what is said of networks or tasks, all of them known, without those that a profile removes; a list names them alone."""
    if isinstance(entries, list):
        entries = {str(name): {} for name in entries}
    for name in mapping(entries, where):
        if name not in known:
            raise ParameterError(
                f"params.yaml: {where} has {format_value(name)}, which is none of {kind}: {nearest(name, known)}"
            )
    return {name: said for name, said in entries.items() if said is not None}


def _levels_in(key: str, value: object, where: str, of_network: bool) -> list[Level]:
    """Return the levels in what is said of a key; labels tell those that stand with the network itself."""
    if key in WHOLE or not isinstance(value, Mapping | list):
        return [Level(value, text(value))]
    if isinstance(value, Mapping):
        levels = [Level(v, str(n), str(n)) for n, v in value.items()]
    else:
        fixed = len(value) == 1 and isinstance(value[0], list)
        levels = [Level(v, text(v), "" if fixed else f"{key}={text(v)}") for v in value]
    if not levels or len({json.dumps(level.value) for level in levels}) < len(levels):
        raise ParameterError(
            f"params.yaml: {where} is {format_value(value)}; levels must differ from each other"
        )
    in_labels = of_network and key not in _COLUMNS
    return [level if in_labels and level.text else level._replace(part="") for level in levels]


def text(value: object) -> str:
    """Return a level as people write it, short where that is exact."""
    if isinstance(value, float):
        return short if float(short := f"{value:g}") == value else repr(value)
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value


def _flat(content: object, where: str) -> dict:
    """Return a table with its ``settings`` among its own keys, which stand over them."""
    table = dict(mapping(content, where))
    return dict(mapping(table.pop("settings", {}), f"{where}.settings")) | table


def mapping(content: object, where: str) -> Mapping:
    """Return what has keys and values; raises `ParameterError` where it has none."""
    if not isinstance(content, Mapping):
        raise ParameterError(
            f"params.yaml: {where} is {format_value(content)}; expected keys and values"
        )
    return content


def _several(value: object) -> list:
    """Return the levels in a value."""
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else [value]


def _settings(task: object) -> Iterable[str]:
    return find_task({"task": task}).settings.model_fields


def _known(ask: Callable[[Any], Iterable[str]], name: object, where: str) -> tuple[str, ...]:
    """Return the keys that a cell or a task knows; raises `ParameterError` where there is none of that name."""
    try:
        return tuple(ask(str(name)))
    except ValueError as error:
        raise ParameterError(f"params.yaml: {where} is {format_value(name)}; {error}") from None


def _filled(template: object, texts: Mapping[str, str], where: str) -> str:
    try:
        return template.format_map(texts)
    except (KeyError, ValueError, AttributeError, IndexError, TypeError):
        raise ParameterError(
            f"params.yaml: the label of {where} is {format_value(template)}; expected text, with names among {', '.join(texts)} in braces"
        ) from None


def _with_names(found: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows with the names that they have in the dataset: label, task, and what else tells rows of a name apart."""
    said = [row.levels() for row in found]
    names: dict[str, list[int]] = {}
    for i, row in enumerate(found):
        names.setdefault(f"{row.label}, {row.task_label}", []).append(i)
    done, used = list(found), set()
    for name, members in names.items():
        keys = dict.fromkeys(key for i in members for key in said[i])
        differing = [k for k in keys if len({json.dumps(said[i].get(k)) for i in members}) > 1]
        for i in members:
            own = [f"{k}={text(said[i][k])}" for k in differing if k in said[i]]
            run = ", ".join([name, *own])
            while run in used:
                run += " (2)"
            used.add(run)
            done[i] = found[i].at(run=run)
    return tuple(done)
