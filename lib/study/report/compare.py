"""`make compare`: did this rebuild give the numbers of the committed one?

``data/reference/rebuild/numbers.csv`` keeps the key numbers of a rebuild: for every numeric column
of every table (and of the data behind every figure) how many values it has, their mean and their
standard deviation, and the verdict of every claim. `python -m study.report.compare` compares the
last `make repro` with them. ``--keep`` stores those of the last `make repro` instead.

Last digits depend on the processor (on the instructions that BLAS, PyTorch and Numba choose), and
training amplifies them. A column therefore counts as

equal
    if mean and standard deviation agree to a relative 1e-6;
within noise
    if their number is the same, and the means differ by no more than those of two samples with the
    stored spread do in 99.7% of all cases (three standard errors of the difference; more for a
    few values, by Student's t distribution);
different
    otherwise. This includes every change of a column whose stored values are all equal, such as
    one of a single value: it has no spread to compare with.

A table is as good as its worst column. Values of one table often depend on the same runs. Then
their spread understates the noise, and a table may count as different by chance.
"""

import argparse
import math
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm
from scipy.stats import t as student_t
from toolz import groupby

from study.paths import DATA, REFERENCE, ROOT
from study.pipeline.files import write_whole
from study.pipeline.machine import processor
from study.report.contents import NO_PROFILE, ReportError
from study.report.inputs import load_artefacts

NUMBERS = REFERENCE / "rebuild" / "numbers.csv"
COLUMNS = ["item", "quantity", "count", "mean", "deviation", "text"]
VERDICT = "verdict"
MACHINE = "machine"
"""Rows of these items hold a text: the verdict of a claim, or the processor and the profile."""

RELATIVE = 1e-6
"""Tolerance of equal numbers."""
STANDARD_ERRORS = 3.0
"""Largest difference of means that counts as noise, if a column has many values."""
_STATES = ("equal", "noisy", "different", "missing")
"""How a column or a table compares, from best to worst."""


class RebuildComparison(NamedTuple):
    """Tables and verdicts of this rebuild against the stored ones."""

    equal: list[str]
    noisy: list[str]
    different: list[str]
    """Tables, each with the column that differs most."""
    missing: list[str]
    """Tables of the stored rebuild that this one lacks, and the reverse."""
    verdicts: list[str]
    """Claims whose verdict changed, with both verdicts."""

    def describe(self) -> str:
        """Return the comparison as one sentence.

        Returns
        -------
        str
        """
        tables = len(self.equal) + len(self.noisy) + len(self.different) + len(self.missing)
        parts = [
            f"{len(self.equal)} equal to {RELATIVE:.0e}".replace("e-0", "e-"),
            f"{len(self.noisy)} within run-to-run noise",
            f"{len(self.different)} different",
        ]
        if self.missing:
            parts.append(f"{len(self.missing)} on one side only")
        return f"{tables} tables: {', '.join(parts)}; {len(self.verdicts)} verdicts changed"


