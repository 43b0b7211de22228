r"""Multivariate time series as text: the ``.ts`` and ``.arff`` files of the UEA and TSER archives.

A ``.ts`` file has identifiers (``@dimensions 6``, in any case), then ``@data`` and one case a line: its dimensions
separated by ``:``, the values of each by ``,``, the class or the real target last. An ``.arff`` file has a relational
attribute: one quoted field a case, dimensions separated by a literal ``\n``, then ``,`` and the class.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lib.tasks.formats import FormatError


@dataclass(frozen=True)
class Series:
    """Time series of one length: inputs (n, T, p) float32, targets (n,), and `labels`, the classes in the order of the file's header.

    A target is the place of its class, int64, or a real number, float32, without labels.
    """

    inputs: np.ndarray
    targets: np.ndarray
    labels: tuple[str, ...]


def read_ts(lines: Iterable[str], name: str) -> Series:
    """Read a ``.ts`` file by its lines; `name` stands at the head of every error.

    Raises
    ------
    FormatError
        A case lacks a dimension, series differ in length, a label is not in the header, a value is no finite number,
        or the header says none of what is needed; with the line's number.

    Examples
    --------
    >>> series = read_ts(["@classLabel true a b", "@data", "1,2:3,4:b"], "toy.ts")
    >>> series.inputs.tolist(), series.targets.tolist()
    ([[[1.0, 3.0], [2.0, 4.0]]], [1])
    """
    numbered = ((number, line.strip()) for number, line in enumerate(lines, 1))
    numbered = ((number, line) for number, line in numbered if line and line[0] != "#")
    header = {}
    for number, line in numbered:
        if line[0] != "@":
            raise FormatError(
                f"{name}, line {number}: expected an identifier or @data, got {_short(line)}"
            )
        identifier, *values = line.split()
        if identifier.lower() == "@data":
            break
        header[identifier.lower()[1:]] = values
    else:
        raise FormatError(f"{name}: there is no @data; the file is cut or no .ts file")
    if _first(header, "timestamps") == "true":
        raise FormatError(f"{name}: series with time stamps are not read; export them without")
    labelled = _first(header, "classlabel") == "true"
    if not labelled and _first(header, "targetlabel") != "true":
        raise FormatError(
            f"{name}: expected '@classLabel true ...' or '@targetLabel true' in the header"
        )
    cases = _Cases(
        name,
        dimensions=_count(header, ("dimensions", "dimension"), name),
        length=_count(header, ("serieslength",), name),
        labels=tuple(header["classlabel"][1:]) if labelled else (),
    )
    for number, line in numbered:
        *dimensions, target = line.split(":")
        cases.add(number, dimensions, target)
    return cases.series()


def ts_lines(series: Series, name: str, comment: str = "") -> Iterator[str]:
    """Give the lines of a ``.ts`` file that holds `series`, values with six significant digits."""
    _, length, dimensions = series.inputs.shape
    yield from (f"# {line}" for line in comment.splitlines())
    yield from (f"@problemName {name}", "@timeStamps false", "@missing false")
    yield from (f"@univariate {str(dimensions == 1).lower()}", f"@dimensions {dimensions}")
    yield from ("@equalLength true", f"@seriesLength {length}")
    yield f"@classLabel true {' '.join(series.labels)}" if series.labels else "@targetLabel true"
    yield "@data"
    for case, target in zip(series.inputs, series.targets, strict=True):
        columns = (",".join([f"{value:.6g}" for value in column]) for column in case.T.tolist())
        yield ":".join([*columns, series.labels[target] if series.labels else f"{target:.9g}"])


def read_arff(lines: Iterable[str], name: str) -> Series:
    r"""Read an ``.arff`` file with one relational attribute and a class; arguments and errors as for `read_ts`.

    Examples
    --------
    >>> lines = ["@attribute s relational", "@attribute t0 numeric", "@attribute t1 numeric", "@end s"]
    >>> lines += ["@attribute target {a,b}", "@data", r"'1,2\n3,4',b"]
    >>> read_arff(lines, "toy.arff").inputs.tolist()
    [[[1.0, 3.0], [2.0, 4.0]]]
    """
    numbered = ((number, line.strip()) for number, line in enumerate(lines, 1))
    numbered = ((number, line) for number, line in numbered if line and line[0] != "%")
    inside, length, labels = False, 0, None
    for _, line in numbered:
        words = line.split(maxsplit=2)
        keyword = words[0].lower()
        if keyword == "@data":
            break
        if keyword == "@end":
            inside = False
        elif keyword == "@attribute" and words[-1].lower() == "relational":
            inside = True
        elif keyword == "@attribute" and inside:
            length += 1
        elif keyword == "@attribute":
            kind = words[-1]
            braced = kind.startswith("{") and kind.endswith("}")
            labels = tuple(part.strip() for part in kind[1:-1].split(",")) if braced else ()
    else:
        raise FormatError(f"{name}: there is no @data; the file is cut or no .arff file")
    if not length or labels is None:
        raise FormatError(
            f"{name}: expected a relational attribute and then the class in the header"
        )
    cases = _Cases(name, dimensions=None, length=length, labels=labels)
    for number, line in numbered:
        body, quote, target = line[1:].rpartition(line[0])
        if line[0] not in "'\"" or not quote or not target.startswith(","):
            raise FormatError(
                f"{name}, line {number}: expected a quoted series and its class, got {_short(line)}"
            )
        cases.add(number, body.split("\\n"), target[1:])
    return cases.series()


class _Cases:
    """Collects cases that agree in dimensions and length with the header, or else with the first case."""

    def __init__(
        self, name: str, dimensions: int | None, length: int | None, labels: tuple[str, ...]
    ):
        self.name, self.dimensions, self.length, self.labels = name, dimensions, length, labels
        self.inputs: list[np.ndarray] = []
        self.targets: list[float] = []

    def add(self, number: int, dimensions: list[str], target: str) -> None:
        where = f"{self.name}, line {number}"
        self.dimensions = self.dimensions or max(1, len(dimensions))
        if len(dimensions) != self.dimensions:
            raise FormatError(
                f"{where}: expected {self.dimensions} dimensions and a target, got {len(dimensions)} "
                "dimensions; one is missing or one too many"
            )
        columns = [
            _numbers(text, f"{where}, dimension {k}") for k, text in enumerate(dimensions, 1)
        ]
        self.length = self.length or len(columns[0])
        for k, column in enumerate(columns, 1):
            if len(column) != self.length:
                raise FormatError(
                    f"{where}, dimension {k}: expected {self.length} values, got {len(column)}; "
                    "series of unequal lengths are not read"
                )
        target = target.strip()
        if not self.labels:
            self.targets.append(_numbers(target, f"{where}, target")[0])
        elif target in self.labels:
            self.targets.append(self.labels.index(target))
        else:
            raise FormatError(
                f"{where}: unknown label {_short(target)}; the header names {', '.join(self.labels)}"
            )
        self.inputs.append(np.stack(columns, axis=1))

    def series(self) -> Series:
        if not self.inputs:
            raise FormatError(f"{self.name}: no case follows @data; the file is cut")
        kind = np.int64 if self.labels else np.float32
        return Series(np.stack(self.inputs), np.array(self.targets, kind), self.labels)


def _numbers(text: str, where: str) -> np.ndarray:
    parts = text.split(",")
    try:
        values = np.array(list(map(float, parts)), np.float32)
    except ValueError:
        wrong = next(part for part in parts if not _is_number(part))
        raise FormatError(f"{where}: expected numbers, got {_short(wrong.strip())}") from None
    if not np.isfinite(values).all():
        wrong = parts[int(np.flatnonzero(~np.isfinite(values))[0])]
        raise FormatError(f"{where}: expected finite numbers, got {_short(wrong.strip())}")
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _first(header: dict[str, list[str]], identifier: str) -> str:
    return next(iter(header.get(identifier, [])), "false").lower()


def _count(header: dict[str, list[str]], identifiers: tuple[str, ...], name: str) -> int | None:
    """Return the positive number behind the first of the identifiers that is there, or None."""
    for identifier in identifiers:
        if identifier in header:
            text = " ".join(header[identifier])
            if not text.isdecimal() or int(text) < 1:
                raise FormatError(
                    f"{name}: expected a positive number after @{identifier}, got {_short(text)}"
                )
            return int(text)
    return None


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
