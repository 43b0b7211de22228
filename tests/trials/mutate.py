"""Make one error after another in the code, and see whether a test notices: ``python tests/trials/mutate.py``, or `make mutants`.

An error is a small one: a comparison that takes its bound in or leaves it out, a sign, a product for a quotient, another number, two
arguments exchanged, a condition turned round. A sample is drawn from a seed: `FILES` files of each room, the larger the
likelier, and `EACH` errors in each room, shared out among its files; the six that no test noticed before come first.

Tests of a file run once without an error, to see how long each takes and which lines of the file it runs. Then each error is put into
the functions of a forked process, where the tests of its line run, the quickest first, until one fails. An error
outside of functions, or one that these tests did not notice, is made in a copy of the repository instead, for more of the tests in a fresh
process: compiled kernels, slow tests, processes that tests start. What was found is kept in ``data/cache/mutants``: the next call goes
on from there.

Errors that change nothing survive, too. Those that a person has judged to be so are in `EQUIVALENT`, with the reason.
"""

import argparse
import ast
import contextlib
import copy
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from mutated import try_in_file, try_in_process

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "data" / "cache" / "mutants"
KEPT = CACHE / "found.json"
ROOMS = {
    "cells": "lib/cells/[a-z_]*.py",
    "kernels": "lib/kernels/cpu_*.py",  # those of CUDA run in a simulator, for minutes
    "probes": "lib/probes/**/*.py",
    "analysis": "lib/analysis/**/*.py",
    "jobs": "lib/training/jobs/*.py",
}
FILES, EACH = 8, 42
"""Files that are drawn in each room, and errors in all of them."""
OF_CELLS = [
    "test_cells",
    "test_cell_properties",
    "test_initial_weights",
    "test_hyper_parameters",
    "test_kernels",
    "test_kernel_variants",
    "test_lu_engine",
]
"""Tests of every cell or engine by its name, which no import tells."""
OF = {
    "lib/analysis/design.py": ["test_robust_errors", "test_linear_models", "test_tenet"],
    "lib/cells/_cell.py": ["test_cells", "test_bad_input"],
}
"""Tests of a file that neither its name nor the number of imports tells."""
LIVED = ("survived", "no test", "out of time")
"""Ends of what was not noticed: all tests passed, none could be run, or those that had their turn passed."""
MOST = 4
"""Files of tests that are tried."""
ENOUGH = 0.95
"""Share of the errors that tests notice, without the equivalent ones."""
PRELOADED = "numpy pandas xarray scipy.stats statsmodels.api torch numba dask.distributed pytest netCDF4 matplotlib.pyplot nbformat pydantic ruamel.yaml hypothesis"

EQUIVALENT = {
    "lib/probes/blank_inputs.py blank_adjoints: 16 -> (17)": "the width of an example",
    "lib/kernels/cpu_exponential.py modrelu: size <= ZERO -> (size < ZERO)": "puts zero in the place of zero",
    "lib/analysis/design.py _without_aliases: 0 -> (1)": "takes the long way to the same",
    "lib/analysis/design.py Design.gram: np.ix_(self.order, self.order) -> (np.ix_(self.order, self.order))": "exchanges two that are one",
    "lib/analysis/design.py _columns: True -> (False)": "numbers the same groups in another order",
    "lib/analysis/scales.py plot_histograms: 1 -> (2)": "rounds what has one digit",
    "lib/analysis/scales.py plot_histograms: True -> (False)": "there are as many panels as names",
    "lib/analysis/adding.py plot_curves: 3.6 -> (7.2)": "the height of a figure",
    "lib/analysis/adding.py plot_adjoints: 1 -> (2)": "the width of a line",
    "lib/analysis/adding.py plot_adjoints: 4 -> (5)": "the columns of a legend",
    "lib/analysis/adding.py plot_scaled: False -> (True)": "sorts what is sorted",
    "lib/analysis/regimes.py borders: border.value > 0 -> (border.value >= 0)": "no border is zero",
    "lib/cells/unicornn.py start_text: True -> (False)": "a layer has one of each",
    "lib/cells/unicornn.py UnICORNN.time_steps: True -> (False)": "a layer has one of each",
    "lib/cells/lu_rnn.py solve: True -> (False)": "the diagonal holds ones",
    "lib/probes/reversal.py gradient_errors: 0 -> (1)": "draws another example",
    "lib/probes/adjoint.py : 1e-250 -> (2e-250)": "a bound as far from the end of the range",
    "lib/probes/reversal.py gradient_errors: True -> (False)": "there are three of each",
    "lib/training/jobs/cluster.py _watch: True -> (False)": "the standard error is flushed at the end of a line",
    "lib/training/jobs/cluster.py _watched: True -> (False)": "the thread ends with the connection",
}
"""Errors that change nothing that a test could notice, by file, function and text, and why."""


