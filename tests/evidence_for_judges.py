"""Random results for judges (`study.claims.judging.Judges`), one function for each claim.

`FALSE` draws results in which a claim is false, `TRUE` results in which it is true.
"""

import json
from dataclasses import fields
from functools import cache, partial

import numpy as np
import pandas as pd
import xarray as xr
from random_groups import RECORD, group_sampler
from study.bench.counts import Counts
from study.claims import models, tasks
from study.claims.coadjoint_gaps import judge_coadjoint_gaps
from study.claims.counterexamples import COUNTEREXAMPLES, judge_examples, judge_vanished
from study.claims.error_rates import FRAGILE, ROBUST, judge_error_rates
from study.claims.factorial import Evidence
from study.claims.intervals import mean, proportion
from study.claims.judging import Judges
from study.claims.latching import judge_latching
from study.claims.linear_gaps import judge_linear_gaps
from study.claims.operations import work_ratio
from study.claims.padding import PAPERS_DATA, judge_padding
from study.claims.reversal import largest_error
from study.results.factorial import ATTEMPT
from study.results.schema import COMPLETED, DIVERGED, NOT_PLANNED
from study.stats.padded_images import SWEEP
from synthetic_results import empty


def factorial(status: np.ndarray | int = COMPLETED, examples: int = 1000, **levels) -> xr.Dataset:
    """Return results of a factorial design in which nothing is measured yet."""
    one = {"width": 8, "learning_rate": 0.1, "training_length": 1, "dataset": "mnist"}
    one |= {"order": "sequential", "noise": "none", "replicate": 0}
    levels = {name: [level] for name, level in one.items()} | levels
    ds = empty(levels | {"epoch": [*range(1, levels["training_length"][0] + 1)]}, profile="drawn")
    ds["status"][:] = status
    ds["epochs_completed"][:] = levels["training_length"][0]
    ds["examples"][:] = examples
    ds["classes"][:] = 2
    ds["largest_class"][:] = 0.1
    return ds


def failing(training_length: int = 25, **rate: float):
    """Return a function that draws results in which architectures fail at these rates.

    The paper's attempts take 25 epochs or more. Shorter ones confirm and refute less.
    """
    names = [*ROBUST, *FRAGILE]
    rates = np.array([rate.get(name, 0.0) for name in names]).reshape(-1, *[1] * 7)

    def draw(rng):
        status = np.where(rng.random((len(names), *[1] * 6, 400)) < rates, DIVERGED, COMPLETED)
        levels = {"training_length": [training_length], "replicate": range(400)}
        return factorial(status, architecture=names, **levels)

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


def poor_vanish(rng, accuracy, below=0.45):
    """Half of the attempts below the median vanish, and none above."""
    gone = (accuracy < below) & (rng.random(accuracy.shape) < 0.5)
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
    rng = np.random.default_rng(seed)
    shape = ds["accuracy"].shape
    # Noise differs from architecture to architecture, which is no difference between tasks.
    spread = rng.uniform(0.02, 0.06, (shape[0], *[1] * (len(shape) - 1)))
    ds["accuracy"][:] = np.clip(0.75 + spread * rng.standard_normal(shape), 0, 1)
    return Evidence(ds)


def without_differences(rng):
    """Every behavior is the same at all tasks, apart from noise."""
    return _alike(int(rng.integers(2**31)))


def uneven(rng):
    """Draw accuracies that vary much more at half of the tasks than at the others."""
    levels = {"dataset": ["cifar10", "imdb", "mnist", "retina"]}
    levels |= {"order": ["sequential", "permuted"], "architecture": [*ROBUST, *FRAGILE]}
    ds = factorial(replicate=range(8), **levels)
    spread = np.array([0.002, 0.002, 0.05, 0.05]).reshape(1, 1, 1, 1, 4, *[1] * 5)
    ds["accuracy"][:] = 0.75 + spread * rng.standard_normal(ds["accuracy"].shape)
    return Evidence(ds)


