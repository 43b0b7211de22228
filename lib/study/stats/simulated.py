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
training rows. If these are the epochs of the completed attempts, and k of them trained for 50,
then :math:`25 \cdot 29{,}566 + 25 k = 1{,}072{,}475` has the solution k = 13,333. That many
complete here, the more often the lower an architecture's error rate in Table 1.7. UnICORNN never
ran with noise on data sets for which Table A7 counts none of its attempts. Values are rounded to
single precision (24 bits), so that they compress; the rounding error is 1e-7 of a value, far below
any standard error. Accuracies are normal, as the models assume, so some lie below 0 or above 1:
cutting them off would bias every coefficient.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logit

from study.results.factorial import SIMULATED, SPLITS, TREATMENT
from study.results.published import load_published
from study.results.schema import COMPLETED, DIVERGED, MISSING
from study.stats.published_models import (
    model_columns,
    published_coefficients,
    published_count,
    published_levels,
    published_treatments,
    terminal_covariance,
    training_covariances,
)

PROFILE = "simulated"
"""Profile of these results."""
_CLASSES = {"cifar10": 10, "fashion_mnist": 10, "imdb": 2, "mnist": 10, "reuters": 46}
"""Number of labels of the paper's data sets."""
_STEPS = {"cifar10": 1024, "fashion_mnist": 784, "imdb": 500, "mnist": 784, "reuters": 500}
"""Length T of their input sequences (Table 3.2)."""
_NOISE_STEPS = 1000
"""Noise elements that the noise orientations post and uniform add (Section 3.3.1)."""


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


def draw_statuses(rng: np.random.Generator) -> np.ndarray:
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
    table = published_treatments()
    replicates = len(published_levels()["replicate"])
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
    adjoint metric is the logarithm of the first; ``parameters`` are for one input feature;
    ``examples`` is 0.

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
    published = published_levels()
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
    status = draw_statuses(rng)[treatment, :replicates]
    coordinates = {**published, **subset, "replicate": published["replicate"][:replicates]}
    ds = _empty(coordinates, seed)
    _fill(ds, treatment, status, rng)
    _describe(ds)
    return ds


def _select_treatments(subset: dict[str, list]) -> np.ndarray:
    """Return the rows of `published_treatments` whose levels are in `subset`."""
    table = published_treatments()
    wanted = np.full(len(table), True)
    for factor, factor_levels in subset.items():
        wanted &= table[factor].isin(factor_levels).to_numpy()
    return np.flatnonzero(wanted)


def _empty(coordinates: dict[str, list], seed: int) -> xr.Dataset:
    """Return a dataset without measurements."""
    last = max(published_treatments()["training_length"])
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
    table = published_treatments().iloc[treatment]
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
    names, matrix = model_columns()
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
