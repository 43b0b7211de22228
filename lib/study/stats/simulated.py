r"""A factorial dataset drawn from the published tables.

The paper's analysis runs on it at full size, on data whose truth is known. No network is trained.
As the tables state it, measurements are drawn from

.. math::

    y_{ij} = x_i^\top \beta_3 + u_i + e_{ij}, \quad
    m_{ij} = x_i^\top \beta_9 + v_i + f_{ij} \qquad \text{(training)} \\
    y_i = x_i^\top \beta_6 + e_i, \quad
    m_i = x_i^\top \beta_{12} + f_i \qquad \text{(terminal iterate)}

for accuracy y and adjoint metric m, epoch j of attempt i, with the coefficients of Models 3, 9, 6
and 12 and normal deviations. The random intercepts u and v stand for what the epochs of one attempt
share beyond the factors, as in Models 3 and 9. At the terminal iterate the covariance of the
deviations is that of Models 5, 11 and 12: the slope of Model 5 is the covariance over the variance
of the metric, that of Model 11 the covariance over the variance of the accuracy. During training
the variances are those of Models 3 and 9, and the covariances between and within attempts are such
that both have the slope of Model 2. The coefficients of Models 2, 5 and 11 follow.

Of the 42,000 planned attempts 29,566 have a terminal iterate (footnote 6), and there are 1,072,475
training rows. If these are the epochs of the completed attempts, k of which trained for 50 epochs,
then :math:`25 \cdot 29{,}566 + 25 k = 1{,}072{,}475` has the solution k = 13,333. That many
complete here, the more often the lower an architecture's error rate in Table 1.7. UnICORNN never
ran with noise on data sets for which Table A7 counts none of its attempts. Values are rounded to
single precision (24 bits), so that they compress; the rounding error is 1e-7 of a value, far below
any standard error. Accuracies are normal, as the models assume, so some lie below 0 or above 1:
cutting them off would bias every coefficient.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logit

from study.results.factorial import ATTEMPT, SIMULATED, SPLITS
from study.results.published import load_published
from study.results.schema import COMPLETED, DIVERGED, MISSING
from study.stats.attempts import TREATMENT
from study.stats.design import build_design, with_covariates
from study.stats.tenet import ACCURACY, METRIC, MODELS, REFERENCE

PROFILE = "simulated"
"""Profile of these results."""
_CLASSES = {"cifar10": 10, "fashion_mnist": 10, "imdb": 2, "mnist": 10, "reuters": 46}
"""Number of labels of the paper's data sets."""
_STEPS = {"cifar10": 1024, "fashion_mnist": 784, "imdb": 500, "mnist": 784, "reuters": 500}
"""Length T of their input sequences (Table 3.2)."""
_NOISE_STEPS = 1000
"""Noise elements that the noise orientations post and uniform add (Section 3.3.1)."""
_TYPES = {"width": int, "learning_rate": float, "training_length": int, "replicate": int}
"""Types of the levels of factors; others are text."""


def caution(profile: str) -> str:
    """Return a warning for readers of simulated results.

    Parameters
    ----------
    profile
        Profile of the results.

    Returns
    -------
    str
        The warning in Markdown; empty for results of training.
    """
    if profile != PROFILE:
        return ""
    return (
        "**No network was trained for these numbers.** They are drawn from the published models of "
        "chapter 3, so that they agree with the paper by construction. What follows shows the "
        "analysis at full size, and is evidence of nothing else. "
    )


def levels() -> dict[str, list]:
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
def treatments() -> pd.DataFrame:
    """Return the 4,200 treatments of the published design with the covariates of the models.

    Returns
    -------
    pandas.DataFrame
        One row per treatment, as `study.stats.design.with_covariates`.
    """
    factors = levels()
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
def columns() -> ModelColumns:
    """Return the columns of Model 6 over the treatments; ``epoch`` is the training length.

    Returns
    -------
    ModelColumns
        Names and columns.
    """
    table = treatments()
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


