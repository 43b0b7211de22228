r"""The law that simulated measurements are drawn from, as the published tables state it.

.. math::

    y_{ij} = x_i^\top \beta_3 + u_i + e_{ij}, \quad m_{ij} = x_i^\top \beta_9 + v_i + f_{ij} \qquad \text{(training)} \\
    y_i = x_i^\top \beta_6 + e_i, \quad m_i = x_i^\top \beta_{12} + f_i \qquad \text{(terminal iterate)}

with the coefficients of Models 3, 9, 6 and 12 and normal deviations. At the terminal iterate their covariance is that of Models 5, 11 and 12: the slope of
Model 5 is the covariance over the variance of the metric, that of Model 11 the covariance over the variance of the accuracy. During training variances are those of Models 3
and 9, and the covariance between attempts as well as within one is such that both have the slope of Model 2. So the coefficients of Models 2, 5 and 11 follow (`truth`).

Of the 42,000 planned attempts 29,566 have a terminal iterate (footnote 6), and the training rows are 1,072,475. If these are the epochs of the completed attempts, k of which trained for
50 epochs, then :math:`25 \cdot 29{,}566 + 25 k = 1{,}072{,}475` has the whole solution k = 13,333. That many complete here, the more often the lower an architecture's error rate in
Table 1.7; UnICORNN never ran with noise on data sets where Table A7 counts none of its attempts.
"""

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import logit

from lib.analysis.design import design, with_covariates
from lib.analysis.tenet.models import ACCURACY, METRIC, MODELS, REFERENCE
from lib.results.factorial import ATTEMPT
from lib.results.published import load_published
from lib.results.schema import COMPLETED, DIVERGED, MISSING

_KINDS = {"width": int, "learning_rate": float, "training_length": int, "replicate": int}


def levels() -> dict[str, list]:
    """Return the levels of every factor of the published design, in the order of its table."""
    table = load_published("diss-tab-3.2").groupby("factor", sort=False)["level"].agg(list)
    return {name: [_KINDS.get(name, str)(level) for level in table[name]] for name in ATTEMPT}


def number(what: str) -> int:
    """Return a number of observations that the text states."""
    return int(load_published("diss-sec-3.5").set_index("what")["number"][what])


@cache
def treatments() -> pd.DataFrame:
    """Return the 4,200 treatments of the published design with the covariates of the models."""
    factors = {name: values for name, values in levels().items() if name != "replicate"}
    return with_covariates(pd.DataFrame(product(*factors.values()), columns=[*factors]), REFERENCE)


@cache
def columns() -> tuple[tuple[str, ...], np.ndarray]:
    """Return names and columns of Model 6 over the treatments; ``epoch`` is the training length."""
    table = treatments()
    length = table["training_length"].to_numpy(float)
    # Any response will do: only the columns are wanted.
    made = design(MODELS[6].terms, table, np.arange(float(len(table))), measured={"epoch": length})
    return made.names, made.matrix()


def estimate(model: int, term: str) -> float:
    """Return a published coefficient; 0 where the table has none."""
    return float(vector(model, [term])[0])


def vector(model: int, names: Sequence[str]) -> np.ndarray:
    """Return published coefficients of a model; 0 where its table has none."""
    table = load_published(MODELS[model].table).set_index("term")["estimate"]
    return table.reindex(list(names)).fillna(0.0).to_numpy()


def summary(model: int) -> pd.Series:
    """Return the published summary statistics of a model."""
    return load_published(MODELS[model].summary).set_index("model").loc[model]


def terminal_covariance() -> np.ndarray:
    """Return the covariance of accuracy and metric at the terminal iterate given the factors, shape (2, 2)."""
    var_metric = float(summary(12)["rmse"]) ** 2
    shared = estimate(5, METRIC) * var_metric
    return np.array([[shared / estimate(11, ACCURACY), shared], [shared, var_metric]])


def training_covariances() -> tuple[np.ndarray, np.ndarray]:
    """Return the covariances of accuracy and metric between attempts and within one, each of shape (2, 2)."""
    within = np.diag([float(summary(model)["rmse"]) ** 2 for model in (3, 9)])
    shares = np.array(
        [summary(model)[["r2_conditional", "r2_marginal"]] for model in (3, 9)], float
    )
    between = within * (shares[:, 0] - shares[:, 1]) / (1 - shares[:, 0])
    for covariance in (between, within):
        covariance[0, 1] = covariance[1, 0] = estimate(2, METRIC) * covariance[1, 1]
    return between, within


def truth(model: int) -> pd.Series:
    """Return the coefficients that this law gives a model, by term; known of Models 2, 3, 5, 6, 9, 11 and 12."""
    names, _ = columns()
    means = {2: (3, 9), 5: (6, 12), 11: (12, 6)}
    if model not in means:
        return pd.Series(vector(model, names), names)
    own, other = means[model]
    predictor = MODELS[model].predictor
    slope = estimate(model, predictor)
    rest = pd.Series(vector(own, names) - slope * vector(other, names), names)
    return pd.concat([rest, pd.Series({predictor: slope})])


def statuses(rng: np.random.Generator) -> np.ndarray:
    """Return how each attempt ends, shape (4200, replicates)."""
    table, replicates = treatments(), len(levels()["replicate"])
    counted = load_published("diss-tab-A7").query("architecture == 'unicornn' and noise != 'none'")
    counted = counted.groupby("dataset")["count"].sum()
    noisy = (table["architecture"] == "unicornn") & (table["noise"] != "none")
    ran = ~(noisy & ~table["dataset"].isin(counted.index[counted > 0])).to_numpy()
    rates = load_published("diss-tab-1.7").set_index("architecture")["error_rate"]
    odds = logit(1 - rates).reindex(table["architecture"].astype(str)).to_numpy()
    score = np.where(ran, odds, -np.inf)[:, None] + rng.logistic(size=(len(table), replicates))
    length = table["training_length"].to_numpy()
    short, long = np.unique(length)
    every = number("terminal_attempts")
    long_attempts = (number("training_rows") - short * every) // (long - short)
    status = np.where(ran, DIVERGED, MISSING)[:, None].repeat(replicates, axis=1)
    for size, count in ((short, every - long_attempts), (long, long_attempts)):
        own = np.flatnonzero(length == size)
        least = np.sort(score[own], axis=None)[-count]
        status[own] = np.where(score[own] >= least, COMPLETED, status[own])
    return status
