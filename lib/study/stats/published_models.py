"""The published models of chapter 3: their design, coefficients and covariances, from the tables.

`study.stats.simulated` draws results from them, and recovery of their coefficients is tested
against them.
"""

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from study.results.factorial import ATTEMPT
from study.results.published import load_published
from study.stats.covariates import with_covariates
from study.stats.observations import ACCURACY, METRIC, REFERENCE
from study.stats.tenet_models import MODELS
from study.stats.terms import build_design

_TYPES = {"width": int, "learning_rate": float, "training_length": int, "replicate": int}
"""Types of the levels of factors; others are text."""


def published_levels() -> dict[str, list]:
    """Return the levels of every factor of the published design (Table 3.2).

    Returns
    -------
    dict
        Factor: levels, in the order of the table.
    """
    table = load_published("diss-tab-3.2")
    published = {}
    for factor in ATTEMPT:
        to_type = _TYPES.get(factor, str)
        texts = table.loc[table["factor"] == factor, "level"]
        published[factor] = [to_type(text) for text in texts]
    return published


def published_count(what: str) -> int:
    """Return a number of observations that the paper states.

    Parameters
    ----------
    what
        What is counted, such as ``training_rows``.

    Returns
    -------
    int
        The number.
    """
    return int(load_published("diss-sec-3.5").set_index("what")["number"][what])


@cache
def published_treatments() -> pd.DataFrame:
    """Return the 4,200 treatments of the published design with the covariates of the models.

    Returns
    -------
    pandas.DataFrame
        One row per treatment, as `study.stats.covariates.with_covariates`.
    """
    factors = published_levels()
    del factors["replicate"]
    table = pd.DataFrame(product(*factors.values()), columns=list(factors))
    return with_covariates(table, REFERENCE)


class ModelColumns(NamedTuple):
    """The columns of a model over the treatments."""

    names: tuple[str, ...]
    """Names of the p columns."""
    matrix: np.ndarray
    """Shape (4200, p)."""


@cache
def model_columns() -> ModelColumns:
    """Return the columns of Model 6 over the treatments; ``epoch`` is the training length.

    Returns
    -------
    ModelColumns
        Names and columns.
    """
    table = published_treatments()
    length = table["training_length"].to_numpy(float)
    # Any response will do: only the columns are needed.
    response = np.arange(float(len(table)))
    design = build_design(MODELS[6].terms, table, response, measured={"epoch": length})
    return ModelColumns(design.names, design.matrix())


def published_coefficient(model: int, term: str) -> float:
    """Return one published coefficient of a model.

    Parameters
    ----------
    model
        Number of the model.
    term
        Name of the coefficient.

    Returns
    -------
    float
        The coefficient; 0 if the table has none of that name.
    """
    return float(published_coefficients(model, [term])[0])


def published_coefficients(model: int, names: Sequence[str]) -> np.ndarray:
    """Return published coefficients of a model.

    Parameters
    ----------
    model
        Number of the model.
    names
        Names of the coefficients.

    Returns
    -------
    numpy.ndarray
        The coefficients in the order of `names`; 0 for those that the table does not have.
    """
    table = load_published(MODELS[model].table).set_index("term")["estimate"]
    return table.reindex(list(names)).fillna(0.0).to_numpy()


def published_summary(model: int) -> pd.Series:
    """Return the published summary statistics of a model.

    Parameters
    ----------
    model
        Number of the model.

    Returns
    -------
    pandas.Series
        Statistic: value (Tables 3.5 to 3.8).
    """
    return load_published(MODELS[model].summary).set_index("model").loc[model]


def terminal_covariance() -> np.ndarray:
    """Return the covariance of accuracy and metric at the terminal iterate, given the factors.

    Returns
    -------
    numpy.ndarray
        Shape (2, 2).
    """
    metric_variance = float(published_summary(12)["rmse"]) ** 2
    covariance = published_coefficient(5, METRIC) * metric_variance
    accuracy_variance = covariance / published_coefficient(11, ACCURACY)
    return np.array([[accuracy_variance, covariance], [covariance, metric_variance]])


class TrainingCovariances(NamedTuple):
    """Covariances of accuracy and metric during training, each of shape (2, 2)."""

    between: np.ndarray
    """Covariance of the random intercepts of attempts."""
    within: np.ndarray
    """Covariance of the residuals within an attempt."""


def training_covariances() -> TrainingCovariances:
    """Return the covariances of accuracy and metric between attempts and within one.

    Returns
    -------
    TrainingCovariances
        ``between`` and ``within``.
    """
    within_variances = []
    between_variances = []
    for model in (3, 9):
        summary = published_summary(model)
        residual_variance = float(summary["rmse"]) ** 2
        conditional = float(summary["r2_conditional"])
        marginal = float(summary["r2_marginal"])
        within_variances.append(residual_variance)
        between_variances.append(residual_variance * (conditional - marginal) / (1 - conditional))
    slope = published_coefficient(2, METRIC)
    return TrainingCovariances(
        between=_covariance_with_slope(between_variances, slope),
        within=_covariance_with_slope(within_variances, slope),
    )


def _covariance_with_slope(variances: list[float], slope: float) -> np.ndarray:
    """Return a covariance matrix in which the first number regresses on the second with `slope`."""
    accuracy_variance, metric_variance = variances
    covariance = slope * metric_variance
    return np.array([[accuracy_variance, covariance], [covariance, metric_variance]])