def statuses(rng: np.random.Generator) -> np.ndarray:
    """Draw how each attempt ends.

    Parameters
    ----------
    rng
        Random numbers.

    Returns
    -------
    numpy.ndarray
        Status of each attempt, shape (4200, replicates).
    """
    table = treatments()
    replicates = len(levels()["replicate"])
    ran = _treatments_that_ran(table)
    error_rates = load_published("diss-tab-1.7").set_index("architecture")["error_rate"]
    log_odds = logit(1 - error_rates).reindex(table["architecture"].astype(str)).to_numpy()
    log_odds = np.where(ran, log_odds, -np.inf)
    score = log_odds[:, None] + rng.logistic(size=(len(table), replicates))
    status = np.where(ran, DIVERGED, MISSING)[:, None].repeat(replicates, axis=1)
    length = table["training_length"].to_numpy()
    short, long = np.unique(length)
    completed = published_count("terminal_attempts")
    completed_long = (published_count("training_rows") - short * completed) // (long - short)
    counts = {short: completed - completed_long, long: completed_long}
    for training_length, count in counts.items():
        rows = np.flatnonzero(length == training_length)
        lowest = np.sort(score[rows], axis=None)[-count]
        status[rows] = np.where(score[rows] >= lowest, COMPLETED, status[rows])
    return status


def _treatments_that_ran(table: pd.DataFrame) -> np.ndarray:
    """Return which treatments ran: all, except UnICORNN's with noise on data sets for which Table
    A7 counts none of its attempts.
    """
    counted = load_published("diss-tab-A7").query("architecture == 'unicornn' and noise != 'none'")
    attempts = counted.groupby("dataset")["count"].sum()
    datasets = attempts.index[attempts > 0]
    noisy = (table["architecture"] == "unicornn") & (table["noise"] != "none")
    return ~(noisy & ~table["dataset"].isin(datasets)).to_numpy()


def simulate(seed: int, *, replicates: int | None = None, **subset: list) -> xr.Dataset:
    """Draw results of the published design.

    Training measurements and terminal test measurements follow the module's equations. The two are
    independent given the factors, because the paper does not say how they are related. To fill the
    schema, some values are made up: test measurements before the last epoch are those of training;
    ``loss`` is the negative logarithm of the accuracy; the last adjoint norm is 1, so that the
    adjoint metric is the logarithm of the first; ``parameters`` are for one input feature. There
    are no ``examples``.

    Parameters
    ----------
    seed
        Seed of all random numbers.
    replicates
        Number of replicates to keep of each treatment; all by default.
    **subset
        Levels to keep, by factor; all by default.

    Returns
    -------
    xarray.Dataset
        Results with the schema `study.results.factorial.SIMULATED`.

    Raises
    ------
    ValueError
        `replicates` is not between 1 and the number of the design.
    """
    published = levels()
    rng = np.random.default_rng(seed)
    planned = len(published["replicate"])
    if replicates is None:
        replicates = planned
    if not 1 <= replicates <= planned:
        raise ValueError(
            f"replicates is {replicates}; expected 1 to {planned}, those of the published design"
        )
    # The random numbers are those of the whole design, so that a subset has the same results.
    treatment = _select_treatments(subset)
    status = statuses(rng)[treatment, :replicates]
    coordinates = {**published, **subset, "replicate": published["replicate"][:replicates]}
    ds = _empty(coordinates, seed)
    _fill(ds, treatment, status, rng)
    _describe(ds)
    return ds


def _select_treatments(subset: dict[str, list]) -> np.ndarray:
    """Return the rows of `treatments` whose levels are in `subset`."""
    table = treatments()
    wanted = np.full(len(table), True)
    for factor, factor_levels in subset.items():
        wanted &= table[factor].isin(factor_levels).to_numpy()
    return np.flatnonzero(wanted)


