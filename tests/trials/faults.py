"""Faults that trials make: in nested values, in bytes, in text, and in the place where a file belongs."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random


def places(value: object, path: tuple = ()) -> Iterator[tuple[tuple, object]]:
    """Yield (path, value) of a value and of everything that its dicts and lists hold."""
    yield path, value
    match value:
        case dict():
            items = value.items()
        case list():
            items = enumerate(value)
        case _:
            items = ()
    for key, part in items:
        yield from places(part, (*path, key))


def damaged(draw: Random, whole: bytes) -> bytes:
    """Return other bytes: some bits are turned, or a piece is missing, is another or comes besides."""
    content, at = bytearray(whole), draw.randrange(len(whole))
    match draw.randrange(5):
        case 0 | 1:
            for _ in range(draw.choice((1, 1, 2, 20))):
                content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        case 2:
            del content[at:]
        case 3:
            content[at : at + draw.randrange(1, 40)] = draw.randbytes(draw.randrange(40))
        case _:
            more = (draw.randbytes(8), bytes(64), whole[:at], b"PK\x03\x04")
            content[at:at] = draw.choice(more)
    return damaged(draw, whole) if content == whole else bytes(content)


def edited(draw: Random, text: str, bits: Sequence[str]) -> str:
    """Return a text with one to three faults, among them `bits` that mean something where they do not belong."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at, lines = draw.randrange(len(text) + 1), text.splitlines(keepends=True)
        row = draw.randrange(len(lines)) if lines else 0
        match draw.randrange(8):
            case 0 | 1 | 2:
                text = text[:at] + draw.choice(bits) + text[at:]
            case 3:
                text = text[:at] + draw.choice(bits) + text[at + draw.randrange(30) :]
            case 4:
                text = text[:at]
            case 5:
                text = text[:at] + text[at + draw.randrange(1, 20) :]
            case 6:
                text = "".join(lines[: row + 1] + lines[row:])
            case _:
                lines[row : row + 1] = [draw.choice((" ", "\t", "  ")) + t for t in lines[row:][:1]]
                text = "".join(lines)
        text = text or "\n"
    return text


OBSTACLES = {
    "link": lambda place, precious: place.symlink_to(precious),
    "dangling link": lambda place, precious: place.symlink_to(precious.with_name("nothing")),
    "loop": lambda place, _: place.symlink_to(place.name),
    "link to a folder": lambda place, precious: place.symlink_to(precious.parent),
    "folder": lambda place, _: place.mkdir(),
    "full folder": lambda place, _: (place / "x").mkdir(parents=True),
    "pipe": lambda place, _: os.mkfifo(place),
}
"""How to put something at a place that is no file of its own; a link leads to a precious file, or beside it."""


def in_the_way(draw: Random, place: Path, precious: Path) -> None:
    """Put something at `place` that is no file of its own, but no pipe."""
    place.parent.mkdir(parents=True, exist_ok=True)
    OBSTACLES[draw.choice([*OBSTACLES][:-1])](place, precious)