class Mutant(NamedTuple):
    """An error: what stands in a file from one byte to another, and what takes its place."""

    file: str
    start: int
    stop: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the file's content with the error."""
        return source[: self.start] + self.text.encode() + source[self.stop :]

    def line(self, source: bytes) -> int:
        """Return the line that the error begins in."""
        return source.count(b"\n", 0, self.start) + 1

    def told(self, source: bytes) -> str:
        """Return the error in words."""
        old = " ".join(source[self.start : self.stop].decode().split())
        return f"{old} -> {self.text.strip()}"

    def key(self, source: bytes) -> str:
        """Return what names it: the error, and the file that it is made in."""
        return hashlib.sha256(repr((self, source)).encode()).hexdigest()[:16]


KNOWN = [
    (
        "lib/probes/coadjoint/penalties.py",
        "torch.arange(2 * T - 1, 0, -2,",
        "torch.arange(1, 2 * T, 2,",
        "test_coadjoint.py::test_deviations_of_early_adjoints_weigh_most",
    ),
    (
        "lib/analysis/equality.py",
        '(("low", LEVEL / 2), ("high"',
        '(("high", LEVEL / 2), ("low"',
        "test_task_comparisons.py::test_a_spread_by_hand_lies_in_its_interval",
    ),
    (
        "lib/probes/lyapunov.py",
        "if t >= start:",
        "if t > start:",
        "test_lyapunov.py::test_every_step_has_a_jacobian_the_first_one_too",
    ),
    (
        "lib/training/experiment.py",
        "data_hash(prepared, name) for name in",
        "0 for name in",
        "test_jobs.py::test_shard_names_follow_the_bytes_of_the_data",
    ),
    (
        "lib/training/jobs/run.py",
        "retries=2",
        "retries=0",
        "test_jobs.py::test_a_job_that_fails_is_tried_twice_more",
    ),
    (
        "lib/results/reference.py",
        'ended["missing"] for',
        "0 for",
        "test_reference.py::test_a_study_with_missing_attempts_is_refused",
    ),
]
"""Errors that no test noticed once, and the test that notices each now."""


def known() -> dict[Mutant, list[str]]:
    """Return the errors of `KNOWN`, and the arguments of pytest for the test of each."""
    found = {}
    for file, old, new, test in KNOWN:
        source = (ROOT / file).read_bytes()
        assert source.count(old.encode()) == 1, (
            f"{file} no longer has {old!r} once; name the line that took its place"
        )
        start = source.index(old.encode())
        found[Mutant(file, start, start + len(old.encode()), new)] = [f"tests/{test}"]
    return found


_OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div,
    ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def _errors(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what may stand in the place of `node`."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            yield ast.Compare(node.left, [_OTHER[type(op)]()], node.comparators)
        case ast.BinOp(op=op) if type(op) in _OTHER:
            yield ast.BinOp(node.left, _OTHER[type(op)](), node.right)
        case ast.BoolOp(op=op):
            yield ast.BoolOp(_OTHER[type(op)](), node.values)
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(2 * value if value else 1.0)
        case ast.Call(args=[first, second, *rest]) if not isinstance(
            first, ast.Starred
        ) | isinstance(second, ast.Starred):
            other = copy.copy(node)
            other.args = [second, first, *rest]
            yield other
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)


def mutants(file: str) -> list[Mutant]:
    """Return every error that may be made in a file; texts, annotations and refusals are left alone."""
    source = (ROOT / file).read_bytes()
    lines = [0, *(m.end() for m in re.finditer(rb"\n", source))]
    found, todo = [], [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
            continue
        for other in _errors(node):
            start = lines[node.lineno - 1] + node.col_offset
            stop = lines[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(ast.fix_missing_locations(other))
            lines_kept = "\n" * source.count(b"\n", start, stop)
            found.append(Mutant(file, start, stop, f"({text}{lines_kept})"))
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                todo += [
                    v
                    for v in (value if isinstance(value, list) else [value])
                    if isinstance(v, ast.AST)
                ]
    return found


def _sample(seed: int) -> list[list[Mutant]]:
    """Return errors drawn from a seed, those of one file together, from each room in turn."""
    rooms = []
    for room, pattern in ROOMS.items():
        draw = random.Random(f"{seed} {room}")
        files = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))
        files = [file for file in files if not file.endswith("/figures.py")]  # drawn for the eye
        own = {file: found for file in files if (found := mutants(file))}
        # Without replacement, each as likely as its share of what is left.
        chosen = sorted(own, key=lambda file: -(draw.random() ** (1 / len(own[file]))))[:FILES]
        for file in chosen:
            draw.shuffle(own[file])
        in_turn = chain.from_iterable(zip_longest(*(own[file] for file in chosen)))
        errors = [error for error in in_turn if error][:EACH]
        rooms.append([[error for error in errors if error.file == file] for file in chosen])
    return [errors for errors in chain.from_iterable(zip_longest(*rooms)) if errors]


