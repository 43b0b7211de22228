"""Multivariate time series as text: the ``.ts`` files of the UEA archive.

They have identifiers (``@dimensions 6``, in any case), then ``@data`` and one case a line: its dimensions separated by ``:``,
the values of each by ``,``, the class last.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from study.config.section import format_value
from study.tasks.formats import FormatError


@dataclass(frozen=True)
class Series:
    """Time series of one length: inputs (n, T, p) float32, targets (n,) int64, the places of their classes among `labels`."""

    inputs: np.ndarray
    targets: np.ndarray
    labels: tuple[str, ...]


def read_ts(files: Mapping[str, Iterable[str]]) -> Series:
    """Read the lines of one ``.ts`` file or several by their names, one after the other.

    Raises `FormatError`, with the name and the line's number, where a case has not the dimensions and the length of the first (series of
    unequal lengths are not read), a value is no finite number, a class is not in the header, or a later file has other classes; and where
    a file has no case.

    >>> series = read_ts({"toy.ts": ["@classLabel true a b", "@data", "1,2:3,4:b"]})
    >>> series.inputs.tolist(), series.targets.tolist()
    ([[[1.0, 3.0], [2.0, 4.0]]], [1])
    """
    labels, inputs, targets = [], [], []
    for name, lines in files.items():
        before = len(inputs)
        for number, line in enumerate(map(str.strip, lines), 1):
            try:
                if line.lower().startswith("@classlabel"):
                    labelled, *named = line.split()[1:] or [""]  # @classLabel true a b
                    if labelled.lower() != "true" or named != (labels or named):
                        raise ValueError(line)
                    labels = named
                elif line and line[0] not in "#@":
                    case, target = _case(line, labels)
                    if inputs and case.shape != inputs[0].shape:
                        raise ValueError(f"{case.shape[1]} dimensions of {len(case)} values")
                    inputs.append(case)
                    targets.append(target)
            except ValueError as error:
                raise FormatError(
                    f"{name}, line {number}: expected dimensions as many and as long as those of the first case, finite "
                    f"numbers, then a class that the header names ({', '.join(labels)}); got {format_value(str(error))}"
                ) from None
        if len(inputs) == before:
            raise FormatError(f"{name}: there is no case in it; the file is cut or no .ts file")
    return Series(np.stack(inputs), np.array(targets), tuple(labels))


def _case(line: str, labels: list[str]) -> tuple[np.ndarray, int]:
    """Return the dimensions of a case, (T, p) float32, and the place of its class among `labels`; raises `ValueError`."""
    *columns, label = line.split(":")
    target = labels.index(label.strip())
    values = [list(map(float, column.split(","))) for column in columns]
    if len({len(one) for one in values}) != 1:
        raise ValueError(f"dimensions of {[len(one) for one in values]} values")
    case = np.array(values, np.float32).T
    if not np.isfinite(case).all():
        raise ValueError("a value that is infinite or nan")
    return case, target


def ts_lines(series: Series) -> Iterator[str]:
    """Give the lines of a ``.ts`` file that holds `series`, values with six significant digits."""
    yield from (f"@classLabel true {' '.join(series.labels)}", "@data")
    for case, target in zip(series.inputs, series.targets, strict=True):
        columns = (",".join([f"{value:.6g}" for value in column]) for column in case.T.tolist())
        yield ":".join([*columns, series.labels[target]])