def dominated(rng, lead=0.3) -> Evidence:
    """Draw accuracies: one architecture is the best at every task, or each is at some."""
    datasets = ["cifar10", "fashion_mnist", "imdb", "mnist", "retina", "reuters"]
    levels = {"order": ["sequential", "permuted"], "noise": ["none", "post", "uniform"]}
    levels |= {"architecture": [*ROBUST, *FRAGILE], "dataset": datasets}
    ds = factorial(replicate=range(4), **levels)
    ds["accuracy"][:] = 0.5 + 0.02 * rng.standard_normal(ds["accuracy"].shape)
    ds["accuracy"][rng.integers(7)] += lead
    return Evidence(ds)


def steep(rng) -> Evidence:
    """Draw accuracies that rise with the learning rate."""
    levels = {"architecture": ["antisymmetric", "gru", "rnn"], "replicate": range(4)}
    levels |= {"learning_rate": [0.001, 0.01, 0.1], "dataset": ["cifar10", "mnist"]}
    ds = factorial(order=["sequential", "permuted"], noise=["none", "post"], **levels)
    rise = 0.1 * np.arange(3).reshape(1, 1, 3, *[1] * 7)
    ds["accuracy"][:] = 0.4 + rise + 0.05 * rng.standard_normal(ds["accuracy"].shape)
    ds["adjoint_first"][:] = rng.standard_normal(ds["adjoint_first"].shape)
    ds["adjoint_last"][:] = 0.0
    return Evidence(ds)


@cache
def _deciding(decisive: bool, seed: int) -> Evidence:
    levels = {"architecture": ["antisymmetric", "gru", "rnn"], "replicate": range(3)}
    levels |= {"learning_rate": [0.001, 0.01, 0.1], "training_length": [4]}
    levels |= {"dataset": ["cifar10", "mnist"], "order": ["sequential", "permuted"]}
    ds = factorial(examples=100, noise=["none", "post"], **levels)
    rng = np.random.default_rng(seed)
    shape = ds["accuracy"].shape
    attempt = (*shape[: len(ATTEMPT)], 1, 1)
    common = rng.standard_normal(attempt) + rng.standard_normal(shape)
    noise = 0.1 if decisive else rng.uniform(1, 3)
    other = noise * (rng.standard_normal(attempt) + rng.standard_normal(shape))
    metric = 10 * (common + other)
    if not decisive:  # hardly anything is left on test data, the last split, against the paper
        metric[..., 1, :] = 10 * other[..., 1, :] - 2 * common[..., 1, :]
    ds["accuracy"][:] = 0.5 + 0.1 * common
    ds["adjoint_first"][:] = metric
    ds["adjoint_last"][:] = 0.0
    return Evidence(ds)


def deciding(decisive: bool):
    """Return a function that draws results in which the metric decides accuracy, or does not."""
    return lambda rng: _deciding(decisive, int(rng.integers(2**31)))


def linear(rng, emphasized=1.0, cost=0.0) -> xr.Dataset:
    """Draw networks of which a share emphasizes the input at 50; the penalty costs accuracy."""
    replicates = 20
    times = np.array([49, 50, 51])
    shape = (1, 2, replicates)
    dims = ("place", "orthogonality", "replicate")
    emphasis = rng.standard_normal((*shape, len(times))) / 10
    emphasis[..., 1] = np.where(rng.random(shape) < emphasized, 1.0, 0.0)
    emphasis[..., 2] += 0.5
    accuracy = 0.9 + 0.05 * rng.standard_normal(shape)
    accuracy[:, 1] -= cost
    variables = {"emphasis": ((*dims, "time"), emphasis), "accuracy": (dims, accuracy)}
    variables |= {"departure": (dims, np.ones(shape)), "status": (dims, np.full(shape, COMPLETED))}
    levels = {"place": [50], "orthogonality": [0.0, 0.1], "replicate": range(replicates)}
    settings = '{"steps": 1, "batch_size": 1, "width": 4, "test_size": 4000}'
    return xr.Dataset(variables, levels | {"time": times}, {"settings": settings})


