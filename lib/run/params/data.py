"""The section ``data``: which data sets are prepared."""

from pydantic import Field, field_validator

from lib.paths import ROOT
from lib.run.params._section import Section, distinct


class DataSection(Section):
    """Which data sets stage 00 prepares and the study uses."""

    datasets: tuple[str, ...] = Field(min_length=1)

    @field_validator("datasets")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        # The registry of data sets is the folder of their files, read without importing it.
        known = sorted(
            path.stem
            for path in (ROOT / "lib" / "tasks" / "sources").glob("*.py")
            if not path.stem.startswith("_")
        )
        for name in names:
            if name not in known:
                raise ValueError(f"unknown dataset {name!r}; known: {', '.join(known)}")
        return distinct(names)
