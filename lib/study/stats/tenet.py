r"""The twelve linear models of chapter 3, Section 3.5.

The chapter's tenet is: if gradients vanish, learning is poor. Two questions, each put to two kinds
of observation with three sets of predictors, give twelve models:

========== ============ ============== ================= =================== ===========
models     response     rows           1st of the three  2nd                 3rd
========== ============ ============== ================= =================== ===========
1, 2, 3    accuracy     every epoch    metric            metric and factors  factors
4, 5, 6    accuracy     terminal       metric            metric and factors  factors
7, 8, 9    metric       every epoch    accuracy          accuracy, factors   factors
10, 11, 12 metric       terminal       accuracy          accuracy, factors   factors
========== ============ ============== ================= =================== ===========

With :math:`x` the predictors of a model, the models of every epoch are

.. math::

    y_{ij} = x_{ij}^\top \beta + u_i + \epsilon_{ij}, \qquad
    u_i \sim N(0, \tau^2), \quad \epsilon_{ij} \sim N(0, \sigma^2)

for epoch j of attempt i. The random intercept :math:`u_i` stands for what the epochs of one attempt
share beyond the factors: initial weights and the order of the data. Without it the epochs would
count as independent, and all standard errors would be too small. The models of terminal iterates
have one row per attempt, hence no random effect:

.. math::

    y_i = x_i^\top \beta + \epsilon_i, \qquad \epsilon_i \sim N(0, \sigma^2)

The equations of the paper leave out a covariate that its tables have: *epochs*, the epoch of an
observation, in all models with factors but 8 and 9. The tables are followed here, because they
print its estimates. The learning rate enters as its natural logarithm: the published condition
numbers lie near those of the design with natural logarithms, and the maximum of the quadratic of
Model 3 is at 7e-4 with them. With decimal logarithms it is at 6e-8, far outside of the design.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from study.stats import linear
from study.stats.design import NothingToFit, build_design
from study.stats.linear import LinearFit

# The views are names of this module too, so that a notebook needs one import.
from study.stats.observations import ACCURACY as ACCURACY
from study.stats.observations import CENTRED as CENTRED
from study.stats.observations import CLIPPED as CLIPPED
from study.stats.observations import METRIC as METRIC
from study.stats.observations import MILD as MILD
from study.stats.observations import RANKS as RANKS
from study.stats.observations import REFERENCE as REFERENCE
from study.stats.observations import SINGLE as SINGLE
from study.stats.observations import SPLINE as SPLINE
from study.stats.observations import TERMINAL as TERMINAL
from study.stats.observations import TRAINING as TRAINING
from study.stats.observations import TRUE as TRUE
from study.stats.observations import VIEWS as VIEWS
from study.stats.observations import WITHIN as WITHIN
from study.stats.observations import Observations, measurements, select_observations
from study.stats.reml import ConvergenceError
from study.stats.variances import GroupVariancesFit, fit_group_variances

FACTORS = (
    "architecture",
    "log_rate",
    "log_rate_squared",
    "width",
    "dataset",
    "noise",
    "order",
    "epoch",
    "architecture:log_rate",
    "architecture:log_rate_squared",
    "architecture:noise",
)
"""Terms of the experimental factors, in the order of the published tables."""
TASK_INTERACTIONS = ("dataset:order", "dataset:noise", "order:noise", "dataset:order:noise")
"""Interactions that the paper's models leave out; with them each task has its own level."""
GROUP_VARIANCES = "a variance per architecture"
"""Name in place of a view of the metric for the model with separate variances
(`study.stats.variances.fit_group_variances`).
"""


@dataclass(frozen=True)
class Model:
    """One of the twelve models."""

    number: int
    """From 1 to 12, as in the paper."""
    response: str
    """`ACCURACY` or `METRIC`, the adjoint metric (3.6)."""
    rows: str
    """Kind of observation, `TRAINING` or `TERMINAL`."""
    terms: tuple[str, ...]
    """Terms besides the intercept, in the order of the published table."""

    @property
    def name(self) -> str:
        """Name in the paper."""
        return f"MODEL {self.number}"

    @property
    def formula(self) -> str:
        """The fixed effects as statsmodels and R read them."""
        return f"{self.response} ~ {' + '.join(self.terms)}"

    @property
    def predictor(self) -> str | None:
        """The measurement among the terms, `ACCURACY` or `METRIC`; None if there is none."""
        for term in self.terms:
            if term in (ACCURACY, METRIC):
                return term
        return None

    @property
    def random(self) -> bool:
        """Whether each attempt has a random intercept."""
        return self.rows == TRAINING

    @property
    def summary(self) -> str:
        """Artefact of its family's summary, Table 3.5 to 3.8."""
        return f"diss-tab-3.{5 + (self.number - 1) // 3}"

    @property
    def table(self) -> str:
        """Artefact of its coefficients, Table A8 to A19."""
        return f"diss-tab-A{7 + self.number}"


def _models() -> dict[int, Model]:
    """Return the twelve models by number."""
    models: dict[int, Model] = {}
    for response, predictor in ((ACCURACY, METRIC), (METRIC, ACCURACY)):
        for kind in (TRAINING, TERMINAL):
            factors = FACTORS
            # The published tables of Models 8 and 9 have no epochs.
            if response == METRIC and kind == TRAINING:
                factors = tuple(term for term in FACTORS if term != "epoch")
            for terms in ((predictor,), (predictor, *factors), factors):
                number = len(models) + 1
                models[number] = Model(number, response, kind, terms)
    return models


MODELS = _models()
"""The models by number."""
FAMILIES = {1: (1, 2, 3), 2: (4, 5, 6), 3: (7, 8, 9), 4: (10, 11, 12)}
"""The three models of each summary table, 3.5 to 3.8: with the predictor alone, with predictor and
factors, and with the factors alone.
"""


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
        The response is the same in every row; or a model with a random intercept has one row for
        each attempt; or there are no more rows than coefficients.
    ConvergenceError
        There is no estimate that can be trusted.
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


class FitOrReason(NamedTuple):
    """A model, or why it could not be fitted."""

    fit: LinearFit | None
    reason: str
    """Empty if there is a fit."""


class GroupVariancesOrReason(NamedTuple):
    """A model with separate variances, or why it could not be fitted."""

    fit: GroupVariancesFit | None
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
        self._measurements = cache(self._measure)
        self._observations = cache(self._select)
        self._fit = cache(self._estimate)
        self._group_variances = cache(self._estimate_group_variances)

    def observations(self, kind: str, view: str = TRUE) -> Observations:
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

    def fit(self, number: int, view: str = TRUE) -> LinearFit:
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
            view = TRUE
        return self._fit(number, view)

    def try_fit(self, number: int, view: str) -> FitOrReason:
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

    def group_variances(self, number: int) -> GroupVariancesOrReason:
        """Return a model with separate variances for each architecture, or why there is none.

        Parameters
        ----------
        number
            Number of the model.

        Returns
        -------
        GroupVariancesOrReason
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
        if view == WITHIN:
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

    def _estimate_group_variances(self, number: int) -> GroupVariancesOrReason:
        model = MODELS[number]
        try:
            attempts = self.observations(model.rows).attempts
            groups = attempts["architecture"].astype(str).to_numpy()
            return GroupVariancesOrReason(fit_group_variances(self.fit(number), groups), "")
        except (NothingToFit, ConvergenceError) as error:
            return GroupVariancesOrReason(None, f"{model.name}: {error}")