def _lines(error: Mutant, source: bytes) -> tuple[int, int, str]:
    """Return the first and last line of the statement that holds an error, and the name of its function."""
    line, until, names = error.line(source), source.count(b"\n", 0, error.stop) + 1, []
    first, last, tree = line, until, ast.parse(source)
    for node in ast.walk(tree):  # from outside to inside
        if isinstance(node, ast.stmt) and node.lineno <= line and until <= node.end_lineno:
            end = node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno
            first, last = (node.lineno, end) if until <= end else (line, until)
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
    return first, last, ".".join(names)


# ---- which tests ----------------------------------------------------------------------------------------------------------


def _named(path: Path) -> set[Path]:
    """Return the modules of `lib` that a file imports."""
    names = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    found = set()
    for name in names:
        parts = name.split(".")
        while parts[0] == "lib" and len(parts) > 1:
            base = ROOT.joinpath(*parts)
            target = next(
                (p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None
            )
            if target:
                found.add(target)
                break
            parts.pop()
    return found


def distances(test: Path, deepest: int = 6) -> dict[Path, int]:
    """Return how many imports lead from a test to each module."""
    found, front = {}, {test}
    for depth in range(deepest + 1):
        found |= {path: depth for path in front if path not in found}
        front = {target for path in front for target in _named(path)} - set(found)
    return found


def arguments(file: str, near: dict[Path, dict[Path, int]]) -> tuple[list[str], str]:
    """Return the files of tests that reach a file, the nearest first, and a pattern of the tests in them."""
    room, stem = Path(file).parent.name, Path(file).stem
    if room in ("cells", "kernels") and not stem.startswith("_"):
        text = (ROOT / file).read_text("utf-8")
        names = re.findall(r'"(\w+)', " ".join(re.findall(r"^@engine\((.*)\)", text, re.MULTILINE)))
        if stem == "cpu_rnn_adjoints":
            return ["tests/test_coadjoint.py", "tests/test_adjoint.py"], ""
        pattern = "|".join(names or [stem])
        return [f"tests/{name}.py" for name in OF_CELLS], rf"(?<![a-z])({pattern})(?![a-z])"
    if stem.startswith("claims_"):  # judges, by the experiment that they judge
        names = re.findall(
            r'^\w+ = Judges\("([\w ]+)"', (ROOT / file).read_text("utf-8"), re.MULTILINE
        )
        return ["tests/test_claims.py"], rf"\[({'|'.join(names)})[-\]]"
    reach = sorted(
        (found[ROOT / file], test.stat().st_size, test)
        for test, found in near.items()
        if ROOT / file in found
    )
    # A file of its own comes first: the tests of `penalties` are named after its folder.
    names = OF.get(file, (f"test_{stem}", f"test_{room}"))
    own = [test for _, _, test in reach if test.stem in names]
    tests = list(dict.fromkeys([*own, *(test for _, _, test in reach)]))[:MOST]
    return [test.relative_to(ROOT).as_posix() for test in tests], ""


# ---- trying -----------------------------------------------------------------------------------------------------------------


def _copy(folder: Path) -> Path:
    """Bring a copy of what tests need to the state of the repository; data stay where they are."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name for name in listed.stdout.split("\0") if name and not name.startswith("data/")}
    names = {name for name in names if (ROOT / name).is_file()}
    for path in [*folder.rglob("*.py"), *folder.rglob("*.ipynb")]:
        if (
            "data" not in path.parts[len(folder.parts) :]
            and str(path.relative_to(folder)) not in names
        ):
            path.unlink()
    for name in names:
        if (
            not (folder / name).exists()
            or (folder / name).read_bytes() != (ROOT / name).read_bytes()
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)  # with its time: machine code is kept by it
    (folder / "data").mkdir(exist_ok=True)
    for name in ("published", "reference"):
        if not (folder / "data" / name).exists():
            (folder / "data" / name).symlink_to(ROOT / "data" / name)
    return folder


def _words(only: str) -> list[str]:
    """Return arguments of pytest for the tests that hold one of the names of a pattern."""
    names = re.search(r"\((\w[\w|]*)\)", only)
    return ["-k", names[1].replace("|", " or ")] if names else []


class Found:
    """What was found about errors, kept in a file."""

    def __init__(self) -> None:
        self.kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}

    def add(self, error: Mutant, room: str, end: str, by: str) -> None:
        source = (ROOT / error.file).read_bytes()
        function = _lines(error, source)[2]
        what = f"{error.file} {function}: {error.told(source)}"
        one = {"room": room, "end": end, "what": what, "line": error.line(source), "by": by}
        self.kept[error.key(source)] = one
        print(f"{end}: {what} (line {one['line']})  {by}", flush=True)
        partial = KEPT.with_suffix(".partial")
        partial.write_text(json.dumps(self.kept, indent=1))
        partial.replace(KEPT)

    def of(self, error: Mutant) -> dict | None:
        """Return what was found of an error, None where it was not tried."""
        one = self.kept.get(error.key((ROOT / error.file).read_bytes()))
        if one and one["end"] in LIVED and one["what"] in EQUIVALENT:
            return one | {"end": "equivalent", "by": EQUIVALENT[one["what"]]}
        return one


class Files:
    """Trials of errors that are made in files; knows the tests that fail without one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sound, self.unsound = folder, set(), set()

    def tried(self, error: Mutant, given: list[str]) -> tuple[str, str]:
        source = (ROOT / error.file).read_bytes()
        while True:
            less = [part for name in self.unsound for part in ("--deselect", name)]
            end, by = try_in_file(self.folder, error.file, error.applied(source), [*given, *less])
            if end != "killed" or not by or by in self.sound:
                return end, by
            if try_in_file(self.folder, error.file, source, [by])[0] != "killed":
                self.sound.add(by)
                return end, by
            self.unsound.add(by)


def main() -> int:
    """Try errors until the time is over; return 1 where a known one survived, or too many did."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room", choices=[*ROOMS, "known"], help="of one room alone")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="of a core, for the quick tests of one file"
    )
    parser.add_argument("--quick", action="store_true", help="make no error in a file")
    parser.add_argument("--again", action="store_true", help="try those again that survived")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    for name in PRELOADED.split():  # once, and not for every error; nothing of `lib`
        with contextlib.suppress(ImportError):
            __import__(name)
    CACHE.mkdir(parents=True, exist_ok=True)
    folder, end = _copy(CACHE / "copy"), time.monotonic() + 60 * options.minutes
    files, found, first, sample = Files(folder), Found(), known(), _sample(options.seed)
    near = {test: distances(test) for test in sorted((ROOT / "tests").glob("test_*.py"))}

    def left(errors):
        return [
            error
            for error in errors
            if not (one := found.of(error)) or (options.again and one["end"] in LIVED)
        ]

    chosen = [list(first), *sample] if options.room is None else []
    if options.room == "known":
        chosen = [list(first)]
    elif options.room:
        chosen = [e for e in sample if ROOT / e[0].file in ROOT.glob(ROOMS[options.room])]
    for errors in chosen:
        if not (todo := left(errors)) or time.monotonic() > end:
            continue
        if todo[0] in first:
            for error in todo:
                found.add(error, "known", *files.tried(error, first[error]))
            continue
        file = todo[0].file
        room = next(r for r, p in ROOMS.items() if ROOT / file in ROOT.glob(p))
        source, (given, only) = (ROOT / file).read_bytes(), arguments(file, near)
        inside = [(error.applied(source), *_lines(error, source)[:2]) for error in todo]
        jit = room not in ("cells", "kernels")
        ends = try_in_process(folder, file, inside, given, only, jit, options.seconds)
        for number, error in enumerate(todo):
            how, by = ends.get(number, ("outside", ""))
            if options.quick and how == "outside":
                continue
            if how != "killed" and not options.quick:
                how, by = files.tried(error, [*given, *_words(only)])
            found.add(error, room, how, by)
    return _report(found, chosen, first)


def _report(found: Found, chosen: list[list[Mutant]], first: dict) -> int:
    """Print what was found of the sample, by room; return whether too many survived."""
    all_ = [one for errors in chosen for error in errors if (one := found.of(error))]
    print(
        f"{'room':<10}{'tried':>7}{'noticed':>9}{'equivalent':>12}{'survived':>10}{'noticed':>11}"
    )
    for room in [*dict.fromkeys(one["room"] for one in all_), "all"]:
        ends = [one["end"] for one in all_ if room in ("all", one["room"])]
        lived, same = sum(end in LIVED for end in ends), ends.count("equivalent")
        killed = len(ends) - lived - same
        share = killed / max(1, len(ends) - same)
        print(f"{room:<10}{len(ends):>7}{killed:>9}{same:>12}{lived:>10}{100 * share:>9.1f} %")
    for one in all_:
        if one["end"] in LIVED:
            print(f"{one['end']}: {one['what']} (line {one['line']})")
    if missing := sum(map(len, chosen)) - len(all_):
        print(f"{missing} of the sample have not been tried: time was over; call again to go on")
    of_known = (found.of(error) for error in first)
    return share < ENOUGH or any(one and one["end"] in LIVED for one in of_known)


if __name__ == "__main__":
    sys.exit(main())
