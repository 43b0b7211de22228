"""Full factorial designs: one job per combination of the levels of all factors."""

import itertools
import math
from collections.abc import Iterator
from typing import Any, Self

from pydantic import PrivateAttr

from study.config.section import FACTOR, Positive, Section


class Design(Section):
    """A full factorial design; `configs` yields one configuration per combination and replicate.

    The configuration of a job has the same class as the design, with a single level instead of the
    tuple of each `Factor`: ``design.width`` is a tuple, ``config.width`` a number.
    """

    replicates: Positive = 1
    _replicate: int = PrivateAttr(0)

    @property
    def replicate(self) -> int:
        """Number of the job's replicate, from 0."""
        return self._replicate

    @classmethod
    def factors(cls) -> tuple[str, ...]:
        """Return the names of the factors, in order.

        Returns
        -------
        tuple of str
            Fields of the type `Factor`.
        """
        fields = cls.model_fields.items()
        return tuple(name for name, field in fields if FACTOR in field.metadata)

    @property
    def job_count(self) -> int:
        """Number of jobs, computed without creating them."""
        return self.replicates * math.prod(len(getattr(self, name)) for name in self.factors())

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the prepared data sets that the jobs of the design read."""
        return ()

    def configs(self) -> Iterator[Self]:
        """Yield the configuration of each job of the design.

        Yields
        ------
        Design
            With a single level of each factor, and the number of its replicate.
        """
        names = self.factors()
        combinations = itertools.product(*(getattr(self, name) for name in names))
        for levels in combinations:
            for replicate in range(self.replicates):
                yield self.copy_with(**dict(zip(names, levels, strict=True)), replicate=replicate)

    def copy_with(self, *, replicate: int | None = None, **fields: object) -> Self:
        """Return a copy with some fields replaced: one job, or another design.

        Parameters
        ----------
        replicate : int, optional
            Number of the replicate, from 0; that of the original by default.
        **fields
            New values by name of the field.

        Returns
        -------
        Design
        """
        config = self.model_copy(update=fields)
        if replicate is not None:
            config._replicate = replicate
        return config

    def flat_settings(self) -> dict[str, Any]:
        """Return all settings of a job, without the number of replicates.

        Returns
        -------
        dict
            JSON values by name of the setting, and ``replicate``.
        """
        # Without warnings, because a job has a single level where pydantic expects a tuple.
        settings = self.model_dump(mode="json", exclude={"replicates"}, warnings=False)
        return settings | {"replicate": self.replicate}
