"""Multivariate time series as text: the ``.ts`` files of the UEA archive.

A header of identifiers (``@dimensions 6``, in any case) precedes ``@data`` and one case per line:
its dimensions separated by ``:``, the values of each by ``,``, the class last.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from study.config.section import format_value
from study.tasks.formats import FormatError

_BYTE_ORDER_MARKS = "\ufeff", "\u00ef\u00bb\u00bf"
"""The mark that some editors put first, read as UTF-8 and as Latin-1."""


@dataclass(frozen=True)
class Series:
    """Time series of one length."""

    inputs: np.ndarray
    """Shape (n, T, p), float32."""
    targets: np.ndarray
    """Index of each series' class among `labels`, shape (n,), int64."""
    labels: tuple[str, ...]


@dataclass
class _Header:
    """What the identifiers of a file state; None if they do not."""

    labels: list[str] = field(default_factory=list)
    dimensions: int | None = None
    length: int | None = None
    univariate: bool = False

    def read(self, line: str) -> None:
        """Take in one identifier; raises `ValueError` if it cannot be what it says."""
        key, *values = line.split()
        match key.lower():
            case "@classlabel":
                labelled, *labels = values or [""]
                if labelled.lower() != "true" or labels != (self.labels or labels):
                    raise ValueError(line)
                self.labels = labels
            case "@dimensions":
                self.dimensions = int(values[0])
            case "@serieslength":
                self.length = int(values[0])
            case "@univariate":
                self.univariate = values[0].lower() == "true"
            case "@timestamps":
                if values[0].lower() == "true":
                    raise ValueError("time stamps, which are not read")

    def check(self, case: np.ndarray) -> None:
        """Refuse, by a `ValueError`, a case of another form than the header states."""
        length, dimensions = case.shape
        stated = 1 if self.univariate else self.dimensions
        if stated not in (None, dimensions):
            raise ValueError(f"{dimensions} dimensions, the header states {stated}")
        if self.length not in (None, length):
            raise ValueError(f"{length} values, the header states {self.length}")


def read_ts(files: Mapping[str, Iterable[str]]) -> Series:
    """Read ``.ts`` files, one after the other.

    Parameters
    ----------
    files
        The lines of each file, by its name.

    Returns
    -------
    Series
        All cases. Series of unequal lengths are not read.

    Raises
    ------
    FormatError
        Names the file and the line. A case has other dimensions or another length than the first
        or than the header states, a value is not a finite number, a class is not in the header, a
        later file has other classes, or a file has no case.

    Examples
    --------
    >>> series = read_ts({"toy.ts": ["@classLabel true a b", "@data", "1,2:3,4:b"]})
    >>> series.inputs.tolist(), series.targets.tolist()
    ([[[1.0, 3.0], [2.0, 4.0]]], [1])

    """
    labels: list[str] = []
    inputs: list[np.ndarray] = []
    targets: list[int] = []
    for name, lines in files.items():
        cases_before = len(inputs)
        header = _Header(labels)
        for number, line in enumerate(lines, 1):
            try:
                line = _stripped(line, first=number == 1)
                if line.startswith("@"):
                    header.read(line)
                elif line and not line.startswith("#"):
                    case, target = _case(line, header.labels)
                    header.check(case)
                    if inputs and case.shape != inputs[0].shape:
                        raise ValueError(f"{case.shape[1]} dimensions of {len(case)} values")
                    inputs.append(case)
                    targets.append(target)
            except (ValueError, IndexError) as error:
                raise FormatError(
                    f"{name}, line {number}: expected dimensions as many and as long as those of "
                    "the header and the first case, finite numbers, then a class that the header "
                    f"names ({', '.join(header.labels)}); got {format_value(str(error))}"
                ) from None
        labels = header.labels
        if len(inputs) == cases_before:
            raise FormatError(f"{name}: there is no case in it; the file is cut or no .ts file")
    return Series(np.stack(inputs), np.array(targets), tuple(labels))


def read_tsv(text: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read a file of the UCR archive: a case per line, its class and then its values, tabs between.

    Parameters
    ----------
    text
        The file.
    name
        Name of the file, for error messages.

    Returns
    -------
    tuple
        The series, (n, T, 1) float32, and their classes as printed, (n,) int64.

    Raises
    ------
    FormatError
        Lines differ in length, a value is not a finite number, a class is not a whole number, or
        there is no case.

    """
    inputs: list[list[float]] = []
    targets: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            label, *values = [float(value) for value in line.split("\t")]
            targets.append(int(label))
            inputs.append(values)
            if label != targets[-1] or not np.isfinite(values).all():
                raise ValueError("a class that is not whole, or a value that is infinite or nan")
            if len(values) != len(inputs[0]):
                raise ValueError(f"{len(values)} values, the first case has {len(inputs[0])}")
        except (ValueError, OverflowError) as error:
            raise FormatError(
                f"{name}, line {number}: expected a class and as many finite numbers as in the "
                f"first line; got {format_value(str(error))}"
            ) from None
    if not inputs:
        raise FormatError(f"{name}: there is no case in it; the file is cut")
    return np.array(inputs, np.float32)[:, :, None], np.array(targets)


def ts_lines(series: Series) -> Iterator[str]:
    """Give the lines of a ``.ts`` file.

    Parameters
    ----------
    series
        The series.

    Yields
    ------
    str
        A line; values have six significant digits.

    """
    yield f"@classLabel true {' '.join(series.labels)}"
    yield "@data"
    for case, target in zip(series.inputs, series.targets, strict=True):
        columns = []
        for column in case.T.tolist():
            columns.append(",".join([f"{value:.6g}" for value in column]))
        yield ":".join([*columns, series.labels[target]])


def _stripped(line: str, *, first: bool) -> str:
    """Return a line without surrounding blanks and, if it is the first, a byte order mark."""
    if first:
        for mark in _BYTE_ORDER_MARKS:
            line = line.removeprefix(mark)
    return line.strip()


def _case(line: str, labels: list[str]) -> tuple[np.ndarray, int]:
    """Return the dimensions of a case, (T, p) float32, and the index of its class."""
    *columns, label = line.split(":")
    target = labels.index(label.strip())
    values = []
    for column in columns:
        values.append([float(number) for number in column.split(",")])
    lengths = [len(column) for column in values]
    if len(set(lengths)) != 1:
        raise ValueError(f"dimensions of {lengths} values")
    case = np.array(values, np.float32).T
    if not np.isfinite(case).all():
        raise ValueError("a value that is infinite or nan")
    return case, target