def collect(data: Path = DATA) -> pd.DataFrame:
    """Return the key numbers of the last rebuild.

    Parameters
    ----------
    data
        Folder of ``made/`` and ``report/``.

    Returns
    -------
    pandas.DataFrame
        A row per numeric column of a table and per claim, with the columns `COLUMNS`.

    Raises
    ------
    ReportError
        `data` holds no rebuild.
    """
    claims = data / "report" / "files" / "claims.csv"
    artefacts = load_artefacts(data)
    if not artefacts or not claims.is_file():
        raise ReportError(f"no report in {data}; run `make repro` first")
    profiles = sorted({item.profile for item in artefacts if item.result_set == "rebuilt"})
    profile = ", ".join(name for name in profiles if name != NO_PROFILE)
    rows = [
        {"item": MACHINE, "quantity": "processor", "text": processor()},
        {"item": MACHINE, "quantity": "profile", "text": profile},
    ]
    for artefact in artefacts:
        path = artefact.path(".csv")
        item = path.relative_to(data / "made").with_suffix("").as_posix()
        rows += _column_rows(item, pd.read_csv(path, low_memory=False))
    verdicts = pd.read_csv(claims).set_index("id")["verdict"].fillna("")
    rows += [{"item": VERDICT, "quantity": name, "text": text} for name, text in verdicts.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _column_rows(item: str, table: pd.DataFrame) -> list[dict]:
    rows = []
    for name in table.select_dtypes("number"):
        values = table[name].to_numpy(float)
        values = values[np.isfinite(values)]
        if len(values):
            mean = float(values.mean())
            deviation = float(values.std())
            rows.append(
                {
                    "item": item,
                    "quantity": name,
                    "count": len(values),
                    "mean": float(f"{mean:.9g}"),
                    "deviation": float(f"{deviation:.9g}"),
                }
            )
    if not rows:  # a table of texts counts with its number of rows
        count = {"quantity": "rows", "count": len(table), "mean": 0.0, "deviation": 0.0}
        rows.append({"item": item, **count})
    return rows


def compare(stored: pd.DataFrame, current: pd.DataFrame) -> RebuildComparison:
    """Compare the numbers of two rebuilds.

    Parameters
    ----------
    stored : pandas.DataFrame
        Numbers of the earlier rebuild, as from `collect`.
    current : pandas.DataFrame
        Numbers of the later one.

    Returns
    -------
    RebuildComparison
        Which artefacts are equal, noisy, different or missing, and which verdicts changed.
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
    deviation = row["deviation_stored"]
    same_mean = _close(row["mean"], row["mean_stored"], deviation)
    if same_mean and _close(row["deviation"], deviation, deviation):
        return "equal"
    if _distance(row) <= 1:
        return "noisy"
    return "different"


def _distances(row: dict) -> tuple[float, float]:
    """Return a column's difference in multiples of the noise, then relative to its mean."""
    largest = max(abs(row["mean"]), abs(row["mean_stored"])) or 1.0
    return _distance(row), abs(row["mean"] - row["mean_stored"]) / largest


def _distance(row: dict) -> float:
    """Return the difference of means as a multiple of the largest that counts as noise."""
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
    return f"{row['quantity']} {row['mean_stored']:.4g} -> {row['mean']:.4g}"


def _close(first: float, second: float, scale: float) -> bool:
    if math.isnan(first) or math.isnan(second):
        return math.isnan(first) == math.isnan(second)
    largest = max(abs(first), abs(second))
    if math.isfinite(scale):
        largest = max(largest, scale)
    return abs(first - second) <= RELATIVE * largest


def main(arguments: list[str] | None = None) -> int:
    """Compare the last rebuild with the stored one, or store its numbers.

    Parameters
    ----------
    arguments
        Arguments of the command line; those of this process if None.

    Returns
    -------
    int
        Exit status: 0, or 1 after an error, which is printed to stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m study.report.compare", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="store the numbers of this rebuild")
    options = parser.parse_args(arguments)
    try:
        current = collect()
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
    _print_comparison(stored, current)
    return 0


def _print_comparison(stored: pd.DataFrame, current: pd.DataFrame) -> None:
    profiles = {_machine(table, "profile") for table in (stored, current)}
    if len(profiles) > 1:
        print(f"compare: the stored numbers are of the profile {_machine(stored, 'profile')}")
        return
    result = compare(stored, current)
    print(f"compare: {result.describe()}")
    for line in (*result.verdicts, *result.different[:10]):
        print(f"compare:   {line}")
    if len(result.different) > 10:
        print(f"compare:   and {len(result.different) - 10} more tables")
    original = _machine(stored, "processor")
    if original != _machine(current, "processor") and _hide_lock_changes():
        print(
            f"compare: dvc.lock now lists the hashes of this machine. The committed one is from "
            f"{original}, so Git leaves the difference out of `git status` "
            "(`git update-index --no-skip-worktree dvc.lock` shows it again)"
        )


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
