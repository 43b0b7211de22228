"""Introduce one bug after another and see whether a test catches it (`make mutants`).

Bugs are small: a strict bound, a sign, a product for a quotient, another number, two exchanged
arguments, a negated condition. `EACH` of them are drawn in each room and introduced one by one in a
clone of the last commit. A forked process runs the tests that import the file, the nearest first.
Outcomes are kept in ``data/cache/mutants``, and the next call continues from there.

Not mutmut (3.8): it skips decorated functions and code outside of functions, which are most of our
kernels, and runs the whole suite before its first bug.
"""

import argparse
import ast
import copy
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numba
import psutil
import pytest
import statsmodels.api  # noqa: F401
import torch  # noqa: F401
import xarray  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "data" / "cache" / "mutants"
COPY = FOLDER / "copy"
"""Clone of the last commit, in which bugs are introduced."""
OUTCOMES = FOLDER / "outcomes.json"
ROOMS = (
    "longrnn/cells",
    "longrnn/kernels/cpu_*",
    "longrnn/probes",
    "study/config",
    "study/tasks",
    "study/training",
    "study/results",
    "study/stats",
    "study/claims",
    "study/pipeline",
    "study/report",
)
"""Folders of `lib`, or files in them, in which bugs are introduced."""
EACH = 42
"""Bugs per room."""
SECONDS = 900
"""Time that the tests of one bug may take."""
CHOSEN = ["-m", "not (notebook or browser or gpu or slow)"]
WITHOUT_COMPILER = ["-k", "not (activations or machine_code)"]
"""Tests that run without Numba's compiler."""
ENOUGH = 0.9
"""Share of the bugs that tests must catch; those that change nothing survive, too."""
OF_ALL_CELLS = ("test_cells", "test_transcriptions", "test_kernels", "test_adjoint")
"""Test files that loop over all cells and name none of them."""

_OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip


def mistake(node: ast.AST) -> ast.expr | None:
    """Return what may be written by mistake instead of an expression, or None."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            return ast.Compare(node.left, [_OTHER[type(op)]()], node.comparators)
        case ast.BinOp(op=op) if type(op) in _OTHER:
            return ast.BinOp(node.left, _OTHER[type(op)](), node.right)
        case ast.BoolOp(op=op):
            return ast.BoolOp(_OTHER[type(op)](), node.values)
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            return node.operand
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            return ast.Constant(1 if value == 0 else 2 * value)
        case ast.IfExp():
            return ast.IfExp(node.test, node.orelse, node.body)
        case ast.Call(args=[first, second, *rest]) if not isinstance(first, ast.Starred):
            exchanged = copy.copy(node)
            exchanged.args = [second, first, *rest]
            return exchanged
    return None


class Bug(NamedTuple):
    """A bug that may be introduced in a file: other text between two bytes."""

    file: Path
    start: int
    stop: int
    text: str

    def key(self) -> str:
        """Return file, line, and the text before and after."""
        source = self.file.read_bytes()
        line = source.count(b"\n", 0, self.start) + 1
        before = " ".join(source[self.start : self.stop].decode().split())
        return f"{self.file.relative_to(COPY).as_posix()}:{line} {before} -> {self.text}"

    @property
    def in_kernels(self) -> bool:
        """Whether the file is a kernel, which is tested uncompiled."""
        return "kernels" in self.file.parts


def possible_bugs(file: Path) -> list[Bug]:
    """Return every bug that may be introduced in a file.

    Strings, annotations and error messages are left alone.
    """
    source = file.read_bytes()
    line_starts = [0]
    for newline in re.finditer(rb"\n", source):
        line_starts.append(newline.end())
    bugs = []
    nodes = [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
            continue
        other = mistake(node)
        if other is not None:
            start = line_starts[node.lineno - 1] + node.col_offset
            stop = line_starts[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(ast.fix_missing_locations(other))
            bugs.append(Bug(file, start, stop, text))
        nodes += _parts(node)
    return bugs


def _parts(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly below a node, apart from annotations and decorators."""
    below = []
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            values = value if isinstance(value, list) else [value]
            below += [part for part in values if isinstance(part, ast.AST)]
    return below


