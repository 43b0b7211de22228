"""Multivariate time series as text: the ``.ts`` files of the UEA archive.

They have identifiers (``@dimensions 6``, in any case), then ``@data`` and one case a line: its dimensions separated by ``:``,
the values of each by ``,``, the class last.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.run.params import shown
from lib.tasks.formats import FormatError
from lib.tasks.formats.archives import member


@dataclass(frozen=True)
class Series:
    """Time series of one length: inputs (n, T, p) float32, targets (n,) int64, the places of their classes among `labels`."""

    inputs: np.ndarray
    targets: np.ndarray
    labels: tuple[str, ...]


def read_ts(lines: Iterable[str], name: str) -> Series:
    """Read a ``.ts`` file by its lines; `name` stands at the head of every error.

    Raises `FormatError`, with the line's number, where a case has not the dimensions of the first, series differ in length, a label is not in
    the header, a value is no finite number, or the header says none of what is needed.

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
                f"{name}, line {number}: expected an identifier or @data, got {shown(line)}"
            )
        identifier, *values = line.lower().split()
        if identifier == "@data":
            break
        header[identifier[1:]] = values if identifier != "@classlabel" else line.split()[1:]
    else:
        raise FormatError(f"{name}: there is no @data; the file is cut or no .ts file")
    if header.get("timestamps") == ["true"]:
        raise FormatError(f"{name}: series with time stamps are not read; export them without")
    labelled, *labels = header.get("classlabel") or ["false"]
    if labelled.lower() != "true" or not labels:
        raise FormatError(f"{name}: expected '@classLabel true ...' in the header")
    inputs, targets, dimensions, length = [], [], 0, 0  # as the first case has them
    for number, line in numbered:
        where = f"{name}, line {number}"
        *columns, target = line.split(":")
        dimensions = dimensions or max(1, len(columns))
        if len(columns) != dimensions:
            raise FormatError(
                f"{where}: expected {dimensions} dimensions and a target, got {len(columns)} "
                "dimensions; one is missing or one too many"
            )
        length = length or columns[0].count(",") + 1
        case = [
            _numbers(text, f"{where}, dimension {k}", length) for k, text in enumerate(columns, 1)
        ]
        if target.strip() not in labels:
            raise FormatError(
                f"{where}: unknown label {shown(target)}; the header names {', '.join(labels)}"
            )
        inputs.append(np.stack(case, axis=1))
        targets.append(labels.index(target.strip()))
    if not inputs:
        raise FormatError(f"{name}: no case follows @data; the file is cut")
    return Series(np.stack(inputs), np.array(targets), tuple(labels))


def read_problem(archive: Path, problem: str) -> Series:
    """Return the cases of a problem in an archive of ``.ts`` files, the training file's first; raises `FormatError`."""
    parts = []
    for file in (f"{problem}_TRAIN.ts", f"{problem}_TEST.ts"):
        content = member(archive, file, largest=2**30)
        parts.append(read_ts(io.StringIO(content.decode("latin-1")), file))
    train, test = parts
    if train.labels != test.labels or train.inputs.shape[1:] != test.inputs.shape[1:]:
        raise FormatError(
            f"{archive.name}: training and test file differ in length, dimensions or classes"
        )
    inputs, targets = ([getattr(part, name) for part in parts] for name in ("inputs", "targets"))
    return Series(np.concatenate(inputs), np.concatenate(targets), train.labels)


def ts_lines(series: Series) -> Iterator[str]:
    """Give the lines of a ``.ts`` file that holds `series`, values with six significant digits."""
    yield from (f"@classLabel true {' '.join(series.labels)}", "@data")
    for case, target in zip(series.inputs, series.targets, strict=True):
        columns = (",".join([f"{value:.6g}" for value in column]) for column in case.T.tolist())
        yield ":".join([*columns, series.labels[target]])


def _numbers(text: str, where: str, length: int) -> np.ndarray:
    try:
        values = np.array(list(map(float, text.split(","))), np.float32)
    except ValueError as error:
        raise FormatError(f"{where}: expected numbers ({shown(str(error))})") from None
    if not np.isfinite(values).all():
        raise FormatError(
            f"{where}: expected finite numbers, got {values[~np.isfinite(values)][0]}"
        )
    if len(values) != length:
        raise FormatError(
            f"{where}: expected {length} values, got {len(values)}; series of unequal lengths are not read"
        )
    return values