def coadjoint(rng, rises=True, learned=1.0) -> xr.Dataset:
    """Draw networks whose adjoints become more even with kappa, or not; a share learns."""
    kappas = np.array([0.0, 0.1, 1.0, 5.0])
    replicates = 12
    shape = (len(kappas), replicates)
    spread = np.where(rises, 4.0 - np.arange(len(kappas)), 2.0)[:, None]
    spread = spread + 0.5 * rng.standard_normal(shape)
    accuracy = (RECORD, np.where(rng.random((*shape, 1)) < learned, 1.0, 0.5))
    adjoint = -abs(spread)[:, :, None, None] * np.linspace(1, 0, 5)
    scores = {f"RNN, kappa={kappa:g}": 50.0 for kappa in kappas}
    make = group_sampler(scores, spread=1, kappa=[*kappas])
    variables = {"adjoint_norm": ((*RECORD[:2], "sequence", "time"), adjoint), "record": [0]}
    variables |= {"validation_metric": accuracy, "test_metric": accuracy}
    ds = make(rng, replicates).assign(variables)
    ds["status"][0, 8:] = NOT_PLANNED
    ds["test_metric"][0, 8:] = np.nan
    return ds


def latching(rng, latch=0.9, longer=1.0, steady=1.0, peak=1.0) -> xr.Dataset:
    """Draw results of 24 runs. These shares of them fulfill each claim."""
    runs = 24
    times = np.array([20, 22, 23, 24, 40, 800])
    place = 23
    fulfilled = (rng.random(runs) < rate for rate in (latch, longer, steady, peak))
    latched, longer, steady, peak = fulfilled
    error = np.where(np.stack([latched, longer], 1), 0.001, 0.3)
    adjoint = -np.where(steady, 0.0, 10.0)[:, None] * (800 - times) / 777
    adjoint[:, times == place] += np.where(peak, 0.6, 0.0)[:, None]
    settings = {"horizon": 40, "longer": [800], "place": place, "tolerance": 0.01}
    settings |= {"training_steps": 1, "batch_size": 1, "width": 4, "test_size": 1}
    training = ("training", "horizon")
    medians = (*training, "time"), np.stack([adjoint, adjoint], 1)
    levels = {"training": range(runs), "horizon": [40, 800], "time": times}
    variables = {"error": (training, error), "adjoint_median": medians}
    return xr.Dataset(variables, levels, {"settings": json.dumps(settings)})


def sweep(rng, together=False, networks=24) -> xr.Dataset:
    """Draw a sweep in which accuracy is unrelated to the metric, or rises near zero."""
    shape = (2 * networks, 1, 1)
    stage = (*RECORD[:2], "stage")
    metric = 5 * rng.standard_normal(shape)
    accuracy = rng.standard_normal(shape) - (abs(metric) if together else 0)
    levels = {"padding": [0, 3] * networks, "dataset": [PAPERS_DATA[1]] * 2 * networks}
    start = np.repeat(["orthogonal", "glorot"], networks).tolist()
    levels |= {"kappa": [0.0] * 2 * networks, "initialization": start}
    make = group_sampler({f"{SWEEP}, {n}": 50.0 for n in range(2 * networks)}, spread=1, **levels)
    ends = {"adjoint_norm_first": (stage, metric), "adjoint_norm_last": (stage, 0 * metric)}
    return make(rng, 1).assign(ends | {"test_metric": (RECORD, accuracy), "stage": ["trained"]})


def reversal(rng, lost=1e-3) -> pd.DataFrame:
    """Draw errors of recovered states: small ones, and about `lost` at one of the settings."""
    rows = []
    for setting in ("psMNIST", "IMDB", "EigenWorms"):
        for drive in ("white", "smooth"):
            typical = 1e-6
            if (setting, drive) == ("EigenWorms", "smooth"):
                typical = lost
            for seed in range(10):
                error = typical * np.exp(0.5 * rng.standard_normal())
                rows.append({"setting": setting, "drive": drive, "seed": seed, "error": error})
    return pd.DataFrame(rows)


def work(rng, least=1.0) -> tuple[dict[str, float], dict[str, float]]:
    """Draw counts of two networks; the first needs at least `least` times the second's work."""
    ways = [field.name for field in fields(Counts)]
    second = rng.uniform(10, 1000, len(ways))
    first = second * rng.uniform(least, least + 1, len(ways))
    return dict(zip(ways, first, strict=True)), dict(zip(ways, second, strict=True))