def _empty(coordinates: dict[str, list], seed: int) -> xr.Dataset:
    """Return a dataset without measurements."""
    last = max(treatments()["training_length"])
    if "training_length" in coordinates:
        last = max(coordinates["training_length"])
    return SIMULATED.empty(
        {**coordinates, "split": list(SPLITS), "epoch": list(range(1, last + 1))},
        profile=PROFILE,
        settings={"seed": seed, "source": "dissertation, Tables 1.7, 3.2, 3.5 to 3.8, A7 to A19"},
    )


def _fill(
    ds: xr.Dataset, treatment: np.ndarray, status: np.ndarray, rng: np.random.Generator
) -> None:
    """Write status and measurements of each attempt; `status` is (treatments, replicates)."""
    table = treatments().iloc[treatment]
    length = table["training_length"].to_numpy()
    position = []
    for factor in TREATMENT:
        wanted = table[factor].to_numpy(ds[factor].dtype)
        position.append(ds.get_index(factor).get_indexer(wanted))
    position = tuple(position)
    ds["status"].values[position] = status
    ds["epochs_completed"].values[position] = np.where(status == COMPLETED, length[:, None], 0)
    row, replicate = np.nonzero(status == COMPLETED)
    for name, drawn in _draw_measurements(rng, treatment[row], length[row]):
        values = np.full((*status.shape, len(SPLITS), ds.sizes["epoch"]), np.nan, np.float32)
        values[row, replicate] = drawn
        ds[name].values[position] = values
    accuracy = ds["accuracy"].values
    ds["loss"][:] = (-np.log(np.clip(accuracy, 1e-3, None))).astype(np.float32)
    ds["adjoint_last"][:] = np.where(np.isnan(accuracy), np.nan, 0.0)
    for end in ("first", "last"):
        ds[f"adjoint_{end}_full"][:] = ds[f"adjoint_{end}"].values


def _draw_measurements(
    rng: np.random.Generator, treatment: np.ndarray, length: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the values of accuracy and metric of completed attempts.

    Values have shape (attempts, splits, epochs) and are nan after an attempt's last epoch.
    """
    names, matrix = columns()
    epoch = np.arange(1, length.max() + 1)
    epoch_column = names.index("epoch")
    without_epoch = matrix.copy()
    without_epoch[:, epoch_column] = 0.0
    covariances = training_covariances()
    count = len(treatment)
    # The order of these three draws decides the values.
    intercepts = rng.multivariate_normal([0, 0], covariances.between, size=count)
    residuals = rng.multivariate_normal([0, 0], covariances.within, size=(count, len(epoch)))
    terminal_residuals = rng.multivariate_normal([0, 0], terminal_covariance(), size=count)
    models = {"accuracy": (3, 6), "adjoint_first": (9, 12)}
    for k, (name, (training_model, terminal_model)) in enumerate(models.items()):
        beta = published_coefficients(training_model, names)
        start = (without_epoch @ beta)[treatment]
        mean = start[:, None] + beta[epoch_column] * epoch
        training = mean + intercepts[:, [k]] + residuals[..., k]
        training = np.where(epoch <= length[:, None], training, np.nan)
        values = np.stack([training, training], axis=1)
        terminal_mean = matrix[treatment] @ published_coefficients(terminal_model, names)
        values[np.arange(count), 1, length - 1] = terminal_mean + terminal_residuals[:, k]
        yield name, values


def _describe(ds: xr.Dataset) -> None:
    """Write the variables that do not depend on an attempt."""
    parameters = load_published("diss-tab-3.3").set_index(["architecture", "width"])["parameters"]
    sizes = parameters.to_xarray().reindex_like(ds[["architecture", "width"]])
    ds["parameters"][:] = sizes.broadcast_like(ds["parameters"]).transpose(*ds["parameters"].dims)
    names = ds["dataset"].values.tolist()
    ds["classes"][:] = [_CLASSES[name] for name in names]
    # The paper's chance level takes all classes as equally frequent.
    ds["largest_class"][:] = [1 / _CLASSES[name] for name in names]
    noise_steps = np.where(ds["noise"].values == "none", 0, _NOISE_STEPS)
    ds["time_steps"][:] = np.add.outer([_STEPS[name] for name in names], noise_steps)
