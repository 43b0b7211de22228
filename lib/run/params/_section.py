"""What every section of `params.yaml` shares: frozen, and nothing extra allowed."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
LearningRate = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """A part of a profile: one pydantic model."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def distinct(levels: tuple) -> tuple:
    """Return the levels of a factor if they differ from each other; raises `ValueError`."""
    if len(set(levels)) != len(levels):
        raise ValueError(f"levels must differ from each other, got {list(levels)}")
    return levels