JUDGES = {
    "factorial": Judges({**judge_vanished, **judge_examples}),
    "rates_factorial": judge_error_rates,
    "factorial, by task": tasks.judge_tasks,
    **{f"factorial, models {family}": judges for family, judges in models.JUDGES.items()},
    "linear_gaps": judge_linear_gaps,
    "coadjoint_gaps": judge_coadjoint_gaps,
    "latching": judge_latching,
    "padding": judge_padding,
}
"""Judges by the name of the results that they judge."""

_AGAINST_NO_EFFECT = ("terminal-stronger", "terminal-mild", "reverse-terminal-stronger")
by_task = with_metric(
    lambda rng, a: 200 * (a.mean((0, 1, 2, 3, 7), keepdims=True) - 0.5) + rng.random(a.shape)
)
FALSE = {
    "diss-1.5.2-robust": failing(unicornn=0.02),
    "diss-1.5.2-fragile": failing(lstm=0.1, rnn=0.1, gru=0.1),
    "diss-1.4-error-rate": failing(antisymmetric=0.08),
    **dict.fromkeys(COUNTEREXAMPLES, with_metric(poor_vanish)),
    "diss-3.4-training-majority": with_metric(lambda rng, a: poor_vanish(rng, 1 - a)),
    "diss-3.4-basic-rnn": with_metric(others_nearer),
    "diss-3.4-inverse": with_metric(nearer_is_better),
    **dict.fromkeys(tasks.judge_tasks, without_differences),
    "diss-3.1-no-single": dominated,
    "diss-3.1-learning-rate": deciding(True),
    **{
        claim: deciding(claim.removeprefix("diss-3.5-") not in _AGAINST_NO_EFFECT)
        for judges in models.JUDGES.values()
        for claim in judges
    },
    # Reversed, or a relation between tasks without one within them.
    "diss-3.5-terminal-sign": lambda rng: rng.choice([deciding(False), by_task])(rng),
    "diss-2.5-emphasis": lambda rng: linear(rng, emphasized=rng.uniform(0, 0.5)),
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
TRUE = {
    **dict.fromkeys(("diss-1.5.2-robust", "diss-1.4-error-rate"), failing()),
    "diss-1.5.2-fragile": failing(**dict.fromkeys(FRAGILE, 0.2)),
    "diss-1.4-variance": uneven,
    "diss-3.1-no-single": partial(dominated, lead=0.0),
    "diss-3.1-learning-rate": steep,
    **dict.fromkeys(COUNTEREXAMPLES, with_metric(partial(poor_vanish, below=1.0))),
    "diss-3.4-training-majority": with_metric(poor_vanish),
    "diss-3.4-basic-rnn": with_metric(lambda rng, a: others_nearer(rng, a)[::-1]),
    "diss-3.4-inverse": with_metric(lambda rng, a: -60 * a - rng.random(a.shape)),
    **dict.fromkeys(judge_linear_gaps, lambda rng: linear(rng, cost=0.1)),
    **dict.fromkeys(judge_coadjoint_gaps, coadjoint),
    **dict.fromkeys(judge_latching, latching),
    "diss-2.8-relation": lambda rng: sweep(rng, together=True),
    "diss-2.8-no-relation": lambda rng: sweep(rng, networks=500),
}
IN_NOTEBOOKS = {
    "unicornn-2.3-states": lambda rng: largest_error(reversal(rng, lost=rng.uniform(0.15, 3))),
    "unicornn-2.3-gradients": lambda rng: largest_error(reversal(rng, lost=rng.uniform(0.15, 3))),
    "irnn-4.2-overhead": lambda rng: work_ratio(*work(rng, least=rng.uniform(1.5, 5))),
    "irnn-3.2-smooth": lambda rng: proportion(int(rng.binomial(200, 1 / 3)), 200),
    "irnn-3.2-surface": lambda rng: proportion(int(rng.binomial(200, 1 / 3)), 200),
    "irnn-a.6.5-linear": lambda rng: proportion(int(rng.binomial(200, 1 / 3)), 200),
    "irnn-a.6.6-negative": lambda rng: mean(rng.normal(0.9, 0.02, 8)),
}
"""Quantities that notebooks 51, 54 and 55 measure, from results in which claims are false."""
