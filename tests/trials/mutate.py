"""Introduce one bug after another and see whether a test catches it (`make mutants`).

Bugs are small: a strict bound, a sign, a product for a quotient, another number, two exchanged
arguments, a negated condition. `EACH` of them are drawn in each room and made in a clone of the
last commit, in which a forked process runs the tests that import the file, the nearest first.
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

import numba
import psutil
import pytest
import statsmodels.api  # noqa: F401
import torch  # noqa: F401
import xarray  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
COPY, FOUND = (ROOT / "data" / "cache" / "mutants" / name for name in ("copy", "found.json"))
ROOMS = (
    *("cells", "kernels/cpu_*", "probes", "config", "training", "results"),
    *("stats", "claims", "pipeline", "report"),
)
EACH, SECONDS = 42, 900  # errors of a room; what the tests of one may take, the nearest first
CHOSEN = ["-m", "not (notebook or browser or gpu or slow)"]
ENOUGH = 0.9  # share of the errors that tests notice; those that change nothing survive, too
BY_NAME = ("test_cells", "test_transcriptions", "test_kernels", "test_adjoint")  # of all cells

_OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip


def wrong(node: ast.AST) -> ast.expr | None:
    """Return what may stand in the place of `node` by mistake."""
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
            return ast.Constant(2 * value + (value == 0))
        case ast.IfExp():
            return ast.IfExp(node.test, node.orelse, node.body)
        case ast.Call(args=[first, second, *rest]) if not isinstance(first, ast.Starred):
            other = copy.copy(node)
            other.args = [second, first, *rest]
            return other
    return None


def errors(source: bytes) -> list[tuple[int, int, str]]:
    """Return (start, stop, text) of every bug that may be made in a file.

    Strings, annotations and error messages are left alone.
    """
    lines = [0, *(found.end() for found in re.finditer(rb"\n", source))]
    found, todo = [], [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
            continue
        if other := wrong(node):
            start = lines[node.lineno - 1] + node.col_offset
            stop = lines[node.end_lineno - 1] + node.end_col_offset
            found.append((start, stop, ast.unparse(ast.fix_missing_locations(other))))
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                parts = value if isinstance(value, list) else [value]
                todo += [part for part in parts if isinstance(part, ast.AST)]
    return found


def tests_of(file: Path) -> list[str]:
    """Return the test files that name a module; those with its name or its room's come first."""
    room = file.parent.name
    package = rf"(longrnn|study)\.{room}"
    named = re.compile(rf"{package}\.{file.stem}\b|{package} import [^\n]*\b{file.stem}\b")

    def rank(test):
        own = test.stem in (f"test_{file.stem}", f"test_{room}")
        own |= room in ("cells", "kernels") and test.stem in BY_NAME
        text = test.read_text("utf-8")
        return own, bool(named.search(text)), bool(re.search(rf"(longrnn|study)\.{room}\b", text))

    ranked = {test: rank(test) for test in sorted((COPY / "tests").glob("test_*.py"))}
    near = sorted((test for test in ranked if any(ranked[test])), key=ranked.get, reverse=True)
    return [f"tests/{test.name}" for test in near]


def tried(tests: list[str]) -> str:
    """Run tests in a forked process, which has the slow imports, and return how they end."""

    def run():
        os.chdir(COPY)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        os.environ |= {"PYTHONPATH": str(COPY / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.path[:0] = [str(COPY / "lib"), str(COPY / "tests")]
        chosen = CHOSEN + ["-k", "not (activations or machine_code)"] * numba.config.DISABLE_JIT
        sys.exit(pytest.main(["-xq", "--tb=no", "-p", "no:cacheprovider", *chosen, *tests]))

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join(SECONDS)
    for process in psutil.Process().children(recursive=True):
        process.kill()
    child.join()
    ends = {0: "survived", 1: "noticed", 2: "noticed", 3: "noticed", 5: "no test"}
    return ends.get(child.exitcode, "out of time")


def main() -> int:
    """Try errors until the time is over; return 1 where tests notice too few."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    options = parser.parse_args()
    shutil.rmtree(COPY, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", "--depth=1", ROOT.as_uri(), str(COPY)], check=True)
    found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    end, sound, drawn, counts = time.monotonic() + 60 * options.minutes, {}, [], Counter()
    for room in ROOMS:
        files = sorted(COPY.glob(f"lib/*/{room}/**/*.py"))
        possible = [(file, *one) for file in files for one in errors(file.read_bytes())]
        drawn += random.Random(f"0 {room}").sample(possible, min(EACH, len(possible)))
    random.Random(0).shuffle(drawn)
    for file, start, stop, text in drawn:
        source, name = file.read_bytes(), file.relative_to(COPY).as_posix()
        line, old = source.count(b"\n", 0, start) + 1, source[start:stop].decode()
        key = f"{name}:{line} {' '.join(old.split())} -> {text}"
        if key not in found and time.monotonic() > end:
            continue
        if key not in found:
            numba.config.DISABLE_JIT = plain = "/kernels/" in name  # inlined: not compiled anew
            fresh = [one for one in tests_of(file) if (one, plain) not in sound]
            sound |= {(one, plain): tried([one]) == "survived" for one in fresh}
            tests = [one for one in tests_of(file) if sound[one, plain]]
            file.write_bytes(source[:start] + f"({text})".encode() + source[stop:])
            found[key] = tried(tests) if tests else "no test"
            file.write_bytes(source)
            FOUND.write_text(json.dumps(found, indent=1))
        print(f"{found[key]}: {key}", flush=True)
        counts[found[key]] += 1
    share = counts["noticed"] / max(1, counts.total())
    print(f"of {counts.total()} errors {dict(counts)}: {100 * share:.1f} % were noticed")
    return share < ENOUGH


if __name__ == "__main__":
    sys.exit(main())
