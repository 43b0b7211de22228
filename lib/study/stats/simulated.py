r"""A factorial dataset drawn from the published tables.

The paper's analysis runs on it at full size, on data of which the truth is known.

Nothing is trained. The law that measurements are drawn from is, as the tables state it,

.. math::

    y_{ij} = x_i^\top \beta_3 + u_i + e_{ij}, \quad
    m_{ij} = x_i^\top \beta_9 + v_i + f_{ij} \qquad \text{(training)} \\
    y_i = x_i^\top \beta_6 + e_i, \quad
    m_i = x_i^\top \beta_{12} + f_i \qquad \text{(terminal iterate)}

with the coefficients of Models 3, 9, 6 and 12 and normal deviations. At the terminal iterate their
covariance is that of Models 5, 11 and 12: the slope of Model 5 is the covariance over the variance
of the metric, that of Model 11 the covariance over the variance of the accuracy. During training
variances are those of Models 3 and 9, and the covariance between attempts as well as within one is
such that both have the slope of Model 2. So the coefficients of Models 2, 5 and 11 follow.

Of the 42,000 planned attempts 29,566 have a terminal iterate (footnote 6), and the training rows
are 1,072,475. If these are the epochs of the completed attempts, k of which trained for 50 epochs,
then :math:`25 \cdot 29{,}566 + 25 k = 1{,}072{,}475` has the whole solution k = 13,333. That many
complete here, the more often the lower an architecture's error rate in Table 1.7; UnICORNN never
ran with noise on data sets where Table A7 counts none of its attempts. Values are kept with the 24
bits of a single-precision number, so that they compress; the rounding is 1e-7 of a value, far below
any standard error. Accuracies are normal, as the models assume, and so some lie below 0 or above 1:
cutting them off would bias every coefficient.
"""

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logit

from study.results.factorial import ATTEMPT, SIMULATED, SPLITS
from study.results.published import load_published
from study.results.schema import COMPLETED, DIVERGED, MISSING
from study.stats.attempts import TREATMENT
from study.stats.design import design, with_covariates
from study.stats.tenet import ACCURACY, METRIC, MODELS, REFERENCE

PROFILE = "simulated"
"""Profile of these results, in place of that of a training."""
_CLASSES = {"cifar10": 10, "fashion_mnist": 10, "imdb": 2, "mnist": 10, "reuters": 46}
"""Labels of the paper's data sets."""
_STEPS = {"cifar10": 1024, "fashion_mnist": 784, "imdb": 500, "mnist": 784, "reuters": 500}
"""Length T of their input sequences (Table 3.2)."""
_NOISE_STEPS = 1000
"""Noise elements that the noise orientations post and uniform add (Section 3.3.1)."""
_KINDS = {"width": int, "learning_rate": float, "training_length": int, "replicate": int}


def caution(profile: str) -> str:
    """Return what a reader of simulated results must know before any conclusion; nothing for
    results of training.
    """
    if profile != PROFILE:
        return ""
    return (
        "**No network was trained for these numbers.** They are drawn from the published models "
        "of chapter 3, so that they agree with "
        "the text by construction. What follows shows the analysis at full size, and is evidence "
        "of nothing else. "
    )


def levels() -> dict[str, list]:
    """Return the levels of every factor of the published design, in the order of its table."""
    table = load_published("diss-tab-3.2").groupby("factor", sort=False)["level"].agg(list)
    return {name: [_KINDS.get(name, str)(level) for level in table[name]] for name in ATTEMPT}


def number(what: str) -> int:
    """Return a number of observations that the paper states."""
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
    """Return the covariance of accuracy and metric at the terminal iterate given the factors,
    shape (2, 2).
    """
    var_metric = float(summary(12)["rmse"]) ** 2
    shared = estimate(5, METRIC) * var_metric
    return np.array([[shared / estimate(11, ACCURACY), shared], [shared, var_metric]])


def training_covariances() -> tuple[np.ndarray, np.ndarray]:
    """Return the covariances of accuracy and metric between attempts and within one, each of
    shape (2, 2).
    """
    within = np.diag([float(summary(model)["rmse"]) ** 2 for model in (3, 9)])
    shares = np.array(
        [summary(model)[["r2_conditional", "r2_marginal"]] for model in (3, 9)], float
    )
    between = within * (shares[:, 0] - shares[:, 1]) / (1 - shares[:, 0])
    for covariance in (between, within):
        covariance[0, 1] = covariance[1, 0] = estimate(2, METRIC) * covariance[1, 1]
    return between, within


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


