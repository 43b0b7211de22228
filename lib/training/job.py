"""A job of any experiment: what `params.yaml` says of it, and what the runner asks of it."""

from typing import Annotated, Any

from pydantic import AfterValidator

from lib.cells import cell_class
from lib.run.params import Design


def known_cell(name: str) -> str:
    """Return the name of an architecture that there is; raises `ValueError`."""
    cell_class(name)
    return name


Architecture = Annotated[str, AfterValidator(known_cell)]
"""A name of a cell, checked when `params.yaml` is read."""


class Job(Design):
    """What an experiment trains in one call."""

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of the cells that it trains, and of what else engines are registered for, such as ``rnn/adjoints``."""
        return ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """Prepared data sets that it reads."""
        return ()

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that it uses and no import tells, such as that of its task."""
        return ()

    @property
    def size(self) -> float:
        """About proportional to the time it takes."""
        return 1.0

    @property
    def title(self) -> str:
        return str(self)

    def identity(self) -> dict[str, Any]:
        """Return what its results depend on, beside the code and the data."""
        return self.values()

    @property
    def on(self) -> str:
        """The device's setting: ``auto``, ``cpu`` or ``cuda``."""
        return getattr(self, "device", "cpu")

    @property
    def jobs_in_a_call(self) -> int:
        """How many jobs are done in one call, 1 for each by itself."""
        return 1

    def batch_key(self) -> dict[str, Any]:
        """Return what jobs must have in common that are done in one call."""
        return {}
