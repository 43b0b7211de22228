"""A description of a figure, a table or a notebook's judged claims.

Notebooks write it next to the artifact's files, and the report reads it.
"""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, StringConstraints

TOYS = ("smoke", "quick")
"""Profiles that only show that the pipeline works. Their results are not evidence."""
# Names become parts of paths, links and headings.
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
Name = Annotated[str, StringConstraints(pattern=f"^{_NAME}$")]


class Manifest(BaseModel):
    """One figure, one table, or the judged claims that a notebook made from one set of results."""

    model_config = ConfigDict(frozen=True, strict=True)

    artifact: Name
    """Id in `data/published/artifacts.csv`, or a name of our own."""
    part: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]*$")] = ""
    """Name of a companion of the artifact; empty for its main file."""
    kind: Literal["table", "figure", "claims"]
    profile: Name
    runs: NonNegativeInt
    """Number of runs that it is made from."""
    trained_on: str = ""
    """Data sets and time steps of the sequences, in words; empty if no network was trained."""
    learned: bool = False
    """Whether its networks learned, see `study.results.learned.networks_learned`."""
    stand_in: bool = False
    """Whether other data stand in for the paper's."""
    published_scale: bool = False
    """Whether the experiment has the size that the paper prints."""
    file: str
    """Path of the file to show, from the repository root."""
    caption: str


def check_name(what: str, name: str) -> None:
    """Refuse a name that cannot be part of a path, a link and a heading.

    Parameters
    ----------
    what
        What the name is for, for the message.
    name
        The name.

    Raises
    ------
    ValueError
        It has other characters than a name may have, or begins with punctuation.
    """
    if not re.fullmatch(_NAME, name):
        raise ValueError(
            f"{what} is {name!r}; expected letters, digits, '_', '-' or '.', beginning with a "
            "letter or a digit"
        )
