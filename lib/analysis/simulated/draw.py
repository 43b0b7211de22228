"""Draw the simulated dataset: the design, who completed, then every measurement.

The largest arrays are those of 42,000 attempts, two splits and 50 epochs. Values are kept with the 24 bits of a
single-precision number, so that they compress; the rounding is 1e-7 of a value, far below any standard error.
"""

from dataclasses import replace

import numpy as np
import xarray as xr

from lib.analysis.simulated import PROFILE, entered, published
from lib.analysis.simulated.covariances import Process, training_process
from lib.analysis.simulated.published import REPLICATE
from lib.results.factorial import (
    ATTEMPT,
    COMPLETED,
    DIVERGED,
    FACTORIAL,
    MISSING,
    SPLITS,
    check_measurements,
)
from lib.results.published import load_published

SCHEMA = replace(FACTORIAL, name="simulated_factorial/1", check=check_measurements)
"""Of the simulated dataset: that of the experiment, but for accuracies, which may be any number. Cut off at 0 and 1 they would
bias every coefficient."""

_CLASSES = {"cifar10": 10, "fashion_mnist": 10, "imdb": 2, "mnist": 10, "reuters": 46}
"""Labels of the text's data sets."""
_STEPS = {"cifar10": 1024, "fashion_mnist": 784, "imdb": 500, "mnist": 784, "reuters": 500}
"""Length T of their input sequences (Table 3.2)."""
_NOISE_STEPS = 1000
"""Noise elements that the noise orientations post and uniform add (Section 3.3.1)."""
_SMALLEST = 1e-3
"""Accuracy that a made-up loss is computed from at least."""


def simulate(seed: int, *, replicates: int | None = None) -> xr.Dataset:
    """Return results of the published design that were drawn, not trained.

    Parameters
    ----------
    seed
        Of all that is random; equal seeds give equal datasets.
    replicates
        Replicates of each treatment to keep, the first of the ten; all by default. Fewer make a dataset of the
        same law and a smaller file.

    Returns
    -------
    xarray.Dataset
        Of `SCHEMA` and profile ``simulated``. Training measurements follow
        `lib.analysis.simulated.covariances`, terminal test measurements Models 6 and 12 with the residual covariance of Models 5
        and 11; the two are independent given the factors, because the text does not say how they go together. Made up to
        fill the schema: test measurements before the last epoch, which lead to it with the slope and the spread of training;
        ``loss``, the negative logarithm of the accuracy; the adjoint of the last step, one, so that the adjoint metric
        is the logarithm of the first; ``parameters``, of one input feature. Nothing stands for ``examples``.

    Raises
    ------
    ValueError
        `replicates` is not between 1 and those of the design.
    lib.analysis.simulated.entered.CalibrationError
        The published tables could not be met.
    """
    levels = published.levels()
    every = len(levels[REPLICATE])
    kept = every if replicates is None else replicates
    if not 1 <= kept <= every:
        raise ValueError(
            f"replicates is {kept}; expected 1 to {every}, those of the published design"
        )
    length = max(levels["training_length"])
    ds = SCHEMA.empty(
        {**levels, "split": list(SPLITS), "epoch": list(range(1, length + 1))},
        profile=PROFILE,
        settings={"seed": seed, "source": "dissertation, Tables 1.7, 3.2, 3.5 to 3.8, A7 to A19"},
    )
    rng = np.random.default_rng(seed)
    status = _status(rng, every)
    lengths = published.treatments()["training_length"].to_numpy()
    done = np.where(status == COMPLETED, lengths[:, None], 0)
    _put(ds, "status", status)
    _put(ds, "epochs_completed", done)
    process = training_process()
    treatment, replicate = np.nonzero(status == COMPLETED)
    training = _training(rng, process, treatment, length)
    terminal = _terminal(rng, treatment)
    test = _towards(rng, process, terminal, lengths[treatment], length)
    reached = np.arange(1, length + 1) <= done[treatment, replicate][:, None]
    for place, name in enumerate(("accuracy", "adjoint_first")):
        values = np.full((*status.shape, 2, length), np.nan, np.float32)
        both = np.stack([training[place], test[place]], axis=1)
        values[treatment, replicate] = np.where(reached[:, None], both, np.nan)
        _put(ds, name, values)
    accuracy = ds["accuracy"].values
    ds["loss"][:] = (-np.log(np.clip(accuracy, _SMALLEST, None))).astype(np.float32)
    ds["adjoint_last"][:] = np.where(np.isnan(accuracy), np.nan, 0.0)
    for end in ("first", "last"):
        ds[f"adjoint_{end}_full"][:] = ds[f"adjoint_{end}"].values
    _describe(ds)
    return ds.isel(replicate=slice(kept))


