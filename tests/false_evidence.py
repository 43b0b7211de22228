"""Draws of evidence in which the claim of each judge of its own is false (`lib.results.claims.Judges`)."""

import json
from functools import cache

import numpy as np
import xarray as xr
from drawn import RECORD, drawn
from synthetic_results import empty

from lib.analysis import claims_factorial, gaps
from lib.analysis.claims_factorial import FRAGILE, ROBUST, Evidence
from lib.analysis.gaps import SWEEP
from lib.results.claims import mean, share
from lib.results.factorial import ATTEMPT
from lib.results.schema import COMPLETED, DIVERGED


def factorial(status: np.ndarray | int = COMPLETED, examples: int = 1000, **levels) -> xr.Dataset:
    """Return results of a factorial design, by default of one level each, in which nothing is measured yet."""
    one = {"width": 8, "learning_rate": 0.1, "training_length": 1, "dataset": "mnist"}
    one |= {"order": "sequential", "noise": "none", "replicate": 0}
    levels = {name: [level] for name, level in one.items()} | levels
    ds = empty(levels | {"epoch": [*range(1, levels["training_length"][0] + 1)]}, profile="drawn")
    ds["status"][:], ds["epochs_completed"][:] = status, levels["training_length"][0]
    ds["examples"][:], ds["classes"][:], ds["largest_class"][:] = examples, 2, 0.1
    return ds


def failing(**rate: float):
    """Return how to draw results in which the named architectures fail at these rates, and none of the others."""
    names = [*ROBUST, *FRAGILE]
    rates = np.array([rate.get(name, 0.0) for name in names]).reshape(-1, *[1] * 7)

    def draw(rng):
        failed = rng.random((len(names), *[1] * 6, 400)) < rates
        status = np.where(failed, DIVERGED, COMPLETED)
        return factorial(status, architecture=names, replicate=range(400))

    return draw


def with_metric(metric):
    """Return how to draw attempts of any accuracy, whose metric is drawn from the accuracies."""
    levels = {"architecture": ["rnn", "exponential", "gru"], "dataset": ["mnist", "imdb"]}
    levels |= {"order": ["sequential", "permuted"], "noise": ["none", "post", "uniform"]}

    def draw(rng):
        ds = factorial(**levels, replicate=range(20))
        accuracy = rng.random(ds["status"].shape)
        ds["accuracy"][:] = ds["loss"][:] = accuracy[..., None, None]
        ds["adjoint_last"][:] = 3.0  # a thousand examples of norm 1
        ds["adjoint_first"][:] = 3.0 + metric(rng, accuracy)[..., None, None]
        return ds

    return draw


def poor_vanish(rng, accuracy):
    """Half of the attempts below the median vanish, and none above."""
    gone = (accuracy < 0.45) & (rng.random(accuracy.shape) < 0.5)
    return np.where(gone, -100.0, rng.standard_normal(accuracy.shape))


def others_nearer(rng, accuracy):
    """The GRU's metrics are nearer to zero than the basic RNN's."""
    size = np.array([1.0, 1.0, rng.uniform(0.1, 0.5)])
    return size.reshape(-1, *[1] * 7) * rng.standard_normal(accuracy.shape)


def nearer_is_better(rng, accuracy):
    return -60 * (1 - accuracy) - rng.uniform(5, 200) * rng.random(accuracy.shape)


@cache  # the claims on tasks share their draws
def _alike(seed: int) -> Evidence:
    levels = {"dataset": ["cifar10", "imdb", "mnist"], "order": ["sequential", "permuted"]}
    levels |= {"architecture": [*ROBUST, *FRAGILE], "replicate": range(4)}
    ds = factorial(learning_rate=[0.001, 0.01, 0.1], training_length=[4], **levels)
    rng, shape = np.random.default_rng(seed), ds["accuracy"].shape
    # Noise differs from architecture to architecture, which is no difference between tasks.
    spread = rng.uniform(0.02, 0.06, (shape[0], *[1] * (len(shape) - 1)))
    ds["accuracy"][:] = np.clip(0.75 + spread * rng.standard_normal(shape), 0, 1)
    return Evidence(ds)


def alike(rng):
    """Every behaviour is the same at all tasks, apart from noise."""
    return _alike(int(rng.integers(2**31)))