def draw_bugs() -> list[Bug]:
    """Return the bugs to introduce, as many from each room, in random order."""
    drawn = []
    for room in ROOMS:
        pattern = f"{room}.py" if "*" in room else f"{room}/**/*.py"
        bugs = []
        for file in sorted((COPY / "lib").glob(pattern)):
            bugs += possible_bugs(file)
        if not bugs:
            raise ValueError(f"lib/{room} has no code in which to introduce a bug; name its folder")
        drawn += random.Random(f"0 {room}").sample(bugs, min(EACH, len(bugs)))
    random.Random(0).shuffle(drawn)
    return drawn


def tests_of(file: Path) -> list[str]:
    """Return the test files that name a module; those with its name or its room's come first."""
    *packages, _ = file.relative_to(COPY / "lib").parts
    room = packages[1]
    parent = r"\.".join(packages)
    names_module = re.compile(rf"{parent}\.{file.stem}\b|{parent} import [^\n]*\b{file.stem}\b")
    names_room = re.compile(rf"{packages[0]}\.{room}\b")
    ranks = {}
    for test in sorted((COPY / "tests").glob("test_*.py")):
        text = test.read_text("utf-8")
        same_name = test.stem in (f"test_{file.stem}", f"test_{room}")
        if room in ("cells", "kernels") and test.stem in OF_ALL_CELLS:
            same_name = True
        rank = (same_name, bool(names_module.search(text)), bool(names_room.search(text)))
        if any(rank):
            ranks[test] = rank
    nearest_first = sorted(ranks, key=ranks.get, reverse=True)
    return [f"tests/{test.name}" for test in nearest_first]


def _run_pytest(tests: list[str]) -> None:
    """Run tests in this process, which ends with pytest's status."""
    os.chdir(COPY)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    os.environ |= {"PYTHONPATH": str(COPY / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:0] = [str(COPY / "lib"), str(COPY / "tests")]
    options = ["-xq", "--tb=no", "-p", "no:cacheprovider", *CHOSEN]
    if numba.config.DISABLE_JIT:
        options += WITHOUT_COMPILER
    sys.exit(pytest.main([*options, *tests]))


def run_tests(tests: list[str], uncompiled: bool) -> str:
    """Run tests in a forked process, which has the slow imports, and return how they end."""
    numba.config.DISABLE_JIT = uncompiled
    child = multiprocessing.get_context("fork").Process(target=_run_pytest, args=(tests,))
    child.start()
    child.join(SECONDS)
    for process in psutil.Process().children(recursive=True):
        process.kill()
    child.join()
    outcomes = {0: "survived", 1: "caught", 2: "caught", 3: "caught", 5: "no test"}
    return outcomes.get(child.exitcode, "out of time")


def try_bug(bug: Bug, passing: dict[tuple[str, bool], bool]) -> str:
    """Introduce a bug, run the tests that pass without it, and return how they end.

    `passing` is whether a test file passes without bugs; it is filled in as needed.
    """
    uncompiled = bug.in_kernels  # a compiled kernel would be compiled anew for each bug
    tests = []
    for test in tests_of(bug.file):
        key = (test, uncompiled)
        if key not in passing:
            passing[key] = run_tests([test], uncompiled) == "survived"
        if passing[key]:
            tests.append(test)
    if not tests:
        return "no test"
    source = bug.file.read_bytes()
    bug.file.write_bytes(source[: bug.start] + f"({bug.text})".encode() + source[bug.stop :])
    try:
        return run_tests(tests, uncompiled)
    finally:
        bug.file.write_bytes(source)


def main() -> int:
    """Introduce bugs until the time is over; return 1 if tests catch too few."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    shutil.rmtree(COPY, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", "--depth=1", ROOT.as_uri(), str(COPY)], check=True)
    outcomes = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
    passing: dict[tuple[str, bool], bool] = {}
    counts = Counter()
    for bug in draw_bugs():
        key = bug.key()
        if key not in outcomes:
            if time.monotonic() > end:
                continue
            outcomes[key] = try_bug(bug, passing)
            OUTCOMES.write_text(json.dumps(outcomes, indent=1))
        print(f"{outcomes[key]}: {key}", flush=True)
        counts[outcomes[key]] += 1
    share = counts["caught"] / max(1, counts.total())
    print(f"{counts.total()} bugs, {dict(counts)}: tests caught {100 * share:.1f}%")
    return int(share < ENOUGH)


if __name__ == "__main__":
    sys.exit(main())
