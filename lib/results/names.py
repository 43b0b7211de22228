"""What readers call an architecture or a data set, and the colour and marker that it has in every figure.

Names are read from the files themselves, without importing what trains: a cell's ``title``, that in a data set's
row. A cell that is added as one more file is named and coloured by itself.
"""

import ast
import tomllib
import zlib
from functools import cache
from itertools import cycle, islice
from pathlib import Path

from lib.paths import ROOT

LOOKS = {
    # Okabe and Ito's palette for the factorial study: apart for readers with any common colour vision.
    "rnn": ("#000000", "o"),
    "lstm": ("#E69F00", "s"),
    "gru": ("#56B4E9", "D"),
    "lipschitz": ("#009E73", "^"),
    "antisymmetric": ("#0072B2", "v"),
    "exponential": ("#D55E00", "P"),
    "unicornn": ("#CC79A7", "X"),
    # Tol's muted palette, then whatever is farthest from all before it in any kind of colour vision.
    "sru": ("#882255", "p"),
    "indrnn": ("#999933", "d"),
    "cornn": ("#332288", "h"),
    "lu_rnn": ("#117733", "8"),
    "inverse_rnn": ("#AA4499", "*"),
    "lem": ("#8800EE", "H"),
    "irnn": ("#442200", "<"),
    "chrono_lstm": ("#99BB77", ">"),
    "linear_rnn": ("#992200", "o"),
}
"""Colour and marker of the architectures that the texts compare most."""
SPARE_COLOURS = ("#8866EE", "#442266", "#CCAAAA", "#2244BB", "#EE0055", "#550044", "#8888EE")
SPARE_MARKERS = ("<", ">", "s", "^", "D")
"""For all others; no pair of these repeats one above."""
LABELS = {"irnn": "iRNN", "digits": "Digits", "cifar10": "CIFAR10", "reuters": "Reuters"}
"""Names that a text writes otherwise than the file does."""

_CELLS = ROOT / "lib" / "cells"
_SETS = ROOT / "lib" / "tasks" / "sources" / "table.toml"


def label(name: str) -> str:
    """Return how the texts write the architecture or data set `name`; unknown names stay as they are."""
    return LABELS.get(name) or _titles().get(name, name)


def colour(architecture: str) -> str:
    """Return the colour of `architecture`, the same in every figure and process."""
    return _look(architecture)[0]


def marker(architecture: str) -> str:
    """Return Matplotlib's name of the marker of `architecture`, the same in every figure and process."""
    return _look(architecture)[1]


def cell_titles(folder: Path = _CELLS) -> dict[str, str]:
    """Return the title of each architecture by the name it is registered under, as its file states both.

    The files are parsed, not imported: ``class LSTM(Cell, name="lstm")`` with ``title = "LSTM"``.
    """
    found = {}
    for path in _modules(folder):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                names = [word.value.value for word in node.keywords if word.arg == "name"]
                titles = [
                    line.value.value
                    for line in node.body
                    if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "title"
                ]
                found.update(zip(names, titles, strict=False))
    return found


@cache
def _titles() -> dict[str, str]:
    cells = {name: _sentence_case(title) for name, title in cell_titles().items()}
    rows = tomllib.loads(_SETS.read_text("utf-8"))["sets"]
    sources = {name: row["title"] for name, row in rows.items()}
    return sources | cells


def _sentence_case(title: str) -> str:
    """Return `title` with a capital where its first word is a plain one: coRNN and dt-LSTM keep their own."""
    first = title.split()[0]
    return title[0].upper() + title[1:] if first.isalpha() and first.islower() else title


def _look(architecture: str) -> tuple[str, str]:
    return (
        LOOKS.get(architecture) or _spare_looks().get(architecture) or _first_choice(architecture)
    )


@cache
def _spare_looks() -> dict[str, tuple[str, str]]:
    """Return a look of its own for each cell that `LOOKS` does not list, and a colour while there are any."""
    choices, taken = _choices(), {}
    for name in sorted(set(cell_titles()) - set(LOOKS)):
        start = choices.index(_first_choice(name))
        used = [look[0] for look in taken.values()]
        free = [look for look in choices[start:] + choices[:start] if look not in taken.values()]
        taken[name] = min(free or choices[start:], key=lambda look: used.count(look[0]))
    return taken


def _first_choice(name: str) -> tuple[str, str]:
    # A checksum, not hash(): the same name looks the same in every process.
    return _choices()[zlib.crc32(name.encode()) % len(_choices())]


def _choices() -> list[tuple[str, str]]:
    """Return all pairs of spare colours and markers; neighbours differ in both."""
    count = len(SPARE_COLOURS) * len(SPARE_MARKERS)
    return list(islice(zip(cycle(SPARE_COLOURS), cycle(SPARE_MARKERS), strict=False), count))


def _modules(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]
