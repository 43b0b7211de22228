"""Word vectors as text, a word and its numbers a line: the form in which GloVe is published."""

from collections.abc import Collection, Iterable

import numpy as np

from lib.tasks.formats import FormatError


def read_vectors(
    lines: Iterable[str], size: int, name: str, wanted: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Return the vectors of the wanted words, or of all, (size,) float32 each, in the file's order.

    `name` stands at the head of every error.

    Raises
    ------
    FormatError
        A line has more or fewer numbers, or something else than numbers; with its number.

    Examples
    --------
    >>> read_vectors(["the 1 -2.5", "of 0 1"], 2, "toy.txt")["the"].tolist()
    [1.0, -2.5]
    """
    vectors = {}
    for number, line in enumerate(lines, 1):
        word, *values = line.rstrip("\n").split(" ")
        if wanted and word not in wanted:
            continue
        try:
            vector = np.array(list(map(float, values)), np.float32)
        except ValueError:
            raise FormatError(f"{name}, line {number}: expected numbers after {word!r}") from None
        if len(vector) != size:
            raise FormatError(
                f"{name}, line {number}: expected {size} numbers after {word!r}, got {len(vector)}; "
                "the file is cut or has vectors of another size"
            )
        vectors[word] = vector
    return vectors
