"""The key numbers of a rebuild, which `study.report.compare` compares with stored ones.

- For every numeric column of every table (and of the data behind every figure): the number of
  values, their mean, their standard deviation, their mean weighted by row number, and a sum with
  fixed random weights, one for each row.
- The verdict of every claim.
- The processor and the profile.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from study.paths import DATA
from study.pipeline.machine import processor
from study.report.contents import NO_PROFILE, ReportError
from study.report.inputs import load_artifacts

STATISTICS = ("mean", "deviation", "weighted_mean", "random_sum")
"""Numbers of a column that are compared."""
COLUMNS = ["item", "quantity", "count", *STATISTICS, "text"]
VERDICT = "verdict"
"""Item of the rows that hold the verdict of a claim as a text."""
MACHINE = "machine"
"""Item of the rows that hold the processor and the profile as texts."""


def collect_numbers(data: Path = DATA) -> pd.DataFrame:
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
    artifacts = load_artifacts(data)
    if not artifacts or not claims.is_file():
        raise ReportError(f"no report in {data}; run `make repro` first")
    profiles = sorted({item.profile for item in artifacts if item.result_set == "rebuilt"})
    profile = ", ".join(name for name in profiles if name != NO_PROFILE)
    rows = [
        {"item": MACHINE, "quantity": "processor", "text": processor()},
        {"item": MACHINE, "quantity": "profile", "text": profile},
    ]
    for artifact in artifacts:
        path = artifact.path(".csv")
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
            rows.append(
                {
                    "item": item,
                    "quantity": name,
                    "count": len(values),
                    "mean": _rounded(values.mean()),
                    "deviation": _rounded(values.std()),
                    "weighted_mean": _rounded(np.average(values, weights=_row_numbers(values))),
                    "random_sum": _rounded(_random_sum(values)),
                }
            )
    if not rows:  # a table of texts counts with its number of rows
        row = {"item": item, "quantity": "rows", "count": len(table)}
        rows.append(row | dict.fromkeys(STATISTICS, 0.0))
    return rows


def _row_numbers(values: np.ndarray) -> np.ndarray:
    return np.arange(1, len(values) + 1)


def _random_sum(values: np.ndarray) -> float:
    """Return a sum of values with a fixed random weight for each row, over the root of its size.

    Two swapped values change it by their difference over that root, and a mean weighted by row
    number by much less.
    """
    weights = np.random.default_rng(0).uniform(-1, 1, len(values))
    return float(weights @ values / math.sqrt(len(values)))


def _rounded(value: float) -> float:
    return float(f"{value:.12g}")
