"""Word vectors as text, a word and its numbers a line: the form in which GloVe is published."""

from collections.abc import Collection, Iterable

import numpy as np

from lib.tasks.formats import FormatError


def read_vectors(
    lines: Iterable[str], size: int, name: str, wanted: Collection[str]
) -> dict[str, np.ndarray]:
    """Return the vectors of the wanted words, (size,) float32 each, in the file's order.

    A line with more or fewer numbers, or something else, is a `FormatError` with `name` and its number.

    >>> read_vectors(["the 1 -2.5", "of 0 1"], 2, "toy.txt", {"the"})["the"].tolist()
    [1.0, -2.5]
    """
    vectors = {}
    for number, line in enumerate(lines, 1):
        word, *values = line.rstrip("\n").split(" ")
        if word in wanted:
            try:
                vectors[word] = np.array(list(map(float, values)), np.float32).reshape(size)
            except ValueError:
                raise FormatError(
                    f"{name}, line {number}: expected {size} numbers after {word!r}, got {len(values)} words; "
                    "the file is cut or has vectors of another size"
                ) from None
    return vectors
