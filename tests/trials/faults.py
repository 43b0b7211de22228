"""Faults that trials make: in nested values, in bytes, and at the path of a file."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random


def paths_and_values(value: object, path: tuple = ()) -> Iterator[tuple[tuple, object]]:
    """Yield (path, value) of a value and of everything in its dicts and lists."""
    yield path, value
    if isinstance(value, dict):
        for key, part in value.items():
            yield from paths_and_values(part, (*path, key))
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield from paths_and_values(part, (*path, index))


def damaged(draw: Random, whole: bytes) -> bytes:
    """Return other bytes: some bits flipped, or a piece missing, replaced or added."""
    content = whole
    while content == whole:
        flip = draw.random() < 0.4
        content = _flip_bits(draw, whole) if flip else _cut_or_splice(draw, whole)
    return content


def _flip_bits(draw: Random, whole: bytes) -> bytes:
    flipped = bytearray(whole)
    for _ in range(draw.choice((1, 1, 2, 20))):
        flipped[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
    return bytes(flipped)


def _cut_or_splice(draw: Random, whole: bytes) -> bytes:
    position = draw.randrange(len(whole))
    before = whole[:position]
    kind = draw.choice(("cut", "replace", "insert"))
    if kind == "cut":
        return before
    if kind == "replace":
        other = draw.randbytes(draw.randrange(40))
        return before + other + whole[position + draw.randrange(1, 40) :]
    inserted = draw.choice((draw.randbytes(8), bytes(64), before, b"PK\x03\x04"))
    return before + inserted + whole[position:]


def _link(path: Path, precious: Path) -> None:
    path.symlink_to(precious)


def _dangling_link(path: Path, precious: Path) -> None:
    path.symlink_to(precious.with_name("nothing"))


def _loop(path: Path, precious: Path) -> None:
    path.symlink_to(path.name)


def _link_to_folder(path: Path, precious: Path) -> None:
    path.symlink_to(precious.parent)


def _folder(path: Path, precious: Path) -> None:
    path.mkdir()


def _full_folder(path: Path, precious: Path) -> None:
    (path / "x").mkdir(parents=True)


def _pipe(path: Path, precious: Path) -> None:
    os.mkfifo(path)


OBSTACLES: dict[str, Callable[[Path, Path], None]] = {
    "link": _link,
    "dangling link": _dangling_link,
    "loop": _loop,
    "link to a folder": _link_to_folder,
    "folder": _folder,
    "full folder": _full_folder,
    "pipe": _pipe,
}
"""Ways to put something other than a regular file at a path.

A link leads to a precious file, or near it.
"""


def put_in_the_way(draw: Random, path: Path, precious: Path) -> None:
    """Put something at `path` that is not a regular file; never a pipe."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = [kind for kind in OBSTACLES if kind != "pipe"]
    OBSTACLES[draw.choice(kinds)](path, precious)
