"""Fit the twelve models to their observations: each once for every view of the metric."""

from collections.abc import Iterable
from functools import cache

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis import linear
from lib.analysis.design import NothingToFit, design
from lib.analysis.linear import Fit
from lib.analysis.reml import ConvergenceError
from lib.analysis.tenet.models import MODELS, Model
from lib.analysis.tenet.rows import TRUE, Rows, measurements, rows
from lib.analysis.unequal import Unequal, with_own_variances

OWN = "a variance per architecture"
"""What stands for a view of the metric where the model is another one (`lib.analysis.unequal`)."""


def fit(model: Model, observations: Rows) -> Fit:
    """Estimate `model` from `observations`, without the coefficients that they cannot tell.

    Raises NothingToFit: the response is the same in every row, each attempt has a single row where a random intercept is asked for, or
    there are no more rows than coefficients.
    Raises ConvergenceError: there is no estimate that can be trusted.
    Raises ValueError: the observations are of the other kind.
    """
    if observations.kind != model.rows:
        raise ValueError(
            f"{model.name} is fitted to {model.rows} rows, got {observations.kind} rows"
        )
    response, count = observations.column(model.response), len(observations)
    if np.ptp(response) == 0:
        raise NothingToFit(
            f"{model.name}: the {model.response} is {response[0]:g} in all {count:,} rows; a constant has no variance to explain"
        )
    if model.random and count == len(observations.attempts):
        raise NothingToFit(
            f"{model.name}: each of the {count:,} attempts has a single {model.rows} row, so an intercept per attempt "
            "cannot be told from the residual; train for two epochs or more"
        )
    rows = {"attempt": observations.attempt, "measured": observations.measured}
    made = design(model.terms, observations.attempts, response, **rows)
    if count <= len(made.names):
        raise NothingToFit(
            f"{model.name} has {len(made.names)} coefficients and {count} rows; train more attempts"
        )
    try:
        return linear.fit(made, random=model.random)
    except ConvergenceError as error:
        raise ConvergenceError(f"{model.name} ({model.response}): {error}") from None


class Fits:
    """The twelve models on one set of results: rows and fits are made when they are asked for, and once."""

    def __init__(self, ds: xr.Dataset) -> None:
        self.ds = ds
        self.measured = cache(lambda kind: measurements(ds, kind))
        self.rows = cache(
            lambda kind, view=TRUE: rows(ds, kind, view=view, frame=self.measured(kind))
        )
        self._fit = cache(
            lambda number, view: fit(MODELS[number], self.rows(MODELS[number].rows, view))
        )
        self.own = cache(self._refit)

    def fit(self, number: int, view: str = TRUE) -> Fit:
        """Return a model on a view of the metric; raises as `fit`."""
        return self._fit(number, view)

    def try_fit(self, number: int, view: str) -> tuple[Fit | None, str]:
        """Return the same, or None and why there is none."""
        try:
            return self.fit(number, view), ""
        except NothingToFit as refusal:
            return None, str(refusal)

    def _refit(self, number: int) -> tuple[Unequal | None, str]:
        """Return a model with variances of its own for each architecture, or None and why there is none."""
        groups = self.rows(MODELS[number].rows).attempts["architecture"].astype(str).to_numpy()
        try:
            return with_own_variances(self.fit(number), groups), ""
        except ConvergenceError as error:
            return None, f"{MODELS[number].name}: {error}"

    def coefficients(self, numbers: Iterable[int], views: Iterable[str]) -> pd.DataFrame:
        """Return the coefficients of models by `views`, `OWN` among them, in one frame; a model that a view does not allow has no lines.

        Columns: ``model``, ``view``, ``term``, and those of `lib.analysis.linear.Fit.coefficients` that the fit has.
        """
        parts = []
        for view in views:
            for number in numbers:
                found, _ = self.own(number) if view == OWN else self.try_fit(number, view)
                if found:
                    parts.append(found.coefficients.assign(model=number, view=view))
        table = pd.concat(parts, ignore_index=True)
        return table[["model", "view", *(c for c in table if c not in ("model", "view"))]]
