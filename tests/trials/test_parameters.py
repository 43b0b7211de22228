"""Bad `params.yaml`: text that is no YAML, an outline that is none, and values that no experiment can mean."""

import copy
import json
import math
import re

import pytest
from designs import profile_of
from trials.faults import damaged, edited, places

from lib.cells import cell_class, cell_names
from lib.run import params
from lib.run.params import ParameterError, merged, read_params
from lib.training.profile import DESIGNS

pytestmark = pytest.mark.trials

TEXT = """\
# A remark
profile: quick
base:
  jobs: {scheduler: local, workers: 0}
  data:
    datasets: [digits, "mnist"]
  one:
    width: [16, 32]
    rate: 1e-3
    grids:
      - {label: a b, cell: lem}
      - label: 'c'
profiles:
  smoke:
  quick:
    one: {width: 8}
"""
NASTY = [
    "\t", "!!python/object:os.system x", "&a [*a]", "*none", "? ", "- ", ": ", "{", "}", "[", "]", "'", '"', "%YAML 9.9\n",
    "%TAG ! x\n", "\x00", "\x07", "\ufeff", "\u2028", ".inf", "-.INF", ".nan", "2026-01-01", "2026-01-01T00:00:00Z", "!!binary aGk=",
    "!!set {a}", "!!omap [a: 1]", "!!timestamp x", "!!int x", "!!float x", "!!bool 3", "!!null x", "<<: *x", "<<: {profile: 1}", "0x_", "1__2",
    "9" * 5000, "0x" + "f" * 5000, "1e999", "[" * 300, "{a: " * 300, "---\n", "...\n", "--- x\n", "|", ">", "|9\n", "@", "`", "\\", "#", "!", "!<", "&", "*", "\r",
    "\x85", "😀", "null", "~", "1: 2\n", "? [a, b]\n: c\n", "[1]: 2\n", "{}: 1\n", "!!str", "a: b: c", "0o9", "0b2", "190:20:30", "!!merge x",
]  # fmt: skip


LINES = 40
"""Lines of an error: one for each thing that is wrong, and a union says what each of its members expects."""


def _promised(content):
    """Whether a file that was read is what `read_params` promises."""
    return (
        json.loads(json.dumps(content, allow_nan=False)) == content
        and set(content) == {"profile", "base", "profiles"}
        and all(len(path) <= params._DEPTH + 1 for path, _ in places(content))
        and isinstance(content["base"], dict)
        and all(re.fullmatch(r"\w[\w-]*", name) for name in content["profiles"])
        and all(v is None or isinstance(v, dict) for v in content["profiles"].values())
        and content["profile"] in content["profiles"]
    )


