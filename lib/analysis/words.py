"""Sentences that notebooks compute, as Markdown."""

from collections.abc import Iterable

from IPython.display import Markdown


def bullets(lines: Iterable[str]) -> Markdown:
    """Return sentences as a list."""
    return Markdown("\n".join(f"- {line}" for line in lines))
