"""Faults that trials make: in nested values, in bytes, and in the place where a file belongs."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random


def places(value: object, path: tuple = ()) -> Iterator[tuple[tuple, object]]:
    """Yield (path, value) of a value and of everything that its dicts and lists hold."""
    yield path, value
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*path, key))


def damaged(draw: Random, whole: bytes) -> bytes:
    """Return other bytes: some bits flipped, or a piece missing, replaced, or added."""
    turned, at = bytearray(whole), draw.randrange(len(whole))
    for _ in range(draw.choice((1, 1, 2, 20))):
        turned[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
    more = draw.choice((draw.randbytes(8), bytes(64), whole[:at], b"PK\x03\x04"))
    another = draw.randbytes(draw.randrange(40))
    content = draw.choice(
        [
            *[bytes(turned)] * 2,
            whole[:at],
            whole[:at] + another + whole[at + draw.randrange(1, 40) :],
            whole[:at] + more + whole[at:],
        ]
    )
    return damaged(draw, whole) if content == whole else content


OBSTACLES = {
    "link": lambda place, precious: place.symlink_to(precious),
    "dangling link": lambda place, precious: place.symlink_to(precious.with_name("nothing")),
    "loop": lambda place, _: place.symlink_to(place.name),
    "link to a folder": lambda place, precious: place.symlink_to(precious.parent),
    "folder": lambda place, _: place.mkdir(),
    "full folder": lambda place, _: (place / "x").mkdir(parents=True),
    "pipe": lambda place, _: os.mkfifo(place),
}
"""Ways to put something other than a regular file at a place.

A link leads to a precious file, or beside it.
"""


def in_the_way(draw: Random, place: Path, precious: Path) -> None:
    """Put something at `place` that is no file of its own, but no pipe."""
    place.parent.mkdir(parents=True, exist_ok=True)
    OBSTACLES[draw.choice([*OBSTACLES][:-1])](place, precious)