def _read(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_params(path)


def test_edited_yaml_is_refused_in_a_sentence_or_is_what_was_promised(trials, draw, tmp_path):
    path = tmp_path / "params.yaml"
    assert _promised(_read(path, TEXT))
    for i in trials.some(1900):
        text = edited(draw, TEXT, NASTY) if i % 5 else damaged(draw, TEXT.encode())
        trials.refuse(
            text[:60], lambda: _read(path, text), ParameterError, lines=LINES, right=_promised
        )


NAMES = {
    "architecture", "cell", "dataset", "device", "head", "initialisation", "method", "noise", "order", "scheduler", "start", "task",
}  # fmt: skip
"""Where a text is one of a few: any other is refused."""
FREE = {"hyper_parameters", "options", "task"}
"""What is below is the cell's, the optimiser's or the task's own."""
MAY_BE_EMPTY = {"drops", "groups", "longer", "measures"}
"""Lists of what is done besides: an empty one says that nothing is."""
ROW = {
    "width": 4, "learning_rate": 0.1, "batch_size": 2, "records": 1, "steps": 2, "test_draws": 2, "kappa": 1.0, "orthogonality": 1.0,
}  # fmt: skip
DRAWN = {"task": "adding", "time_steps": 10}
LONG = "x" * 5000


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


def load(base):
    """Load a profile of these sections."""
    return profile_of({"profile": "smoke", "base": base, "profiles": {"smoke": None}}, "smoke")


@pytest.fixture(scope="module")
def sections():
    """The sections of a profile, of whose tables one is enough."""
    found = merged("smoke")
    return found | {"trainings": {"adding": found["trainings"]["adding"]}}


def _copied(sections, path):
    """Return a copy of the sections, and what lies at a path in it."""
    base = place = copy.deepcopy(sections)
    for key in path:
        place = place[key]
    return base, place


def test_wrong_values_are_refused_when_the_file_is_read(trials, draw, sections):
    assert load(sections).name == "smoke"
    faults = list(_faults(sections))
    for *path, wrong in draw.sample(faults, min(len(trials.some(1500)), len(faults))):
        base, place = _copied(sections, path[:-1])
        place[path[-1]] = wrong
        trials.refuse((path, wrong), lambda: load(base), ParameterError, lines=LINES)


def test_misspelt_keys_are_refused(trials, draw, sections):
    named = ("networks", "tasks", "trainings")  # what stands there are names of people's choice
    paths = [path for path, _ in places(sections) if path and isinstance(path[-1], str)]
    keys = [path for path in paths if path[0] not in named or len(path) == 1]
    for *front, key in draw.sample(keys, min(len(trials.some(400)), len(keys))):
        base, place = _copied(sections, front)
        name = draw.choice((f"{key}x", key[:-1] or "_", key.upper() + "_", f"{key} ", ""))
        place[name] = place[key] if draw.random() < 0.5 else place.pop(key)
        trials.refuse((*front, key, name), lambda: load(base), ParameterError, lines=LINES)


def _table(sections, network="N", task="T", *, shared=None, reading=None, **named):
    """Return sections with one table: a network on a task, further networks and tasks by name."""
    table = {"settings": ROW | (shared or {}), "tasks": [task]}
    table |= {"networks": {network: reading or {}}}
    known = {"networks": {"N": {"cell": "lem"}}, "tasks": {"T": DRAWN}}
    known = {key: sections[key] | known[key] | named.get(key, {}) for key in known}
    return sections | known | {"trainings": {"table": table}}


def _of_another_kind(value):
    match value:
        case bool():
            return ("true", 0, 1, 0.5)
        case int():
            return (str(value), value + 0.5, -3, True, "null")
        case float():
            return (str(value), True, "null", "")
        case str():
            return (3, True, "nothing", LONG)
    return ()


def _wrong_rows(sections):
    """Yield (what, sections) of rows that nothing can train, or that would train what nobody meant."""
    for shared in (
        {"options": {"lr": 5}}, {"options": {"bogus": 1}}, {"options": {"eps": True}}, {"options": {"amsgrad": 1}},
        {"options": {"fused": 1}}, {"options": {"eps": [2, 3]}}, {"options": {LONG: 1}}, {"optimiser": LONG},
        {"groups": [{"names": "nothing.*"}]}, {"groups": [{"names": "cell.*", "factor": True}]}, {"frozen": ["cell.Wx"]},
        {"test_draws": 0}, {"test_draws": True}, {"test_size": 0}, {"steps": 0}, {"steps": 0, "epochs": 3}, {"epochs": 3}, {LONG: 1},
    ):  # fmt: skip
        yield shared, _table(sections, shared=shared)
    for cell in cell_names():
        for key, keyword in cell_class(cell).hyper_parameters.items():
            for wrong in ("null", "0.5", "", -1e13, [["x"]], LONG):
                if not (wrong == -1e13 and "(-inf" in str(keyword)):
                    network = {"N": {"cell": cell, key: wrong}}
                    yield (cell, key, wrong), _table(sections, networks=network)
    tasks = {said["task"]: said for said in (*sections["tasks"].values(), DRAWN)}
    for task in tasks.values():
        said = {k: v[0] if isinstance(v, list) else v for k, v in task.items() if k != "label"}
        for key, value in said.items():
            for wrong in _of_another_kind(value):
                if key != "share" or wrong is not True:
                    yield (said, key, wrong), _table(sections, tasks={"T": said | {key: wrong}})
    for text in ("\ud800", "a\x00b", "\x1b[2J", LONG):
        yield text, _table(sections, network=text, networks={text: {"cell": "lem"}})
        yield text, _table(sections, task=text, tasks={text: DRAWN})
        yield text, _table(sections, reading={"label": text})
        yield text, _table(sections, reading={text: 1})


def test_what_cannot_train_is_refused_when_the_file_is_read(trials, draw, sections):
    trials.accept("a row", lambda: len(load(_table(sections)).trainings("table")), (1).__eq__)
    wrong = list(_wrong_rows(sections))
    for what, base in draw.sample(wrong, len(trials.some(len(wrong)))):
        trials.refuse(what, lambda: load(base), ParameterError, lines=LINES)


def test_trainings_that_differ_anywhere_stay_apart(trials, draw, sections):
    """Levels that print alike, and names that are parts of others: each its own run, or refused."""
    for _ in trials.some(60):
        rate = draw.uniform(1e-4, 1e-2)
        near = rate * (1 + draw.choice((1e-6, 1e-9, 2**-50)))
        alike = _table(sections, reading={"learning_rate": [rate, near]})
        a, b, c = (draw.choice(("a", "b", "a b", "N", "1", "dt=0.1")) for _ in range(3))
        joint = draw.choice((", ", " ", ",", "; "))
        networks = {a: {"cell": "lem"}, f"{a}{joint}{b}": {"cell": "gru"}}
        tasks = {c: DRAWN, f"{b}{joint}{c}": DRAWN | {"time_steps": 11}}
        parts = _table(sections, networks=networks, tasks=tasks)
        parts["trainings"]["table"] |= {"tasks": [*tasks], "networks": {n: {} for n in networks}}
        for what, base, count in (((rate, near), alike, 2), ((a, b, c, joint), parts, 4)):
            call = lambda: load(base).trainings("table")
            right = lambda jobs: len({job.run for job in jobs}) == len(jobs) == count
            trials.refuse(what, call, ParameterError, lines=LINES, right=right)
