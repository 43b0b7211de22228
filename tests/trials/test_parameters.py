"""Wrong values, typos and junk anywhere in `params.yaml`."""

import copy
import math
from functools import partial, reduce
from operator import getitem

import pytest
from designs import profile_of
from study.config.datasets import datasets
from study.config.definitions import read_definitions
from study.config.expand import expand_groups
from study.config.file import merge_profile
from study.config.section import ParameterError
from study.tasks import MAKERS, check_task
from study.training.plans import DESIGNS
from trials.faults import paths_and_values

pytestmark = pytest.mark.trials

LINES = 40
"""Lines of an error: one per fault; a union says what each of its members expects."""

NAMES = {
    "architecture", "cell", "dataset", "device", "head", "initialization", "method", "noise",
    "order", "scheduler", "start", "task",
}  # fmt: skip
"""Settings whose value is one of a few names; any other is refused."""
FREE = {"hyper_parameters", "options", "task"}
"""Settings of the cell, the optimizer or the task, which these check themselves."""
MAY_BE_EMPTY = {"drops", "groups", "longer", "measures"}
"""Lists that may be empty."""


def _wrong(path, value, factors):
    """Yield values that are wrong in the place of this one."""
    keys = [key for key in path if isinstance(key, str)]
    key = keys[-1] if keys else ""
    if key not in MAY_BE_EMPTY:
        yield []
    yield from ({"a": 1}, [[value]], [None], math.inf, -math.inf, math.nan)
    match value:
        case bool():
            yield from ("true", "yes", 0, 1, 2, 0.0, None)
        case int() | float():
            yield from (True, False, str(value), f" {value}", f"{value}_0", "", "one", None)
            yield from (-(10**13), 10**13, -math.pi * 1e13)
        case str():
            yield from (1, 1.5, True, None)
            if key in NAMES:
                yield from (f"{value}x", value.upper() + "?", f"{value} ", f"{value};touch x")
                yield from ("", " ", "../x")
        case list() if key in factors and value:
            yield from (value + value[:1], "", None, {}, dict.fromkeys(map(str, value)))
        case dict():
            yield from (None, 0, "", True, [value], [1])


def _faults(content):
    """Yield (path, wrong value) for everything in the sections of a profile but the tables."""
    factors_of = {section: kind.design.factors() for section, kind in DESIGNS.items()}
    factors_of["jobs"] = ()
    for section, factors in factors_of.items():
        for path, value in paths_and_values(content[section]):
            if path and not FREE.intersection(path[:-1]):
                for wrong in _wrong(path, value, factors):
                    yield (section, *path, wrong)
    for section in ("networks", "tasks", "groups"):
        for wrong in (None, 0, "", True, [content[section]]):
            yield (section, wrong)


def _with(content, path, wrong):
    """Return a copy of the content with another value at a path."""
    base = copy.deepcopy(content)
    reduce(getitem, path[:-1], base)[path[-1]] = wrong
    return base


def _expand(content):
    """Return the runs of all groups in some content."""
    makers = {name: maker.settings for name, maker in MAKERS.items()}
    return expand_groups(content["groups"], content["networks"], content["tasks"], makers)


def _load(base):
    return profile_of({"profile": "smoke", "base": base, "profiles": {"smoke": None}}, "smoke")


def test_wrong_values_are_refused(trials, draw):
    sections = merge_profile("smoke")
    sections["groups"] = {"adding": sections["groups"]["adding"]}  # one group is enough
    assert _load(sections).name == "smoke"
    faults = list(_faults(sections))
    for *path, wrong in draw.sample(faults, min(len(trials.some(1500)), len(faults))):
        content = _with(sections, path, wrong)
        trials.refuse((path, wrong), partial(_load, content), ParameterError, lines=LINES)


def test_wrong_settings_of_tasks_are_refused(trials):
    for task in merge_profile("smoke")["tasks"].values():
        settings = {"task": task["maker"], **task.get("set", {})}
        for key, levels in task.get("sweep", {}).items():
            settings[key] = levels[0]
        for key, value in settings.items():
            if key == "dataset":  # the whole file says which data sets there are
                continue
            for wrong in _wrong([key], value, ()):
                call = partial(check_task, settings | {key: wrong})
                trials.refuse((settings, key, wrong), call, ValueError, lines=LINES)


def _typos(name):
    """Yield names that are mistyped: a letter left out, one twice, two exchanged."""
    for i in range(len(name) - 1):
        yield name[:i] + name[i + 1 :]
        yield name[:i] + name[i] + name[i:]
        yield name[:i] + name[i + 1] + name[i] + name[i + 2 :]


def _has_free_name(path):
    """Return whether the last key of a path may be any text, such as the name of an entry."""
    if len(path) == 1 or path[-2] in ("networks", "tables"):
        return True
    if "sweep" in path[-3:-2] or "sweep_by_task" in path[-4:-3]:  # a label of a level
        return True
    return "groups" in path[:-1] or "options" in path[:-1]


def _mistyped(content):
    """Yield (path, mistyped key) for every key in networks, tasks and groups."""
    tasks = read_definitions({}, content["tasks"])[0].tasks
    for section in ("networks", "tasks", "groups"):
        for path, _ in paths_and_values(content[section]):
            if path and isinstance(path[-1], str) and not _has_free_name(path):
                typos = set(_typos(path[-1])) - tasks.keys() - {path[-1]}
                for typo in sorted(typos):
                    yield (section, *path), typo


def _with_key(content, path, key):
    """Return a copy of the content with another key at the end of a path."""
    base = copy.deepcopy(content)
    parent = reduce(getitem, path[:-1], base)
    parent[key] = parent.pop(path[-1])
    return base


def test_typos_in_keys_are_refused(trials, draw):
    """Mistyped words, settings and tasks; the names of groups, tables and entries are free."""
    sections = merge_profile("smoke")
    assert _expand(sections)
    typos = list(_mistyped(sections))
    for path, key in draw.sample(typos, min(len(trials.some(300)), len(typos))):
        content = _with_key(sections, path, key)
        trials.refuse((path, key), partial(_expand, content), ParameterError, lines=LINES)


JUNK = (None, 0, -1, 1.5, 10**17, "", "x", True, [], {}, [1], [[1]], [None], {"a": 1}, {"set": {}})


def _check_and_expand(content):
    datasets(content)
    return _expand(content)


def test_junk_in_groups_is_refused_or_expands(trials, draw):
    """Junk anywhere in networks, tasks and groups is refused, or plans other runs."""
    sections = merge_profile("smoke")
    few = ("fast_slow", "adding", "padding", "worms", "keywords")
    sections["groups"] = {name: sections["groups"][name] for name in few}
    paths = []
    for section in ("networks", "tasks", "groups"):
        for path, _ in paths_and_values(sections[section]):
            if path:
                paths.append((section, *path))
    for _ in trials.some(1000):
        path = draw.choice(paths)
        junk = draw.choice(JUNK)
        call = partial(_check_and_expand, _with(sections, path, junk))
        trials.refuse((path, junk), call, ParameterError, right=bool, lines=LINES)
