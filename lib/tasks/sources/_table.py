"""The table of data sets (`table.toml`), and the readers that its rows name."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TABLE = tomllib.loads(Path(__file__).with_name("table.toml").read_text("utf-8"))
SETS: dict[str, dict] = _TABLE["sets"]
ORIGINS: dict[str, dict] = _TABLE["origins"]
READERS: dict[str, Callable[..., dict[str, Any]]] = {}


def reader(read: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Register a function under its name: ``(**settings) -> what a set's row leaves open``.

    It returns keywords of `lib.tasks.prepared.prepared_dataset`: the parts ``train``, ``test`` and maybe ``validation``, and
    whatever follows from the data.
    """
    READERS[read.__name__] = read
    return read
