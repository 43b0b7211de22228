"""The grammar of the tables in `params.yaml`: networks and tasks by name, what varies as levels, and rows as what comes of it.

A table (group) is tasks x networks, and ``settings`` for all of them. A key is a field of `lib.training.row.Row`, a keyword of the cell, a setting of its
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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lib.cells import cell_class, cell_names
from lib.run.params import ParameterError, checked, overlaid, shown
from lib.tasks import task_settings
from lib.training.row import LISTS, NAMED, WEIGHTS, Row

MOST = 10**6
"""A table that plans more trainings than this was mistyped."""
_COLUMNS = ("width", "learning_rate")
"""What tables print beside a label, and not in it."""
_OF_TABLE = ("networks", "tasks", "tables")
_KNOWN = {
    *(key for name in cell_names() for key in cell_class(name).hyper_parameters),
    *(k for n in cell_names() for one in cell_class(n).starts.values() for k in one.settings),
}
"""What any cell or start knows."""


class Level(NamedTuple):
    """One level of a factor: its value, what people call it, and whether the file names it."""

    value: Any
    text: str
    named: bool = False


class Said(NamedTuple):
    """What is said of a key, where, and whether with the network itself."""

    value: Any
    where: str
    of_network: bool


def rows(
    group: str, content: Mapping, networks: Mapping[str, Mapping], tasks: Mapping[str, Mapping]
) -> tuple[Row, ...]:
    """Return the rows of a group of `params.yaml`, each with a name of its own.

    Raises
    ------
    ParameterError
        One sentence: where, what came, what was expected.
    """
    where, tasks = f"trainings.{group}", _each_named(tasks)
    shared = _flat(
        {key: v for key, v in _mapping(content, where).items() if key != "tables"}, where
    )
    parts = {where: shared}
    if "tables" in content:
        tables = _mapping(content["tables"], f"{where}.tables")
        said = {n: _flat(t, f"{where}.tables.{n}") for n, t in tables.items() if t is not None}
        parts = {f"{where}.tables.{name}": overlaid(shared, table) for name, table in said.items()}
    read = {at: _Table(at, table, networks, tasks) for at, table in parts.items()}
    found = [list(table.rows()) for table in read.values()]
    for at, part in zip(read, found, strict=True):
        _check_once(at, part)
    if not (all_rows := [row for part in found for row in part]):
        raise ParameterError(f"params.yaml: {where} has no rows; give it networks and tasks")
    idle = sorted(set(shared) & set.intersection(*(table.unused for table in read.values())))
    if idle:
        raise ParameterError(
            f"params.yaml: no network or task of {where} knows {shown(idle[0])}; remove it"
        )
    return _with_names(all_rows)


def _each_named(tasks: Mapping[str, Mapping]) -> dict[str, Mapping]:
    """Return the tasks, those with a setting in their name (``N={time_steps}``) one for each of its levels."""
    found = {}
    for name, said in tasks.items():
        said = _mapping(said, f"tasks.{name}")
        keys = [key for key in said if f"{{{key}}}" in name]
        for levels in itertools.product(*(said[key] for key in keys)):
            chosen = dict(zip(keys, levels, strict=True))
            found[name.format(**chosen) if keys else name] = said | chosen
    return found


class _Table:
    """A table of `params.yaml` on its way to rows."""

    def __init__(self, where: str, content: Mapping, networks: Mapping, tasks: Mapping) -> None:
        self.where, self.known_networks, self.known_tasks = where, networks, tasks
        self.shared = {key: value for key, value in content.items() if key not in _OF_TABLE}
        chosen = content.get("tasks", {})
        if isinstance(chosen, list):
            chosen = {str(name): {} for name in chosen}
        chosen = _mapping(chosen, f"{where}.tasks")
        self.tasks = {name: said for name, said in chosen.items() if said is not None}
        entries = _mapping(content.get("networks", {}), f"{where}.networks")
        self.networks = {name: said for name, said in entries.items() if said is not None}
        for name in self.networks:
            self._named("networks", name, networks)
        for name in self.tasks:
            self._named("tasks", name, tasks)
        self._of_tasks = {
            k for name, said in tasks.items() for k in _settings(said.get("task"), f"tasks.{name}")
        }
        self.unused = {key for key, value in self.shared.items() if value is not None}

    def _named(self, kind: str, name: str, known: Mapping) -> None:
        if name not in known:
            raise ParameterError(
                f"params.yaml: {self.where}.{kind} has {shown(name)}, which is none of {kind}: {', '.join(known)}"
            )

    def rows(self) -> Iterator[Row]:
        planned = 0
        for name, readings in self.networks.items():
            for reading in readings if isinstance(readings, list) else [readings]:
                where = f"{self.where}.networks.{name}"
                reading = _mapping(reading, where)
                chosen = reading.get("tasks", list(self.tasks))
                for task in chosen if isinstance(chosen, list) else [chosen]:
                    self._named("tasks", task, self.tasks)
                    said = self._said(name, reading, task, where)
                    levels = {key: self._levels(key, one) for key, one in said.items()}
                    planned += _product(len(several) for several in levels.values())
                    if planned > MOST:
                        raise ParameterError(
                            f"params.yaml: {self.where} plans {planned:,} rows; expected at most {MOST:,}"
                        )
                    for chosen_levels in itertools.product(*levels.values()):
                        picked = dict(zip(said, chosen_levels, strict=True))
                        yield self._row(name, reading, task, where, said, picked)

    def _said(self, name: str, reading: Mapping, task: str, where: str) -> dict[str, Said]:
        """Return what is said of every key, the later over the earlier."""
        layers = (
            (f"tasks.{task}", self.known_tasks[task], False),
            (self.where, self.shared, False),
            (f"{self.where}.tasks.{task}", _mapping(self.tasks[task], self.where), False),
            (f"networks.{name}", self.known_networks[name], True),
            (where, reading, True),
        )
        both = {key: value for _, layer, _ in layers for key, value in layer.items()}
        cell = both.get("cell")
        kinds = (
            Row.fields(),
            _keywords(cell, where),
            _settings(both.get("task"), f"tasks.{task}"),
            _of_start(cell, both.get("start", "text")),
        )
        said: dict[str, Said] = {}
        for at, layer, of_network in layers:
            for key, value in layer.items():
                if key in ("label", "tasks", "task"):
                    continue
                if self._by_task(value):
                    if task not in value:
                        continue
                    value = value[task]
                if not any(key in kind for kind in kinds):
                    if layer is self.shared and key in _KNOWN | self._of_tasks:
                        continue  # for another cell, or another task
                    raise ParameterError(
                        f"params.yaml: unknown parameter {at}.{key}; expected a field of a row, one of {both.get('cell')}'s "
                        f"keywords ({', '.join(kinds[1]) or 'none'}), or a setting of the task ({', '.join(kinds[2]) or 'none'})"
                    )
                self.unused.discard(key)
                said.pop(key, None)
                said[key] = Said(value, f"{at}.{key}", of_network)
        return said

    def _by_task(self, value: object) -> bool:
        return isinstance(value, Mapping) and bool(value) and set(value) <= set(self.known_tasks)

    def _levels(self, key: str, said: Said) -> list[Level]:
        value = said.value
        if isinstance(value, Mapping) and key not in NAMED:
            levels = [Level(v, str(n), True) for n, v in value.items()]
        elif isinstance(value, list) and key not in LISTS:
            levels = [Level(v, text(v), False) for v in value]
        else:
            return [Level(value, text(value))]
        if not levels or len({json.dumps(level.value) for level in levels}) < len(levels):
            raise ParameterError(
                f"params.yaml: {said.where} is {shown(value)}; levels must differ from each other"
            )
        return levels

    def _row(
        self, name: str, reading: Mapping, task: str, where: str, said: Mapping, picked: Mapping
    ) -> Row:
        given = {key: level.value for key, level in picked.items() if level.value is not None}
        keywords = _keywords(given.get("cell"), where)
        of_start = _of_start(given["cell"], given.get("start", "text"))
        fields = {key: given[key] for key in given if key in Row.fields()}
        objective = fields.get("objective", "plain")
        for key in {"kappa", "orthogonality"} - {WEIGHTS.get(objective)}:
            fields.pop(key, None)
        if fields.get("kappa") == 0:
            fields["objective"] = "plain"  # backpropagation
        rest = {key: given[key] for key in given if key not in Row.fields()}
        texts = {key: level.text for key, level in picked.items()}
        template = reading.get("label", self.known_networks[name].get("label"))
        if template is None:
            varied = [
                picked[key].text if picked[key].named else f"{key}={picked[key].text}"
                for key, one in said.items()
                if picked[key].text
                and one.of_network
                and key not in _COLUMNS
                and self._varies(key, one)
            ]
            template = ", ".join([name, *varied]).replace("{", "{{").replace("}", "}}")
        task_template = self.known_tasks[task].get("label", task)
        row = {
            "network": name,
            "label": _filled(template, texts, where),
            "task_label": _filled(task_template, texts, f"tasks.{task}"),
            "task": {k: v for k, v in rest.items() if k not in (*keywords, *of_start)}
            | {"task": self.known_tasks[task].get("task")},
            "start_settings": {key: value for key, value in rest.items() if key in of_start},
            "hyper_parameters": {key: value for key, value in rest.items() if key in keywords},
        }
        return checked(Row, row | fields, where)

    def _varies(self, key: str, said: Said) -> bool:
        """Return whether a key is written as levels, be it one."""
        value = said.value
        nested = isinstance(value, list) and len(value) == 1 and isinstance(value[0], list)
        return not nested and (
            (isinstance(value, list) and key not in LISTS)
            or (isinstance(value, Mapping) and key not in NAMED)
        )


def text(value: object) -> str:
    """Return a level as people write it, short where that is exact."""
    if isinstance(value, float):
        return short if float(short := f"{value:g}") == value else repr(value)
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value


def _flat(content: object, where: str) -> dict:
    """Return a table with its ``settings`` among its own keys, which stand over them."""
    table = dict(_mapping(content, where))
    return dict(_mapping(table.pop("settings", {}), f"{where}.settings")) | table


def _mapping(content: object, where: str) -> Mapping:
    if not isinstance(content, Mapping):
        raise ParameterError(f"params.yaml: {where} is {shown(content)}; expected keys and values")
    return content


def _product(sizes: Iterator[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _keywords(cell: object, where: str) -> tuple[str, ...]:
    try:
        return tuple(cell_class(cell).hyper_parameters)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"params.yaml: {where}.cell is {shown(cell)}; {error}") from None


def _of_start(cell: str, start: object) -> tuple[str, ...]:
    starts = cell_class(cell).starts
    names = (
        start
        if isinstance(start, list)
        else start.values()
        if isinstance(start, Mapping)
        else [start]
    )
    return tuple(key for name in names if name in starts for key in starts[name].settings)


def _settings(task: object, where: str) -> tuple[str, ...]:
    try:
        return task_settings(task)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"params.yaml: {where}: {error}") from None


def _filled(template: object, texts: Mapping[str, str], where: str) -> str:
    try:
        return template.format_map(texts)
    except (KeyError, ValueError, AttributeError, IndexError) as error:
        raise ParameterError(
            f"params.yaml: the label {shown(template)} of {where} names {error}, which is none of {', '.join(texts)}"
        ) from None


def _check_once(where: str, found: Sequence[Row]) -> None:
    seen: dict[str, Row] = {}
    for row in found:
        key = json.dumps(row.identity(), sort_keys=True)
        if key in seen:
            raise ParameterError(
                f"params.yaml: {where} plans one training twice, as {shown(seen[key].label)} and as {shown(row.label)} "
                f"on {shown(row.task_label)}; plan it once"
            )
        seen[key] = row


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
            run, again = ", ".join([name, *own]), 2
            while run in used:
                run, again = f"{', '.join([name, *own])} ({again})", again + 1
            used.add(run)
            done[i] = found[i].at(run=run)
    return tuple(done)
