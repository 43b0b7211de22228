"""A job of any experiment: what `params.yaml` says of it, and what the runner asks of it."""

from typing import Any

from lib.run.params import Design


class Job(Design):
    """What an experiment trains in one call.

    Attributes
    ----------
    cells
        Names of the cells that it trains, and of what else engines are registered for, such as ``rnn/adjoints``.
    datasets
        Prepared data sets that it reads.
    modules
        Modules that it uses and no import tells, such as that of its task.
    size
        About proportional to the time it takes.
    on
        The device's setting: ``auto``, ``cpu`` or ``cuda``.
    jobs_in_a_call
        How many jobs are done in one call, 1 for each by itself.
    """

    cells = datasets = modules = property(lambda job: ())
    size = property(lambda job: 1.0)
    title = property(str)
    on = property(lambda job: getattr(job, "device", "cpu"))
    jobs_in_a_call = property(lambda job: 1)

    def identity(self) -> dict[str, Any]:
        """Return what its results depend on, beside the code and the data."""
        return self.values()

    def batch_key(self) -> dict[str, Any]:
        """Return what jobs must have in common that are done in one call."""
        return {}
