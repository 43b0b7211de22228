"""Fits of the twelve linear models of chapter 3, Section 3.5 (`study.stats.tenet_models`)."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import xarray as xr

from study.stats import linear
from study.stats.design import NothingToFit
from study.stats.linear import LinearFit
from study.stats.observations import (
    SPLINE,
    UNROUNDED,
    WITHIN_TASKS,
    Observations,
    measurements,
    select_observations,
)
from study.stats.reml import ConvergenceError
from study.stats.tenet_models import MODELS, TASK_INTERACTIONS, Model
from study.stats.terms import build_design
from study.stats.variances import GroupVariancesFit, fit_group_variances

GROUP_VARIANCES = "a variance per architecture"
"""Name instead of a view of the metric for the model with separate variances
(`study.stats.variances.fit_group_variances`).
"""

Fit = TypeVar("Fit", LinearFit, GroupVariancesFit)


def fit_model(model: Model, observations: Observations) -> LinearFit:
    """Estimate a model, without the coefficients that the observations do not determine.

    Parameters
    ----------
    model
        The model.
    observations
        Observations of its kind.

    Returns
    -------
    study.stats.linear.LinearFit
        The estimated model.

    Raises
    ------
    NothingToFit
        The response is the same in every row, a model with a random intercept has one row per
        attempt, or rows are as few as coefficients.
    ConvergenceError
        The estimate cannot be trusted.
    ValueError
        The observations are of the other kind.
    """
    response = observations.column(model.response)
    _check_observations(model, observations, response)
    design = build_design(
        model.terms,
        observations.attempts,
        response,
        attempt=observations.attempt,
        treatment=observations.treatment,
        measured=observations.measured,
    )
    if len(response) <= len(design.names):
        raise NothingToFit(
            f"{model.name} has {len(design.names)} coefficients and {len(response)} rows; train "
            "more attempts"
        )
    try:
        return linear.fit(design, random=model.random)
    except ConvergenceError as error:
        raise ConvergenceError(f"{model.name} ({model.response}): {error}") from None


def _check_observations(model: Model, observations: Observations, response: np.ndarray) -> None:
    if observations.kind != model.rows:
        raise ValueError(f"{model.name} needs {model.rows} rows, got {observations.kind} rows")
    rows = len(observations)
    if np.ptp(response) == 0:
        raise NothingToFit(
            f"{model.name}: the {model.response} is {response[0]:g} in all {rows:,} rows; a "
            "constant has no variance to explain"
        )
    if model.random and rows == len(observations.attempts):
        raise NothingToFit(
            f"{model.name}: each of the {rows:,} attempts has a single {model.rows} row, so the "
            "random intercept and the residual cannot be separated; train for two epochs or more"
        )


class FitOrReason(NamedTuple, Generic[Fit]):
    """A model with common or with separate variances, or why it could not be fitted."""

    fit: Fit | None
    reason: str
    """Empty if there is a fit."""


class Fits:
    """The twelve models on one set of results.

    Observations and fits are computed when they are first needed, and once.

    Parameters
    ----------
    ds
        Results of the factorial experiment.
    """

    def __init__(self, ds: xr.Dataset) -> None:
        self.ds = ds
        # The decorator `cache` would keep every instance, and its results, until the process ends.
        self._measurements = cache(self._measure)
        self._observations = cache(self._select)
        self._fit = cache(self._estimate)
        self._group_variances = cache(self._estimate_group_variances)

    def observations(self, kind: str, view: str = UNROUNDED) -> Observations:
        """Return the observations of one kind (`study.stats.observations.select_observations`).

        Parameters
        ----------
        kind
            `TRAINING` or `TERMINAL`.
        view
            View of the metric, one of `VIEWS`.

        Returns
        -------
        study.stats.observations.Observations
            The observations.

        Raises
        ------
        NothingToFit
            No attempt was measured, or none has a finite adjoint metric.
        """
        return self._observations(kind, view)

    def fit(self, number: int, view: str = UNROUNDED) -> LinearFit:
        """Return a model on one view of the metric.

        Parameters
        ----------
        number
            Number of the model.
        view
            View of the metric, one of `VIEWS`.

        Returns
        -------
        study.stats.linear.LinearFit
            The estimated model.

        Raises
        ------
        NothingToFit, ConvergenceError
            As in `fit_model`.
        """
        # Without a predictor there is nothing to bend: the model is that of the plain view.
        if view == SPLINE and not MODELS[number].predictor:
            view = UNROUNDED
        return self._fit(number, view)

    def try_fit(self, number: int, view: str) -> FitOrReason[LinearFit]:
        """Return a model on one view of the metric, or why it could not be fitted.

        Parameters
        ----------
        number
            Number of the model.
        view
            View of the metric, one of `VIEWS`.

        Returns
        -------
        FitOrReason
            ``fit`` (None if there is none) and ``reason``.
        """
        try:
            return FitOrReason(self.fit(number, view), "")
        except (NothingToFit, ConvergenceError) as error:
            return FitOrReason(None, str(error))

    def group_variances(self, number: int) -> FitOrReason[GroupVariancesFit]:
        """Return a model with separate variances for each architecture, or why there is none.

        Parameters
        ----------
        number
            Number of the model.

        Returns
        -------
        FitOrReason
            ``fit`` (None if there is none) and ``reason``.
        """
        return self._group_variances(number)

    def coefficients(self, numbers: Iterable[int], views: Iterable[str]) -> pd.DataFrame:
        """Return the coefficients of several models by view, in one table.

        Parameters
        ----------
        numbers
            Numbers of the models.
        views
            Views of the metric, and `GROUP_VARIANCES` for the model with separate variances.

        Returns
        -------
        pandas.DataFrame
            ``model``, ``view`` and the columns of `study.stats.linear.LinearFit.coefficients`. A
            model that cannot be fitted on a view has no rows.
        """
        numbers = list(numbers)
        tables = []
        for view in views:
            for number in numbers:
                if view == GROUP_VARIANCES:
                    fit, _ = self.group_variances(number)
                else:
                    fit, _ = self.try_fit(number, view)
                if fit is not None:
                    tables.append(fit.coefficients.assign(model=number, view=view))
        return pd.concat(tables, ignore_index=True)

    def _measure(self, kind: str) -> pd.DataFrame:
        return measurements(self.ds, kind)

    def _select(self, kind: str, view: str) -> Observations:
        return select_observations(self.ds, kind, view=view, frame=self._measurements(kind))

    def _estimate(self, number: int, view: str) -> LinearFit:
        model = MODELS[number]
        if view == SPLINE:
            return self._estimate_spline(model)
        if view == WITHIN_TASKS:
            model = replace(model, terms=(*model.terms, *TASK_INTERACTIONS))
        return fit_model(model, self.observations(model.rows, view))

    def _estimate_spline(self, model: Model) -> LinearFit:
        """Return the model in which the effect of the predictor is a spline."""
        observations = self.observations(model.rows)
        splines = observations.splines(model.predictor)
        measured = {**observations.measured, **splines}
        others = [term for term in model.terms if term != model.predictor]
        model = replace(model, terms=(*splines, *others))
        return fit_model(model, replace(observations, measured=measured))

    def _estimate_group_variances(self, number: int) -> FitOrReason[GroupVariancesFit]:
        model = MODELS[number]
        try:
            attempts = self.observations(model.rows).attempts
            groups = attempts["architecture"].astype(str).to_numpy()
            return FitOrReason(fit_group_variances(self.fit(number), groups), "")
        except (NothingToFit, ConvergenceError) as error:
            return FitOrReason(None, f"{model.name}: {error}")
