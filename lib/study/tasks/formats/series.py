"""Time series as text: the ``.ts`` files of the UEA archive, the ``.tsv`` files of the UCR archive.

A ``.ts`` file begins with a header of identifiers, such as ``@dimensions 6``, in upper or lower
case. The header ends with ``@data``. After that, each line is one series: its dimensions, separated
by ``:``, and at the end its class. The values of a dimension are separated by ``,``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from study.config.section import format_value
from study.tasks.formats import FormatError

_BYTE_ORDER_MARKS = "\ufeff", "\u00ef\u00bb\u00bf"
"""The mark that some editors write at the start of a file, read as UTF-8 and as Latin-1."""
_WITH_VALUE = {"@classlabel", "@dimensions", "@serieslength", "@univariate", "@timestamps"}
"""Identifiers of the header that are read and need a value."""


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
    """The header of a ``.ts`` file; a field is None if the header does not give it."""

    labels: list[str] = field(default_factory=list)
    dimensions: int | None = None
    length: int | None = None
    univariate: bool = False

    def read(self, line: str) -> None:
        """Read one identifier; raise `ValueError` if its value is missing or invalid."""
        key, *values = line.split()
        if key.lower() in _WITH_VALUE and not values:
            raise ValueError(f"{key} without a value")
        match key.lower():
            case "@classlabel":
                has_classes, *labels = values
                contradicts = self.labels and labels != self.labels
                if has_classes.lower() != "true" or contradicts:
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
                    raise ValueError("time stamps, which are not supported")

    def check(self, case: np.ndarray) -> None:
        """Raise `ValueError` if the shape of a series, (T, p), is not that of the header."""
        length, dimensions = case.shape
        expected = self.dimensions
        if self.univariate:
            expected = 1
        if expected not in (None, dimensions):
            raise ValueError(f"{dimensions} dimensions, the header states {expected}")
        if self.length not in (None, length):
            raise ValueError(f"{length} values, the header states {self.length}")


def read_ts(files: Mapping[str, Iterable[str]]) -> Series:
    """Read ``.ts`` files, one after the other.

    Parameters
    ----------
    files : mapping of str to iterable of str
        The lines of each file, by its name.

    Returns
    -------
    Series
        All series. They must have equal lengths.

    Raises
    ------
    FormatError
        A series has other dimensions or another length than the first one or the header, a value is
        not a finite number, a class is not in the header, a later file has other classes, or a file
        has no series. The message names the file and the line.

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
            except ValueError as error:
                raise FormatError(
                    f"{name}, line {number}: expected dimensions as many and as long as those of "
                    "the header and the first series, finite numbers, then a class that the header "
                    f"names ({', '.join(header.labels)}); got {format_value(str(error))}"
                ) from None
        labels = header.labels
        if len(inputs) == cases_before:
            raise FormatError(f"{name} has no series; it is truncated or not a .ts file")
    return Series(np.stack(inputs), np.array(targets), tuple(labels))


def read_tsv(text: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read a file of the UCR archive: one series per line, its class and its values between tabs.

    Parameters
    ----------
    text : str
        The content of the file.
    name : str
        Name of the file, for error messages.

    Returns
    -------
    inputs : numpy.ndarray
        The series, (n, T, 1) float32.
    targets : numpy.ndarray
        Their classes as printed, (n,) int64.

    Raises
    ------
    FormatError
        Lines differ in length, a value is not a finite number, a class is not a whole number, or
        the file has no series.
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
                raise ValueError(f"{len(values)} values, the first series has {len(inputs[0])}")
        except (ValueError, OverflowError) as error:
            raise FormatError(
                f"{name}, line {number}: expected a class and as many finite numbers as in the "
                f"first line; got {format_value(str(error))}"
            ) from None
    if not inputs:
        raise FormatError(f"{name} has no series; it is truncated")
    return np.array(inputs, np.float32)[:, :, None], np.array(targets)


def ts_lines(series: Series) -> Iterator[str]:
    """Yield the lines of a ``.ts`` file.

    Parameters
    ----------
    series : Series

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
    """Return the values of a series, (T, p) float32, and the index of its class."""
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