@cache
def _deciding(decisive: bool, seed: int) -> Evidence:
    levels = {"architecture": ["antisymmetric", "gru", "rnn"], "replicate": range(3)}
    levels |= {"learning_rate": [0.001, 0.01, 0.1], "training_length": [4]}
    levels |= {"dataset": ["cifar10", "mnist"], "order": ["sequential", "permuted"]}
    ds = factorial(examples=100, noise=["none", "post"], **levels)
    rng, shape = np.random.default_rng(seed), ds["accuracy"].shape
    attempt = (*shape[: len(ATTEMPT)], 1, 1)
    common = rng.standard_normal(attempt) + rng.standard_normal(shape)
    noise = 0.1 if decisive else rng.uniform(1, 3)
    other = noise * (rng.standard_normal(attempt) + rng.standard_normal(shape))
    metric = 10 * (common + other)
    if not decisive:  # on test data, the last of two splits, hardly anything is left, and that is against the text
        metric[..., 1, :] = 10 * other[..., 1, :] - 2 * common[..., 1, :]
    ds["accuracy"][:], ds["adjoint_first"][:] = 0.5 + 0.1 * common, metric
    ds["adjoint_last"][:] = 0.0
    return Evidence(ds)


def deciding(decisive: bool):
    """Return how to draw results in which the metric decides about accuracy, or is nothing to it once networks are trained."""
    return lambda rng: _deciding(decisive, int(rng.integers(2**31)))


def linear(rng, emphasised=1.0, cost=0.0) -> xr.Dataset:
    """Draw networks of which a share emphasises the input at 50, and whose penalty costs accuracy."""
    replicates, times = 20, np.array([49, 50, 51])
    shape, dims = (1, 2, replicates), ("place", "orthogonality", "replicate")
    emphasis = rng.standard_normal((*shape, len(times))) / 10
    emphasis[..., 1] = np.where(rng.random(shape) < emphasised, 1.0, 0.0)
    emphasis[..., 2] += 0.5
    accuracy = 0.9 + 0.05 * rng.standard_normal(shape)
    accuracy[:, 1] -= cost
    return xr.Dataset(
        {
            "emphasis": ((*dims, "time"), emphasis),
            "accuracy": (dims, accuracy),
            "departure": (dims, np.ones(shape)),
            "status": (dims, np.full(shape, COMPLETED)),
        },
        {"place": [50], "orthogonality": [0.0, 0.1], "replicate": range(replicates), "time": times},
        {"settings": '{"steps": 1, "batch_size": 1, "width": 4, "test_size": 4000}'},
    )


def coadjoint(rng, rises=True, learned=1.0) -> xr.Dataset:
    """Draw networks whose adjoints become more even with kappa, or at random, and of which a share learns."""
    kappas, replicates = np.array([0.0, 0.1, 1.0, 5.0]), 12
    shape = (len(kappas), replicates)
    spread = np.where(rises, 4.0 - np.arange(len(kappas)), 2.0)[:, None]
    spread = spread + 0.5 * rng.standard_normal(shape)
    accuracy = (RECORD, np.where(rng.random((*shape, 1)) < learned, 1.0, 0.5))
    adjoint = -abs(spread)[:, :, None, None] * np.linspace(1, 0, 5)
    make = drawn({f"RNN, kappa={kappa:g}": 50.0 for kappa in kappas}, spread=1, kappa=[*kappas])
    return make(rng, replicates).assign(
        adjoint_norm=((*RECORD[:2], "sequence", "time"), adjoint),
        validation_metric=accuracy,
        test_metric=accuracy,
        record=[0],
    )


def latching(rng, latch=0.9, longer=1.0, steady=1.0, peak=1.0) -> xr.Dataset:
    """Draw results of 24 trainings of which these shares fulfil each claim."""
    trainings, times, place = 24, np.array([20, 22, 23, 24, 800]), 23
    fulfilled = (rng.random(trainings) < share for share in (latch, longer, steady, peak))
    latched, longer, steady, peak = fulfilled
    error = np.where(np.stack([latched, longer], 1), 0.001, 0.3)
    adjoint = -np.where(steady, 0.0, 10.0)[:, None] * (800 - times) / 777
    adjoint[:, times == place] += np.where(peak, 0.3, 0.0)[:, None]
    settings = {"horizon": 40, "longer": [800], "place": place, "tolerance": 0.01}
    settings |= {"training_steps": 1, "batch_size": 1, "width": 4, "test_size": 1}
    training = ("training", "horizon")
    return xr.Dataset(
        {
            "error": (training, error),
            "adjoint_median": ((*training, "time"), np.stack([adjoint, adjoint], 1)),
        },
        {"training": range(trainings), "horizon": [40, 800], "time": times},
        {"settings": json.dumps(settings)},
    )


