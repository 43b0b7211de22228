"""Sentences that notebooks compute: lists of them, and whether what was found agrees with a text."""

from collections.abc import Iterable

from IPython.display import Markdown


def bullets(lines: Iterable[str]) -> Markdown:
    """Return sentences as a list."""
    return Markdown("\n".join(f"- {line}" for line in lines))


def verdict(held: Iterable[bool]) -> str:
    """Return whether a claim that should hold in every case agrees with what was found in each.

    >>> verdict([True, False]), verdict([])
    ('agrees in part', 'cannot be tested')
    """
    held = [bool(one) for one in held]
    if not held:
        return "cannot be tested"
    return "agrees" if all(held) else "agrees in part" if any(held) else "differs"
