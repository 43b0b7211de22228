"""Bad `params.yaml`: text that is no YAML, an outline that is none, and values that no experiment can mean."""

import copy
import json
import math
import re

import pytest
from trials.nested import places

from lib.run import params
from lib.run.params import ParameterError, merged, read_params
from lib.training.profile import DESIGNS, load_profile

pytestmark = pytest.mark.trials
KIND = "parameters"

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


def _plain(value, depth=0):
    if isinstance(value, dict):
        return depth <= params._DEPTH and all(
            isinstance(k, str) and _plain(v, depth + 1) for k, v in value.items()
        )
    if isinstance(value, list):
        return depth <= params._DEPTH and all(_plain(v, depth + 1) for v in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or type(value) in (str, int, float, bool)


def _promised(content):
    """Whether a file that was read is what `read_params` promises."""
    json.dumps(content)
    return (
        set(content) == {"profile", "base", "profiles"}
        and _plain(content)
        and isinstance(content["base"], dict)
        and all(re.fullmatch(r"\w[\w-]*", name) for name in content["profiles"])
        and all(v is None or isinstance(v, dict) for v in content["profiles"].values())
        and content["profile"] in content["profiles"]
    )


def _edited(draw, text):
    """Text with one to three faults."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at, to = sorted((draw.randrange(len(text) + 1), draw.randrange(len(text) + 1)))
        lines = text.splitlines(keepends=True)
        row = draw.randrange(len(lines)) if lines else 0
        match draw.randrange(8):
            case 0 | 1 | 2:
                text = text[:at] + draw.choice(NASTY) + text[at:]
            case 3:
                text = text[:at] + draw.choice(NASTY) + text[at + draw.randrange(6) :]
            case 4:
                text = text[:at]
            case 5:
                text = text[:at] + text[min(to, at + 20) :]
            case 6:
                text = "".join([*lines[:row], *lines[row : row + 1], *lines[row:]])
            case _:
                row_text = lines[row : row + 1]
                text = "".join(
                    [
                        *lines[:row],
                        *(draw.choice((" ", "\t", "  ")) + t for t in row_text),
                        *lines[row + 1 :],
                    ]
                )
        text = text or "\n"
    return text


def test_edited_yaml_is_refused_in_a_sentence_or_is_what_was_promised(trials, draw, tmp_path):
    path = tmp_path / "params.yaml"
    assert _promised(_read(path, TEXT))
    for _ in trials.some(1500):
        text = _edited(draw, TEXT)
        trials.refuse(
            text[:60], lambda text=text: _read(path, text), ParameterError, right=_promised
        )


def _read(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return read_params(path)


def test_edited_bytes_are_refused_in_a_sentence_or_are_what_was_promised(trials, draw, tmp_path):
    path = tmp_path / "params.yaml"
    whole = TEXT.encode()
    for _ in trials.some(400):
        content = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 5))):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(content)
        trials.refuse(bytes(content), lambda: read_params(path), ParameterError, right=_promised)


def test_names_that_a_shell_would_read_are_refused(trials, draw, tmp_path):
    path = tmp_path / "params.yaml"
    pieces = [
        " ",
        ";",
        "$(x)",
        "`x`",
        "|",
        "&",
        ">",
        "<",
        "..",
        "/",
        "\\",
        "'",
        "*",
        "?",
        "~",
        "!",
        "{a}",
        "(",
        "\n",
        "=",
        ",",
        "#",
        "%",
        "^",
        "-",
        ".",
    ]
    for _ in trials.some(200):
        name = "".join(draw.sample(pieces, draw.choice((1, 1, 2))))
        name = name + "quick" if draw.random() < 0.5 or name == "-" else f"quick{name}"
        if re.fullmatch(r"\w[\w-]*", name):
            name += ";"
        text = json.dumps({"profile": "quick", "base": {}, "profiles": {"quick": None, name: None}})
        trials.refuse(name, lambda text=text: _read(path, text), ParameterError)


# ---- values ---------------------------------------------------------------------------------------------------------

NAMES = {
    "architecture", "cell", "dataset", "device", "head", "initialisation", "method", "noise", "order", "scheduler", "start", "task",
}  # fmt: skip
"""Where a text is one of a few: any other is refused."""
FREE = {"hyper_parameters", "options", "task"}
"""What is below is the cell's, the optimiser's or the task's own, and is checked where it is built; its keys are checked."""


MAY_BE_EMPTY = {"drops", "groups", "measures"}
"""Lists of what is done besides: an empty one says that nothing is."""


def _wrong(path, value, factors):
    """Yield values that are wrong in the place of this one."""
    named = next((key for key in reversed(path) if isinstance(key, str)), "")
    yield from ([],) if named not in MAY_BE_EMPTY else ()
    yield from ({"a": 1}, [[value]], [None], math.inf, -math.inf, math.nan)
    if isinstance(value, bool):
        yield from ("true", "yes", 0, 1, 2, 0.0, None)
    elif isinstance(value, int | float):
        yield from (
            True,
            False,
            str(value),
            f" {value}",
            f"{value}_0",
            "",
            "one",
            None,
            -(10**13),
            10**13,
            -math.pi * 1e13,
        )
    elif isinstance(value, str):
        yield from (1, 1.5, True, None)
        if named in NAMES:
            yield from (
                f"{value}x",
                value.upper() + "?",
                "",
                " ",
                f"{value} ",
                f"{value};touch x",
                "../x",
            )
    elif isinstance(value, list) and named in factors and value:
        yield from (value + value[:1], "", None, {}, dict.fromkeys(map(str, value)))
    elif isinstance(value, dict):
        yield from (None, 0, "", True, [value], [1])


def _faults(content):
    """Yield (path, wrong value) of everything in the sections of a profile."""
    for key, experiment in DESIGNS.items():
        factors = experiment.design.factors()
        for path, value in places(content[key]):
            if path and not any(part in FREE for part in path[:-1]):
                yield from ((key, *path, wrong) for wrong in _wrong(path, value, factors))
    for path, value in places(content["jobs"]):
        if path:
            yield from (("jobs", *path, wrong) for wrong in _wrong(path, value, ()))
    for key in ("networks", "tasks", "trainings"):
        yield from ((key, wrong) for wrong in (None, 0, "", True, [content[key]]))


def _load(content, monkeypatch):
    """Load a profile of this content, as if it had been read from a file."""

    def read(path):
        params._check_outline("params.yaml", content)
        return content

    monkeypatch.setattr(params, "read_params", read)
    return load_profile("smoke")


@pytest.fixture(scope="module")
def sections():
    return merged("smoke")


def _profile(base):
    return {"profile": "smoke", "base": base, "profiles": {"smoke": None}}


LINES = 40
"""Lines of an error: one for each thing that is wrong, and a union says what each of its members expects."""


def _copied(sections, path):
    """Return a copy of the sections, and what lies at a path in it."""
    base = place = copy.deepcopy(sections)
    for key in path:
        place = place[key]
    return base, place


def _refused(trials, what, base, monkeypatch):
    load = lambda: _load(_profile(base), monkeypatch)
    trials.refuse(what, load, ParameterError, lines=LINES)


def test_wrong_values_are_refused_when_the_file_is_read(trials, draw, sections, monkeypatch):
    assert _load(_profile(sections), monkeypatch).name == "smoke"
    faults = list(_faults(sections))
    for *path, wrong in draw.sample(faults, min(len(trials.some(1500)), len(faults))):
        base, place = _copied(sections, path[:-1])
        place[path[-1]] = wrong
        _refused(trials, (path, wrong), base, monkeypatch)


def test_misspelt_keys_are_refused(trials, draw, sections, monkeypatch):
    named = ("networks", "tasks", "trainings")  # what stands there are names of people's choice
    keys = [
        path
        for path, _ in places(sections)
        if path and isinstance(path[-1], str) and (path[0] not in named or path[:-1] == ())
    ]
    for path in draw.sample(keys, min(len(trials.some(400)), len(keys))):
        base, place = _copied(sections, path[:-1])
        name = draw.choice(
            (f"{path[-1]}x", path[-1][:-1] or "_", path[-1].upper() + "_", f"{path[-1]} ", "")
        )
        place[name] = place[path[-1]] if draw.random() < 0.5 else place.pop(path[-1])
        _refused(trials, (path, name), base, monkeypatch)
