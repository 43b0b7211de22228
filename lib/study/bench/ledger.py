"""The file of a benchmark: one row per measurement, with machine and versions.

A time means little without its size, machine and versions, so every row has them. Rows are appended
one by one, so a benchmark that is interrupted keeps its measurements.
"""

import csv
import os
from collections.abc import Collection
from importlib.metadata import distributions
from pathlib import Path

import torch

from study.pipeline.machine import processor

COLUMNS = (
    "what",
    "size",
    "quantity",
    "round",
    "value",
    "unit",
    "baseline",
    "ratio",
    "ratio_min",
    "ratio_max",
    "rounds",
    "passed",
    "failure",
    "machine",
    "versions",
)
"""Columns of every benchmark.

A measurement has its ``round``. A median has the number of ``rounds`` and its ``baseline``.
``ratio`` is the time divided by that of the baseline, as the median over rounds: a ratio below 1 is
faster than the baseline. ``ratio_min`` and ``ratio_max`` are the extremes over rounds.
``passed`` is whether a check succeeded.
"""

_PACKAGES = ("torch", "numba", "numba-cuda", "numpy", "scipy", "statsmodels")


class Ledger:
    """Rows of measurements. Each is appended to a CSV file as soon as it is added.

    Parameters
    ----------
    path : Path, optional
        The file; by default rows are only kept in memory.
    overwrite : bool
        Whether to start a new file; otherwise rows are appended to an existing one.
    where : str
        Description of the machine; by default its processor, cores and threads.

    Attributes
    ----------
    rows : list of dict
        Values by column of the rows that this object added.
    """

    def __init__(
        self, path: Path | None = None, *, overwrite: bool = True, where: str = ""
    ) -> None:
        self.rows: list[dict] = []
        self._path = path
        self._about = {"machine": where or machine(), "versions": versions()}
        if path is not None and (overwrite or not path.exists()):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write_row(COLUMNS, "w")

    def add(self, what: str, quantity: str, **values: object) -> dict:
        """Append a row.

        Parameters
        ----------
        what : str
            What is measured, such as the name of an engine.
        quantity : str
            The measured quantity, such as ``time``.
        **values
            Values of the other columns.

        Returns
        -------
        dict
            The row.

        Raises
        ------
        ValueError
            A column is unknown.
        """
        unknown = values.keys() - set(COLUMNS)
        if unknown:
            raise ValueError(f"unknown column {min(unknown)!r}; known: {', '.join(COLUMNS)}")
        given = {"what": what, "quantity": quantity, **self._about, **values}
        given["size"] = str(values.get("size", ""))
        row = {column: given.get(column) for column in COLUMNS}
        self.rows.append(row)
        if self._path is not None:
            self._write_row(row.values(), "a")
        return row

    def _write_row(self, values: Collection, mode: str) -> None:
        texts = [f"{value:.6g}" if isinstance(value, float) else value for value in values]
        with self._path.open(mode, encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(texts)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read the file of a ledger.

    Parameters
    ----------
    path : Path

    Returns
    -------
    list of dict
        For each row, strings by column.
    """
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def machine() -> str:
    """Describe the machine, and how many threads this process uses.

    Returns
    -------
    str
        Processor, number of cores, and number of threads.
    """
    return f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} thread(s) used"


def versions() -> str:
    """List the versions of the installed packages that times depend on.

    Returns
    -------
    str
        Names and versions, separated by commas.
    """
    installed = {package.name: package.version for package in distributions()}
    return ", ".join(f"{name} {installed[name]}" for name in _PACKAGES if name in installed)
