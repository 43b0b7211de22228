"""What the published tables say about the data they were made from, as numbers to aim at."""

from collections.abc import Sequence
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.analysis.design import INTERCEPT, design, with_covariates
from lib.analysis.tenet.models import MODELS, REFERENCE
from lib.results.factorial import ATTEMPT
from lib.results.published import load_published

REPLICATE = "replicate"


class Moments(NamedTuple):
    """Means, variances and covariance of accuracy and adjoint metric."""

    accuracy: float
    metric: float
    var_accuracy: float
    var_metric: float
    covariance: float


def levels() -> dict[str, list]:
    """Return the levels of every factor of the published design, in the order of its table."""
    table = load_published("diss-tab-3.2").groupby("factor", sort=False)["level"].agg(list)
    kinds = {"width": int, "learning_rate": float, "training_length": int, REPLICATE: int}
    return {name: [kinds.get(name, str)(level) for level in table[name]] for name in ATTEMPT}


def number(what: str) -> int:
    """Return a number of observations that the text states."""
    return int(load_published("diss-sec-3.5").set_index("what")["number"][what])


@cache
def treatments() -> pd.DataFrame:
    """Return the 4,200 treatments of the published design, short training first, with the covariates of the models."""
    factor_levels = {name: values for name, values in levels().items() if name != REPLICATE}
    table = pd.DataFrame(product(*factor_levels.values()), columns=list(factor_levels))
    table = table.sort_values("training_length", kind="stable", ignore_index=True)
    return with_covariates(table, REFERENCE)


@cache
def columns() -> tuple[tuple[str, ...], np.ndarray]:
    """Return names and columns of Model 6 over the treatments; ``epoch`` is the training length."""
    table = treatments()
    length = table["training_length"].to_numpy(float)
    # Any response will do: only the columns are wanted.
    made = design(MODELS[6].terms, table, np.arange(float(len(table))), measured={"epoch": length})
    return made.names, made.matrix()


@cache
def estimates(model: int) -> MappingProxyType:
    """Return the published estimates of a model by term."""
    return MappingProxyType(_table(model)["estimate"].to_dict())


@cache
def errors(model: int) -> MappingProxyType:
    """Return the published standard errors of a model by term."""
    return MappingProxyType(_table(model)["standard_error"].to_dict())


def summary(model: int) -> pd.Series:
    """Return the published summary statistics of a model."""
    return load_published(MODELS[model].summary).set_index("model").loc[model]


def vector(model: int, names: Sequence[str]) -> np.ndarray:
    """Return the published estimates of a model for `names`; 0 where its table has none."""
    return np.array([estimates(model).get(name, 0.0) for name in names])


def terminal_residuals() -> Moments:
    """Return the residual covariance given the factors, from the tables of Models 5, 11 and 12.

    The slope of Model 5 is the covariance over the variance of the metric (12), that of Model 11 the covariance
    over the variance of the accuracy.
    """
    var_metric = float(summary(12)["rmse"]) ** 2
    covariance = estimates(5)["metric"] * var_metric
    return Moments(0.0, 0.0, covariance / estimates(11)["accuracy"], var_metric, covariance)


def terminal() -> Moments:
    """Return the moments at the terminal iterate, from Models 4 and 10: two regressions on each other."""
    slope, back = estimates(4)["metric"], estimates(10)["accuracy"]
    accuracy, metric = _crossing(4, 10)
    var_metric = float(summary(10)["rmse"]) ** 2 / (1 - slope * back)
    return Moments(accuracy, metric, slope * var_metric / back, var_metric, slope * var_metric)


def training_means() -> tuple[float, float]:
    """Return the means of accuracy and metric over attempts during training, from Models 1 and 7."""
    return _crossing(1, 7)


def in_decimal_logarithms(names: Sequence[str], matrix: np.ndarray) -> np.ndarray:
    """Return the columns of a design as they would be if LR were the decimal logarithm of the learning rate."""
    power = np.array(
        [2 if "log_rate_squared" in name else int("log_rate" in name) for name in names]
    )
    return matrix / np.log(10) ** power


def _crossing(forward: int, backward: int) -> tuple[float, float]:
    """Return where two regression lines cross: at the means of both variables."""
    a, b = estimates(forward), estimates(backward)
    accuracy, metric = np.linalg.solve(
        [[1.0, -a["metric"]], [-b["accuracy"], 1.0]], [a[INTERCEPT], b[INTERCEPT]]
    )
    return float(accuracy), float(metric)


def _table(model: int) -> pd.DataFrame:
    return load_published(MODELS[model].table).set_index("term")
