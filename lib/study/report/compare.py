"""`make compare`: did this rebuild give the numbers of the committed one?

``data/reference/rebuild/numbers.csv`` keeps the key numbers of a rebuild
(`study.report.rebuild_numbers`). `python -m study.report.compare` compares the last `make repro`
with them. ``--keep`` stores those of the last `make repro` instead.

A column is *equal* if these numbers agree to a relative 1e-6. If mean and deviation agree far
better than that but the sum with random weights does not, values changed places, and the column is
*different*. In the longest table, of 46,080 rows, this finds two rows that were swapped, unless
their values differ by less than about a thousandth of the largest number. Otherwise, how much a
column may differ depends on where the table comes from.

Stored or simulated results
    They are only analyzed again, so only last digits may differ. A column is *close* if its
    numbers agree to 1%, and *different* otherwise.
The runs of this rebuild
    Last digits depend on the processor (on the instructions that BLAS, PyTorch and Numba choose),
    and training amplifies them. A column is *similar* if the means differ by no more than those of
    two samples with the stored spread do in 99.7% of all cases (three standard errors of the
    difference; more for a few values, by Student's t distribution), and *different* otherwise. This
    includes every change of a column whose stored values are all equal, such as one of a single
    value: it has no spread to compare with. The spread is the one between rows, such as networks,
    so it is wider than the noise of one network's runs. It can hide small errors. Whether these
    runs give the right numbers is checked by the tests, not here.

A table is as good as its worst column. Values of one table often depend on the same runs. Then
their spread understates the noise, and a table may count as different by chance.
"""

import argparse
import math
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from scipy.stats import norm
from scipy.stats import t as student_t
from toolz import groupby

from study.paths import REFERENCE, ROOT
from study.pipeline.files import write_whole
from study.report.contents import ReportError
from study.report.numbers import counted
from study.report.rebuild_numbers import COLUMNS, MACHINE, STATISTICS, VERDICT, collect_numbers

NUMBERS = REFERENCE / "rebuild" / "numbers.csv"
"""The stored numbers."""
EQUAL = 1e-6
"""Largest relative difference of equal numbers."""
CLOSE = 0.01
"""Largest relative difference of close numbers."""
STANDARD_ERRORS = 3.0
"""Largest difference of the means of similar columns, if they have many values."""
_STATES = ("equal", "close", "similar", "different", "missing")
"""How a column or a table compares, from best to worst."""


class RebuildComparison(NamedTuple):
    """Tables and verdicts of this rebuild against the stored ones."""

    equal: list[str]
    close: list[str]
    similar: list[str]
    different: list[str]
    """Tables, each with the column that differs most."""
    missing: list[str]
    """Tables of the stored rebuild that this one lacks, and the reverse."""
    verdicts: list[str]
    """Claims whose verdict changed, with both verdicts."""

    def describe(self) -> list[str]:
        """Return the comparison as sentences: on stored results, new runs, and verdicts.

        Returns
        -------
        list of str
        """
        analyzed = {}
        trained = {}
        for state in _STATES:
            tables = getattr(self, state)
            trained[state] = sum(_is_rebuilt(item) for item in tables)
            analyzed[state] = len(tables) - trained[state]
        return [
            f"{counted(sum(analyzed.values()), 'table')} of stored and simulated results: "
            f"{analyzed['equal']} equal to 1e-6, {analyzed['close']} to 1%, "
            f"{analyzed['different']} different{_one_side(analyzed['missing'])}",
            f"{counted(sum(trained.values()), 'table')} of this rebuild's runs: "
            f"{trained['equal']} equal to 1e-6, {trained['similar']} similar, "
            f"{trained['different']} different{_one_side(trained['missing'])}",
            f"{counted(len(self.verdicts), 'verdict')} changed",
        ]


def _one_side(count: int) -> str:
    """Return how many tables only one of the rebuilds has, to be added to a sentence."""
    if not count:
        return ""
    return f", {count} on one side only"


def _is_rebuilt(item: str) -> bool:
    """Return whether a table is about the runs of the rebuild, not about stored results."""
    return "/rebuilt/" in item


def compare(stored: pd.DataFrame, current: pd.DataFrame) -> RebuildComparison:
    """Compare the numbers of two rebuilds.

    Parameters
    ----------
    stored : pandas.DataFrame
        Numbers of the earlier rebuild, as from `collect_numbers`.
    current : pandas.DataFrame
        Numbers of the later one.

    Returns
    -------
    RebuildComparison
        How each artifact compares, and which verdicts changed.
    """
    keys = ["item", "quantity"]
    both = stored.merge(current, on=keys, how="outer", suffixes=("_stored", ""), indicator="side")
    both = both[both["item"] != MACHINE]
    claims = both["item"] == VERDICT
    changed = both[claims & (both["text_stored"].fillna("") != both["text"].fillna(""))]
    verdicts = [f"{row.quantity}: {row.text_stored} -> {row.text}" for row in changed.itertuples()]
    tables: dict[str, list[str]] = {state: [] for state in _STATES}
    for item, columns in both[~claims].groupby("item"):
        by_state = groupby(_state, columns.to_dict("records"))
        worst = max(by_state, key=_STATES.index)
        text = str(item)
        if worst == "different":
            most_different = max(by_state[worst], key=_distances)
            text = f"{text}: {_describe_column(most_different)}"
        tables[worst].append(text)
    return RebuildComparison(**tables, verdicts=verdicts)


