"""Wrong values anywhere in `params.yaml`: a setting without its bounds, and text where one of a few is meant, would take them."""

import copy
import math
from functools import reduce
from operator import getitem

import pytest
from designs import profile_of
from study.config.file import merged
from study.config.section import ParameterError
from study.tasks import check_task
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
    for key in ("networks", "tasks", "trainings"):
        yield from ((key, wrong) for wrong in (None, 0, "", True, [content[key]]))


def _with(content, path, wrong):
    """Return a copy of the content with another value at a path."""
    base = copy.deepcopy(content)
    reduce(getitem, path[:-1], base)[path[-1]] = wrong
    return base


def test_wrong_values_are_refused_when_the_file_is_read(trials, draw):
    sections = merged("smoke")
    sections["trainings"] = {"adding": sections["trainings"]["adding"]}  # of tables one is enough

    def load(base):
        return profile_of({"profile": "smoke", "base": base, "profiles": {"smoke": None}}, "smoke")

    assert load(sections).name == "smoke"
    faults = list(_faults(sections))
    for *path, wrong in draw.sample(faults, min(len(trials.some(1500)), len(faults))):
        call = lambda: load(_with(sections, path, wrong))
        trials.refuse((path, wrong), call, ParameterError, lines=LINES)


def test_wrong_settings_of_tasks_are_refused(trials):
    for task in merged("smoke")["tasks"].values():
        said = {k: v[0] if isinstance(v, list) else v for k, v in task.items() if k != "label"}
        for key, value in said.items():
            # Which data sets there are, the whole file says.
            for wrong in () if key == "dataset" else _wrong([key], value, ()):
                call = lambda: check_task(said | {key: wrong})
                trials.refuse((said, key, wrong), call, ValueError, lines=LINES)
