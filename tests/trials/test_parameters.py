"""Wrong values anywhere in `params.yaml`: a setting without its bounds, and text where one of a few is meant, would take them."""

import copy
import math
from functools import reduce
from operator import getitem

import pytest
from designs import profile_of
from study.config.datasets import datasets
from study.config.expand import expand_groups
from study.config.file import merged
from study.config.section import ParameterError
from study.config.tables import read_definitions
from study.tasks import TASKS, check_task
from study.training.profile import DESIGNS
from trials.faults import places

pytestmark = pytest.mark.trials

LINES = 40
"""Lines of an error: one for each thing that is wrong, and a union says what each of its members expects."""

NAMES = {
    "architecture", "cell", "dataset", "device", "head", "initialisation", "method", "noise", "order", "scheduler", "start", "task",
}  # fmt: skip
"""Where a text is one of a few: any other is refused."""
FREE = {"hyper_parameters", "options", "task"}
"""What is below is the cell's, the optimiser's or the task's own."""
MAY_BE_EMPTY = {"drops", "groups", "longer", "measures"}
"""Lists of what is done besides: an empty one says that nothing is."""


def _wrong(path, value, factors):
    """Yield values that are wrong in the place of this one."""
    named = next((key for key in reversed(path) if isinstance(key, str)), "")
    yield from ([],) if named not in MAY_BE_EMPTY else ()
    yield from ({"a": 1}, [[value]], [None], math.inf, -math.inf, math.nan)
    match value:
        case bool():
            yield from ("true", "yes", 0, 1, 2, 0.0, None)
        case int() | float():
            yield from (True, False, str(value), f" {value}", f"{value}_0", "", "one", None)
            yield from (-(10**13), 10**13, -math.pi * 1e13)
        case str():
            yield from (1, 1.5, True, None)
            if named in NAMES:
                yield from (f"{value}x", value.upper() + "?", f"{value} ", f"{value};touch x")
                yield from ("", " ", "../x")
        case list() if named in factors and value:
            yield from (value + value[:1], "", None, {}, dict.fromkeys(map(str, value)))
        case dict():
            yield from (None, 0, "", True, [value], [1])


def _faults(content):
    """Yield (path, wrong value) of everything in the sections of a profile but the tables."""
    sections = {key: experiment.factors() for key, experiment in DESIGNS.items()}
    for key, factors in (sections | {"jobs": ()}).items():
        for path, value in places(content[key]):
            if path and not any(part in FREE for part in path[:-1]):
                yield from ((key, *path, wrong) for wrong in _wrong(path, value, factors))
    for key in ("networks", "tasks", "groups"):
        yield from ((key, wrong) for wrong in (None, 0, "", True, [content[key]]))


def _with(content, path, wrong):
    """Return a copy of the content with another value at a path."""
    base = copy.deepcopy(content)
    reduce(getitem, path[:-1], base)[path[-1]] = wrong
    return base


def test_wrong_values_are_refused_when_the_file_is_read(trials, draw):
    sections = merged("smoke")
    sections["groups"] = {"adding": sections["groups"]["adding"]}  # one group is enough

    def load(base):
        return profile_of({"profile": "smoke", "base": base, "profiles": {"smoke": None}}, "smoke")

    assert load(sections).name == "smoke"
    faults = list(_faults(sections))
    for *path, wrong in draw.sample(faults, min(len(trials.some(1500)), len(faults))):
        call = lambda: load(_with(sections, path, wrong))
        trials.refuse((path, wrong), call, ParameterError, lines=LINES)


def test_wrong_settings_of_tasks_are_refused(trials):
    for task in merged("smoke")["tasks"].values():
        swept = {key: levels[0] for key, levels in task.get("sweep", {}).items()}
        settings = {"task": task["maker"], **task.get("set", {}), **swept}
        for key, value in settings.items():
            # The whole file says which data sets there are.
            for wrong in () if key == "dataset" else _wrong([key], value, ()):
                call = lambda: check_task(settings | {key: wrong})
                trials.refuse((settings, key, wrong), call, ValueError, lines=LINES)


def _typos(name):
    """Yield names that are mistyped: a letter left out, one twice, two exchanged."""
    for i in range(len(name) - 1):
        yield name[:i] + name[i + 1 :]
        yield name[:i] + name[i] + name[i:]
        yield name[:i] + name[i + 1] + name[i] + name[i + 2 :]


def _has_free_name(path):
    """Return whether the last key of a path may be any text: an entry, a table, a level, an option."""
    names = "networks" in path[-2:-1] or "tables" in path[-2:-1] or len(path) == 1
    levels = "sweep" in path[-3:-2] or "sweep_by_task" in path[-4:-3]
    return names or levels or "groups" in path[:-1] or "options" in path[:-1]


def _mistyped(content):
    """Yield paths of keys in networks, tasks and groups with a mistyped key for each."""
    tasks = read_definitions({}, content["tasks"])[0].tasks
    for section in ("networks", "tasks", "groups"):
        for path, _ in places(content[section]):
            if path and isinstance(path[-1], str) and not _has_free_name(path):
                typos = {typo for typo in _typos(path[-1]) if typo != path[-1]}
                yield from (((section, *path), typo) for typo in sorted(typos - tasks.keys()))


def _with_key(content, path, key):
    """Return a copy of the content with another key at the end of a path."""
    base = copy.deepcopy(content)
    parent = reduce(getitem, path[:-1], base)
    parent[key] = parent.pop(path[-1])
    return base


def test_typos_in_keys_are_refused(trials, draw):
    """Mistyped words, settings and tasks; the names of groups, tables and entries are free."""
    sections = merged("smoke")
    makers = {name: maker.settings for name, maker in TASKS.items()}

    def expand(base):
        return expand_groups(base["groups"], base["networks"], base["tasks"], makers)

    assert expand(sections)
    typos = list(_mistyped(sections))
    for path, key in draw.sample(typos, min(len(trials.some(300)), len(typos))):
        call = lambda: expand(_with_key(sections, path, key))
        trials.refuse((path, key), call, ParameterError, lines=LINES)


JUNK = (None, 0, -1, 1.5, 10**17, "", "x", True, [], {}, [1], [[1]], [None], {"a": 1}, {"set": {}})


def test_junk_in_groups_is_accepted_or_refused(trials, draw):
    """Whatever stands anywhere in networks, tasks and groups: a sentence, or other runs."""
    sections = merged("smoke")
    few = ("fast_slow", "adding", "padding", "worms", "keywords")
    sections["groups"] = {name: sections["groups"][name] for name in few}
    makers = {name: maker.settings for name, maker in TASKS.items()}
    paths = [
        (section, *path)
        for section in ("networks", "tasks", "groups")
        for path, _ in places(sections[section])
        if path
    ]

    def expand(base):
        datasets(base)
        return expand_groups(base["groups"], base["networks"], base["tasks"], makers)

    for _ in trials.some(1000):
        path, junk = draw.choice(paths), draw.choice(JUNK)
        call = lambda: expand(_with(sections, path, junk))
        trials.refuse((path, junk), call, ParameterError, right=bool, lines=LINES)