def _status(rng: np.random.Generator, replicates: int) -> np.ndarray:
    """Return how each attempt ends, shape (treatments, replicates); which replicates complete is random."""
    completed = entered.completed()
    order = rng.permuted(np.tile(np.arange(replicates), (len(completed), 1)), axis=1)
    failed = np.where(entered.possible(), DIVERGED, MISSING)
    return np.where(order < completed[:, None], COMPLETED, failed[:, None])


def _training(
    rng: np.random.Generator, process: Process, treatment: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return accuracy and metric of every epoch, each of shape (attempts, length)."""
    names, matrix = published.columns()
    at = names.index("epoch")
    columns = matrix.copy()
    columns[:, at] = 0.0
    epoch = np.arange(1, length + 1)
    between = rng.multivariate_normal([0, 0], process.between, size=len(treatment))
    within = rng.multivariate_normal([0, 0], process.within, size=(len(treatment), length))
    return tuple(
        (columns @ beta)[treatment][:, None]
        + beta[at] * epoch
        + between[:, [place]]
        + within[..., place]
        for place, beta in enumerate((process.accuracy, process.metric))
    )


def _terminal(rng: np.random.Generator, treatment: np.ndarray) -> np.ndarray:
    """Return accuracy and metric at the terminal iterate, shape (2, attempts)."""
    names, matrix = published.columns()
    left = published.terminal_residuals()
    covariance = [[left.var_accuracy, left.covariance], [left.covariance, left.var_metric]]
    means = np.stack([matrix @ published.vector(6, names), matrix @ published.vector(12, names)])
    return means[:, treatment] + rng.multivariate_normal([0, 0], covariance, size=len(treatment)).T


def _towards(
    rng: np.random.Generator, process: Process, terminal: np.ndarray, last: np.ndarray, length: int
) -> list[np.ndarray]:
    """Return test measurements of every epoch that end in the terminal ones."""
    names, _ = published.columns()
    at = names.index("epoch")
    before = np.arange(1, length + 1) - last[:, None]
    noise = rng.multivariate_normal([0, 0], process.within, size=(len(last), length))
    return [
        terminal[place][:, None] + beta[at] * before + np.where(before < 0, noise[..., place], 0.0)
        for place, beta in enumerate((process.accuracy, process.metric))
    ]


def _put(ds: xr.Dataset, name: str, values: np.ndarray) -> None:
    """Write `values`, of shape (treatments, replicates, ...), where they belong in the order of the factors."""
    factors = [factor for factor in ATTEMPT if factor != REPLICATE]
    table = published.treatments()
    place = tuple(
        ds.get_index(factor).get_indexer(table[factor].to_numpy(ds[factor].dtype))
        for factor in factors
    )
    ds[name].values[place] = values


def _describe(ds: xr.Dataset) -> None:
    """Fill in what does not depend on an attempt."""
    parameters = load_published("diss-tab-3.3").set_index(["architecture", "width"])["parameters"]
    for architecture in ds["architecture"].values:
        for width in ds["width"].values:
            place = {"architecture": architecture, "width": width}
            ds["parameters"].loc[place] = parameters[architecture, width]
    for dataset in ds["dataset"].values:
        ds["classes"].loc[{"dataset": dataset}] = _CLASSES[str(dataset)]
        ds["largest_class"].loc[{"dataset": dataset}] = (
            1 / _CLASSES[str(dataset)]
        )  # as the text guesses
        for noise in ds["noise"].values:
            more = 0 if noise == "none" else _NOISE_STEPS
            place = {"dataset": dataset, "noise": noise}
            ds["time_steps"].loc[place] = _STEPS[str(dataset)] + more