def sweep(rng, together=False, networks=24) -> xr.Dataset:
    """Draw a sweep at two paddings in which accuracy has nothing to do with the metric, or rises as it comes nearer to zero."""
    shape, stage = (2 * networks, 1, 1), (*RECORD[:2], "stage")
    metric = 5 * rng.standard_normal(shape)
    accuracy = rng.standard_normal(shape) - (abs(metric) if together else 0)
    levels = {"padding": [0, 3] * networks, "dataset": [gaps.TEXT[1]] * 2 * networks}
    start = np.repeat(["orthogonal", "glorot"], networks).tolist()
    levels |= {"kappa": [0.0] * 2 * networks, "initialisation": start}
    make = drawn({f"{SWEEP}, {n}": 50.0 for n in range(2 * networks)}, spread=1, **levels)
    return make(rng, 1).assign(
        test_metric=(RECORD, accuracy),
        adjoint_norm_first=(stage, metric),
        adjoint_norm_last=(stage, 0 * metric),
        stage=["trained"],
    )


JUDGES = {
    "factorial": claims_factorial.judges,
    "factorial, by task": claims_factorial.over_tasks,
    **{f"factorial, models {f}": judges for f, judges in claims_factorial.JUDGES.items()},
    "linear_gaps": gaps.linear,
    "coadjoint_gaps": gaps.coadjoint,
    "latching": gaps.latching,
    "padding": gaps.padding,
}
"""By the results that they judge."""

_AGAINST_NO_EFFECT = ("terminal-stronger", "terminal-mild", "terminal-sign", "reverse-terminal-stronger")  # fmt: skip
FALSE = {
    "diss-1.5.2-robust": failing(unicornn=0.02),
    "diss-1.5.2-fragile": failing(lstm=0.1, rnn=0.1, gru=0.1),
    "diss-1.4-error-rate": failing(antisymmetric=0.08),
    **dict.fromkeys(claims_factorial.COUNTEREXAMPLES, with_metric(poor_vanish)),
    "diss-3.4-basic-rnn": with_metric(others_nearer),
    "diss-3.4-inverse": with_metric(nearer_is_better),
    **dict.fromkeys(claims_factorial.over_tasks, alike),
    **{
        claim: deciding(claim.removeprefix("diss-3.5-") not in _AGAINST_NO_EFFECT)
        for judges in claims_factorial.JUDGES.values()
        for claim in judges
    },
    "diss-2.5-emphasis": lambda rng: linear(rng, emphasised=rng.uniform(0, 0.5)),
    "diss-2.5-orthogonality": lambda rng: linear(rng, cost=-0.02),
    "diss-2.6-uniform": lambda rng: coadjoint(rng, rises=False),
    "diss-2.6-accuracy": lambda rng: coadjoint(rng, learned=rng.uniform(0, 0.5)),
    "diss-3.6-latch": lambda rng: latching(rng, latch=rng.uniform(0, 0.01)),
    "diss-3.6-longer": lambda rng: latching(rng, longer=rng.uniform(0, 0.5)),
    "diss-3.6-adjoints": lambda rng: latching(rng, steady=rng.uniform(0, 0.5)),
    "diss-3.6-place": lambda rng: latching(rng, peak=rng.uniform(0, 0.5)),
    "diss-2.8-no-relation": lambda rng: sweep(rng, together=True),
    "diss-2.8-relation": sweep,
}
IN_NOTEBOOKS = {
    "irnn-3.2-smooth": lambda rng: share(int(rng.binomial(200, 1 / 3)), 200),
    "irnn-3.2-surface": lambda rng: share(int(rng.binomial(200, 1 / 3)), 200),
    "irnn-a.6.6-negative": lambda rng: mean(rng.normal(0.9, 0.02, 8)),
}
"""What notebooks 54 and 55 count themselves, drawn where a third of the paths, and nine tenths of the eigenvalues, are as the claim says."""
