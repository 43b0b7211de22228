"""Bad notebooks, parameters and paths, as `python -m lib.run` meets them."""

import argparse
import contextlib
import copy
import functools
import json
import math
import operator
import os
from pathlib import Path

import nbformat
import pytest
from plain import plain_notebook
from trials.faults import edited, places

from lib.paths import NOTEBOOKS
from lib.run.execute import _invalid, planned
from lib.run.notebooks import NotebookError, convert, read_parameters

pytestmark = pytest.mark.trials

PARAMETERS = 'count = 1\nrate = 0.1\nflag = False\nname = "x"\nresults = "r"\nresult_set = "s"'


BITS = (
    "", "[", "]", "{", "}", '"', ",", "null", "\\", "\\u0000", "\t", "1e999", "NaN", "-Infinity", "\x00", "é", "9" * 5000, "[" * 3000,
)  # fmt: skip
KINDS = (
    None, True, 0, 1.5, "", "x", [], {}, [None], [[]], {"a": None}, {"name": 3}, ["parameters", 1], [{}], "\x00", "a = 1\x00", 10**30,
)  # fmt: skip
FOLDERS = (
    "notebooks", "..", ".", "data", "x", "21_parameter_counts.ipynb", "a.ipynb", "b.txt", "link", "folder", "", "{set}",
)  # fmt: skip
LABELS = (
    "", "one", "real", "a-b", "../x", "/", "a b", "$(x)", "..", "", "x;y", "notebooks/../x", "é/",
)  # fmt: skip


def _notebook(parameters=PARAMETERS):
    return json.loads(nbformat.writes(plain_notebook(parameters)))


def _scalars(found):
    kinds = {type(value) for value in found.values()} <= {bool, int, float, str}
    return kinds and all(isinstance(value, str) or math.isfinite(value) for value in found.values())


def _look(path):
    """All that `lib.run` looks at before it starts a kernel."""
    found = read_parameters(path)
    assert isinstance(_invalid(path), str)
    return found


def _exchanged(draw):
    """Return a notebook one or two of whose parts are of another kind, or gone."""
    notebook = _notebook()
    for _ in range(draw.choice((1, 1, 2))):
        *front, last = draw.choice([path for path, _ in places(_notebook()) if path])
        # What the first fault took away has no parts.
        with contextlib.suppress(LookupError, TypeError):
            at = functools.reduce(operator.getitem, front, notebook)
            if draw.random() < 0.2:
                del at[last]
            else:
                at[last] = copy.deepcopy(draw.choice(KINDS))
    return json.dumps(notebook)


def test_edited_files_and_parts_of_another_kind_are_refused_or_read(trials, draw, tmp_path):
    path = tmp_path / "a.ipynb"
    whole = json.dumps(_notebook(), indent=1)
    path.write_text(whole)
    assert _invalid(path) == ""
    for i in trials.some(1200):
        text = edited(draw, whole, BITS) if i % 2 else _exchanged(draw)
        path.write_text(text, encoding="utf-8")
        trials.refuse(text[:80], lambda: _look(path), NotebookError, right=_scalars)


GOOD = [
    "1", "-3", "0.5", "-.5", "True", "False", "'x'", '"a b"', "1e-3", "''", "10_000", "+2", "'a' 'b'",
]  # fmt: skip
BAD = [
    "None", "[1]", "(1,)", "{}", "{1}", "{[]: 1}", "{**{}}", "1 + n", "1 + 1j", "f()", "lambda: 1", "b'x'", "1e999", "-1e999", "...", "x", "f'{1}'",
    "not True", "~1", "-True", "[" * 150, "-" * 3000 + "1", "9" * 5000, "'", "1 2", "", "await x", "yield", "a.b", "a[0]",
    "1 if 1 else 2", "(y := 1)", "*a", "'\x00'", "1\x00", "'\\N{nothing}'", "'\\x'", "0777", "1__0",
]  # fmt: skip
LINES = [
    "import os", "a, b = 1, 2", "a += 1", "del a", "if 1:\n    a = 1", "a.b = 1", "a[0] = 1", "a = b = 1", "class A: pass", "%magic",
    "!ls", "pass", "a: int", "\x00", "\ta = 1", "é = 1; 2", "with x: y = 1",
]  # fmt: skip


def test_cells_of_parameters_are_read_or_refused(trials, draw, tmp_path):
    path = tmp_path / "a.ipynb"
    for i in trials.some(700):
        lines = [f"p{k} = {draw.choice(GOOD)}" for k in range(draw.randrange(1, 5))]
        wrong = ("", f"q = {draw.choice(BAD)}", draw.choice(LINES))[i % 3]
        expected = {}
        exec("\n".join(lines), {}, expected)
        lines.insert(draw.randrange(len(lines) + 1), wrong)
        path.write_text(json.dumps(_notebook("\n".join(lines))))
        right = lambda found: not wrong and found == expected
        errors = (NotebookError,) if wrong else ()
        trials.refuse(lines, lambda: read_parameters(path), *errors, right=right)


STARTS = ("", "-", "1", "1.", "1e", "inf", "nan", "true", "True", "0x1", "1_0", " 1", "1 ")


def test_values_are_those_that_were_written(trials, draw):
    letters = "0123456789+-.eE_ xinfatrueyo'\"\n\t٣½"
    for _ in trials.some(800):
        text = draw.choice(STARTS)
        text += "".join(draw.choice(letters) for _ in range(draw.randrange(4)))
        default = draw.choice((True, 3, 0.5))

        def right(found):
            if type(found) is not type(default):
                return False
            if default is True:
                return text == ("true" if found else "false")
            plain = text.isascii() and not set(text) & set(" _\n\t'\"x")
            return plain and math.isfinite(found) and found == type(default)(text)

        call = lambda: convert("p", text, default)
        trials.refuse((text, default), call, NotebookError, right=right)


def test_no_path_leads_to_a_source(trials, draw, tmp_path, monkeypatch):
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(json.dumps(_notebook()))
    (tmp_path / "link").symlink_to(NOTEBOOKS)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(NOTEBOOKS.parent)
    parts = [*FOLDERS, str(tmp_path), str(NOTEBOOKS)]
    for _ in trials.some(400):
        output = os.path.join(*(draw.choice(parts) for _ in range(draw.randrange(1, 6))))
        if draw.random() < 0.6:
            output += draw.choice(("/out.ipynb", ".ipynb", "/../out.ipynb"))
        label = draw.choice(LABELS)
        sets = [[label, "1.nc"]] if draw.random() < 0.9 else []
        asked = argparse.Namespace(notebook=notebook, output=Path(output), sets=sets, parameters=[])

        def right(runs):
            [run] = runs.values()
            real = Path(os.path.realpath(str(run.output)))
            named = not sets or label.replace("-", "_").isidentifier()
            apart = real != notebook and NOTEBOOKS not in real.parents
            return named and apart and real.suffix == ".ipynb"

        trials.refuse((output, label), lambda: planned(asked), NotebookError, right=right)