def _state(row: dict) -> str:
    """Return how a column compares, from a row with the numbers of both rebuilds."""
    if row["side"] != "both":
        return "missing"
    if row["count"] != row["count_stored"]:
        return "different"
    if _agrees(row, STATISTICS, EQUAL):
        return "equal"
    if _changed_places(row):
        return "different"
    is_rebuilt = _is_rebuilt(row["item"])
    # Not the random sum, whose change by independent 1% of each value can exceed 1%.
    if not is_rebuilt and _agrees(row, ("mean", "deviation", "weighted_mean"), CLOSE):
        return "close"
    if is_rebuilt and _distance(row) <= 1:
        return "similar"
    return "different"


def _changed_places(row: dict) -> bool:
    """Return whether a column has the same values in another order.

    A single other value would change the sum of the values, over the root of their number, by as
    much as the random sum.
    """
    same_values = _agrees(row, ("mean", "deviation"), EQUAL / math.sqrt(row["count"]))
    return same_values and not _agrees(row, ("mean", "deviation", "random_sum"), EQUAL)


def _agrees(row: dict, names: tuple[str, ...], tolerance: float) -> bool:
    """Return whether numbers of a column agree, relative to the largest of them."""
    numbers = [(row[name], row[f"{name}_stored"]) for name in names]
    sizes = [abs(value) for pair in numbers for value in pair if math.isfinite(value)]
    largest = max(sizes, default=0.0)
    for value, stored in numbers:
        if math.isnan(value) and math.isnan(stored):
            continue
        if not abs(value - stored) <= tolerance * largest:  # also if one of them is NaN
            return False
    return True


def _distances(row: dict) -> tuple[float, float]:
    """Return a column's difference in multiples of what is similar, then relative to its mean."""
    largest = max(abs(row["mean"]), abs(row["mean_stored"])) or 1.0
    return _distance(row), abs(row["mean"] - row["mean_stored"]) / largest


def _distance(row: dict) -> float:
    """Return the difference of means as a multiple of the largest one of similar columns."""
    count = row["count_stored"]
    difference = abs(row["mean"] - row["mean_stored"])
    if difference == 0:
        return 0.0
    if count < 2 or not row["deviation_stored"]:  # no spread to compare with
        return math.inf
    # The stored deviation divides by n, not n - 1. Both means vary, so their variances add up.
    standard_error = row["deviation_stored"] * math.sqrt(2 / (count - 1))
    quantile = student_t.isf(norm.sf(STANDARD_ERRORS), count - 1)
    return difference / (quantile * standard_error)


def _describe_column(row: dict) -> str:
    """Return how a column differs."""
    if row["count"] != row["count_stored"]:
        return f"{row['quantity']} has {row['count']:.0f} values, not {row['count_stored']:.0f}"
    if _changed_places(row):
        return f"{row['quantity']} has the same values in other rows"
    return f"{row['quantity']} {row['mean_stored']:.4g} -> {row['mean']:.4g}"


def main(arguments: list[str] | None = None) -> int:
    """Compare the last rebuild with the stored one, or store its numbers.

    Parameters
    ----------
    arguments
        Arguments of the command line; those of this process if None.

    Returns
    -------
    int
        Exit status: 0, or 1 if a verdict changed or after an error, which is printed to stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m study.report.compare", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="store the numbers of this rebuild")
    options = parser.parse_args(arguments)
    try:
        current = collect_numbers()
    except ReportError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    if options.keep:
        write_whole(NUMBERS, lambda path: current.to_csv(path, index=False))
        print(f"compare: wrote {len(current)} numbers to {NUMBERS.relative_to(ROOT)}")
        return 0
    if not NUMBERS.is_file():
        print("compare: no stored numbers; `python -m study.report.compare --keep` stores these")
        return 0
    stored = pd.read_csv(NUMBERS)
    missing = [name for name in COLUMNS if name not in stored]
    if missing:
        print(
            f"compare: {NUMBERS.relative_to(ROOT)} has no column {', '.join(missing)}, so another "
            "version wrote it; `git restore` the committed file, or store the numbers of this "
            "rebuild with `python -m study.report.compare --keep`",
            file=sys.stderr,
        )
        return 1
    return _print_comparison(stored, current)


def _print_comparison(stored: pd.DataFrame, current: pd.DataFrame) -> int:
    """Print how two rebuilds compare, and return the exit status."""
    profiles = {_machine(table, "profile") for table in (stored, current)}
    if len(profiles) > 1:
        print(
            f"compare: the committed numbers are of the profile {_machine(stored, 'profile')}, so "
            "this rebuild is not compared with them"
        )
        return 0
    result = compare(stored, current)
    # Tables of stored results come first: they should not differ at all.
    different = sorted(result.different, key=_is_rebuilt)
    for line in (*result.describe(), *result.verdicts, *different[:10]):
        print(f"compare: {line}")
    if len(different) > 10:
        print(f"compare: and {counted(len(different) - 10, 'more different table')}")
    original = _machine(stored, "processor")
    if original != _machine(current, "processor") and _hide_lock_changes():
        print(
            f"compare: dvc.lock now lists the hashes of this machine. The committed one is from "
            f"{original}, so Git leaves the difference out of `git status` "
            "(`git update-index --no-skip-worktree dvc.lock` shows it again)"
        )
    return int(bool(result.verdicts))


def _machine(numbers: pd.DataFrame, quantity: str) -> str:
    rows = numbers[(numbers["item"] == MACHINE) & (numbers["quantity"] == quantity)]
    return str(rows["text"].iloc[0])


def _hide_lock_changes(root: Path = ROOT) -> bool:
    """Tell Git not to show this machine's `dvc.lock` as a change; return whether it was one."""
    if not (root / ".git").exists():
        return False
    changed = subprocess.run(["git", "diff", "--quiet", "dvc.lock"], cwd=root, check=False)
    if changed.returncode != 1:
        return False
    hide = ["git", "update-index", "--skip-worktree", "dvc.lock"]
    return subprocess.run(hide, cwd=root, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
