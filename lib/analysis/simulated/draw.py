"""Draw the simulated dataset. Values are kept with the 24 bits of a single-precision number, so that they compress; the rounding is 1e-7 of a value, far below any standard error."""

from dataclasses import replace

import numpy as np
import xarray as xr

from lib.analysis.attempts import TREATMENT
from lib.analysis.simulated import PROFILE, law
from lib.results.factorial import FACTORIAL, SPLITS, check_measurements
from lib.results.published import load_published
from lib.results.schema import COMPLETED

SCHEMA = replace(FACTORIAL, name="simulated_factorial/1", check=check_measurements)
"""Of the simulated dataset: that of the experiment, but for accuracies, which may be any number."""
_CLASSES = {"cifar10": 10, "fashion_mnist": 10, "imdb": 2, "mnist": 10, "reuters": 46}
"""Labels of the text's data sets."""
_STEPS = {"cifar10": 1024, "fashion_mnist": 784, "imdb": 500, "mnist": 784, "reuters": 500}
"""Length T of their input sequences (Table 3.2)."""
_NOISE_STEPS = 1000
"""Noise elements that the noise orientations post and uniform add (Section 3.3.1)."""


def simulate(seed: int, *, replicates: int | None = None, **kept: list) -> xr.Dataset:
    """Return results of the published design that were drawn, not trained.

    The first `replicates` of each treatment are kept, and of other factors the levels `kept`; all by default.

    Training measurements and terminal test measurements follow `lib.analysis.simulated.law`; the two are independent given the factors, because the text does not say how they go together. Made up
    to fill the schema: test measurements before the last epoch, which are those of training; ``loss``, the negative logarithm of the accuracy; the adjoint of the last
    step, one, so that the adjoint metric is the logarithm of the first; ``parameters``, of one input feature. Nothing stands for ``examples``.
    Raises ValueError: `replicates` is not between 1 and those of the design.
    """
    levels, rng = law.levels(), np.random.default_rng(seed)
    every = len(levels["replicate"])
    replicates = every if replicates is None else replicates
    if not 1 <= replicates <= every:
        raise ValueError(
            f"replicates is {replicates}; expected 1 to {every}, those of the published design"
        )
    table, status = law.treatments(), law.statuses(rng)
    wanted = np.logical_and.reduce([table[name].isin(kept[name]) for name in kept], initial=True)
    lines = np.flatnonzero(np.broadcast_to(wanted, len(table)))
    table, status = table.iloc[lines], status[lines, :replicates]
    lengths = table["training_length"].to_numpy()
    last = lengths.max()
    design = {**levels, **kept, "replicate": levels["replicate"][:replicates]}
    source = "dissertation, Tables 1.7, 3.2, 3.5 to 3.8, A7 to A19"
    ds = SCHEMA.empty(
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
    """Yield accuracy and metric of attempts with their variables' names, each of shape (attempts, splits, epochs); nan after an attempt's last epoch."""
    names, matrix = law.columns()
    epoch, slope = np.arange(1, length.max() + 1), names.index("epoch")
    still = matrix.copy()
    still[:, slope] = 0.0
    between, within = law.training_covariances()
    size = len(treatment)
    attempt = rng.multivariate_normal([0, 0], between, size=size)
    residual = rng.multivariate_normal([0, 0], within, size=(size, len(epoch)))
    end = rng.multivariate_normal([0, 0], law.terminal_covariance(), size=size)
    for place, (name, training, terminal) in enumerate(
        (("accuracy", 3, 6), ("adjoint_first", 9, 12))
    ):
        beta = law.vector(training, names)
        mean = (still @ beta)[treatment][:, None] + beta[slope] * epoch
        values = mean + attempt[:, [place]] + residual[..., place]
        values = np.where(epoch <= length[:, None], values, np.nan)
        both = np.stack([values, values], axis=1)
        mean = matrix[treatment] @ law.vector(terminal, names)
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
