"""Paths of the project, resolved from this file so that a notebook works from any folder."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
DATA = ROOT / "data"
PUBLISHED = DATA / "published"
"""The papers' own numbers, transcribed; tracked by Git."""
REFERENCE = DATA / "reference"
"""Stored results of runs too long for `make repro`, with their provenance; tracked by Git."""
CACHE = DATA / "cache"
"""Shards of unfinished studies and downloads in flight; never an input of a stage."""


def resolve(path: str | Path) -> Path:
    """Return a path as an absolute one.

    Parameters
    ----------
    path
        A relative path is counted from the repository root, wherever a notebook runs. One that
        begins with ``..`` is counted from the current folder, as ``../data`` in ``notebooks``.
        ``~`` is the home folder.

    Returns
    -------
    Path
        The absolute path.
    """
    path = Path(path).expanduser()
    if path.parts[:1] == ("..",):
        return Path(os.path.normpath(Path.cwd() / path))
    return ROOT / path
