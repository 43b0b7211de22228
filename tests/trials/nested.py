"""Parameters within parameters."""

from collections.abc import Iterator


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