def simulate(seed: int, *, replicates: int | None = None, **kept: list) -> xr.Dataset:
    """Return results of the published design that were drawn, not trained.

    The first `replicates` of each treatment are kept, and of other factors the levels `kept`; all
    by default.

    Training measurements and terminal test measurements follow the law; the two are independent
    given the factors, because the paper does not say how they go together. Made up to fill the
    schema: test measurements before the last epoch, which are those of training; ``loss``, the
    negative logarithm of the accuracy; the adjoint of the last step, one, so that the adjoint
    metric is the logarithm of the first; ``parameters``, of one input feature. Nothing stands for
    ``examples``. Raises ValueError: `replicates` is not between 1 and those of the design.
    """
    published, rng = levels(), np.random.default_rng(seed)
    every = len(published["replicate"])
    replicates = every if replicates is None else replicates
    if not 1 <= replicates <= every:
        raise ValueError(
            f"replicates is {replicates}; expected 1 to {every}, those of the published design"
        )
    table, status = treatments(), statuses(rng)
    wanted = np.logical_and.reduce([table[name].isin(kept[name]) for name in kept], initial=True)
    lines = np.flatnonzero(np.broadcast_to(wanted, len(table)))
    table, status = table.iloc[lines], status[lines, :replicates]
    lengths = table["training_length"].to_numpy()
    last = lengths.max()
    design = {**published, **kept, "replicate": published["replicate"][:replicates]}
    source = "dissertation, Tables 1.7, 3.2, 3.5 to 3.8, A7 to A19"
    ds = SIMULATED.empty(
        {**design, "split": list(SPLITS), "epoch": list(range(1, last + 1))},
        profile=PROFILE,
        settings={"seed": seed, "source": source},
    )
    wanted = {factor: table[factor].to_numpy(ds[factor].dtype) for factor in TREATMENT}
    place = tuple(ds.get_index(factor).get_indexer(wanted[factor]) for factor in TREATMENT)
    done = np.where(status == COMPLETED, lengths[:, None], 0)
    ds["status"].values[place], ds["epochs_completed"].values[place] = status, done
    treatment, replicate = np.nonzero(status == COMPLETED)
    for name, drawn in _measurements(rng, lines[treatment], lengths[treatment]):
        values = np.full((*status.shape, len(SPLITS), last), np.nan, np.float32)
        values[treatment, replicate] = drawn
        ds[name].values[place] = values
    accuracy = ds["accuracy"].values
    ds["loss"][:] = (-np.log(np.clip(accuracy, 1e-3, None))).astype(np.float32)
    ds["adjoint_last"][:] = np.where(np.isnan(accuracy), np.nan, 0.0)
    for end in ("first", "last"):
        ds[f"adjoint_{end}_full"][:] = ds[f"adjoint_{end}"].values
    _describe(ds)
    return ds


def _measurements(rng: np.random.Generator, treatment: np.ndarray, length: np.ndarray):
    """Yield accuracy and metric of attempts with their variables' names, each of shape
    (attempts, splits, epochs); nan after an attempt's last epoch.
    """
    names, matrix = columns()
    epoch, slope = np.arange(1, length.max() + 1), names.index("epoch")
    still = matrix.copy()
    still[:, slope] = 0.0
    between, within = training_covariances()
    size = len(treatment)
    attempt = rng.multivariate_normal([0, 0], between, size=size)
    residual = rng.multivariate_normal([0, 0], within, size=(size, len(epoch)))
    end = rng.multivariate_normal([0, 0], terminal_covariance(), size=size)
    models = ("accuracy", 3, 6), ("adjoint_first", 9, 12)
    for place, (name, training, terminal) in enumerate(models):
        beta = vector(training, names)
        mean = (still @ beta)[treatment][:, None] + beta[slope] * epoch
        values = mean + attempt[:, [place]] + residual[..., place]
        values = np.where(epoch <= length[:, None], values, np.nan)
        both = np.stack([values, values], axis=1)
        mean = matrix[treatment] @ vector(terminal, names)
        both[np.arange(size), 1, length - 1] = mean + end[:, place]
        yield name, both


def _describe(ds: xr.Dataset) -> None:
    """Fill in what does not depend on an attempt."""
    parameters = load_published("diss-tab-3.3").set_index(["architecture", "width"])["parameters"]
    sizes = parameters.to_xarray().reindex_like(ds[["architecture", "width"]])
    ds["parameters"][:] = sizes.broadcast_like(ds["parameters"]).transpose(*ds["parameters"].dims)
    names = ds["dataset"].values.tolist()
    ds["classes"][:] = [_CLASSES[name] for name in names]
    ds["largest_class"][:] = [1 / _CLASSES[name] for name in names]  # as the text guesses
    more = np.where(ds["noise"].values == "none", 0, _NOISE_STEPS)
    ds["time_steps"][:] = np.add.outer([_STEPS[name] for name in names], more)
