"""What the factorial experiment says of the text's claims that need no model: numerical errors (1.5.2) and counterexamples (3.4)."""

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import binom

from lib.analysis.attempts import TASK, attempts, epochs, terminal
from lib.analysis.claims_tenet import made_instead, scale_of
from lib.analysis.errors import error_rates
from lib.analysis.quartiles import QUARTILES, TOP, quartiles
from lib.analysis.regimes import VANISHED, published_border, regimes
from lib.analysis.selection import FIGURE_35, choose_treatment, nearest_zero
from lib.results.claims import (
    Finding,
    Judges,
    Scale,
    correlation,
    largest,
    mean,
    share,
    smallest,
    unable,
)
from lib.results.factorial import ATTEMPT, MEASURED
from lib.results.schema import COMPLETED, DIVERGED

ROBUST = ("exponential", "antisymmetric", "unicornn")
FRAGILE = ("rnn", "lstm", "gru", "lipschitz")
SURE = 0.999
"""How sure it must be that an accuracy is no guess."""

judges = Judges("factorial")


def _judge(claim: str, *, false: Callable[[np.random.Generator], xr.Dataset]):
    """Make a function the judge of a claim, on the text's data alone."""

    def register(function: Callable[[xr.Dataset], Finding]) -> Callable[[xr.Dataset], Finding]:
        def judge(ds: xr.Dataset) -> Finding:
            instead = made_instead(ds)
            return unable(instead, scale_of(ds)) if instead else function(ds)

        return judges.add(claim, judge, false=false)

    return register


# numerical errors


def _rates(ds: xr.Dataset, names: Iterable[str], by: Iterable[str]) -> list[Finding]:
    table = error_rates(attempts(ds), by=[*by])
    table = table[table["architecture"].isin(names)]
    return [share(row.diverged, row.entered, scale_of(ds)) for row in table.itertuples()]


def _drawn_errors(**rate: float):
    """Return how to draw results in which the named architectures fail at these rates, and none of the others."""

    def draw(rng: np.random.Generator) -> xr.Dataset:
        names, replicates = (*ROBUST, *FRAGILE), 400
        rates = np.array([rate.get(name, rate.get("others", 0.0)) for name in names])
        failed = rng.random((len(names), replicates)) < rates[:, None]
        shape = tuple(len(names) if dim == "architecture" else 1 for dim in ATTEMPT[:-1])
        status = np.where(failed, DIVERGED, COMPLETED).reshape(*shape, replicates)
        levels = {factor: [1] for factor in ATTEMPT} | {
            "architecture": list(names),
            "replicate": range(replicates),
        }
        return xr.Dataset(
            {"status": (ATTEMPT, status), "epochs_completed": (ATTEMPT, np.ones_like(status))},
            levels,
            {"settings": "{}"},
        )

    return draw


@_judge("diss-1.5.2-robust", false=_drawn_errors(unicornn=0.02))
def three_never_fail(ds: xr.Dataset) -> Finding:
    return largest(_rates(ds, ROBUST, ["architecture"]))


@_judge("diss-1.5.2-fragile", false=_drawn_errors(lstm=0.1, rnn=0.1, gru=0.1))
def four_fail(ds: xr.Dataset) -> Finding:
    return smallest(_rates(ds, FRAGILE, ["architecture"]))


@_judge("diss-1.4-error-rate", false=_drawn_errors(antisymmetric=0.08))
def three_fail_on_no_task(ds: xr.Dataset) -> Finding:
    return largest(_rates(ds, ROBUST, ["architecture", *TASK]))


# counterexamples


def _vanished(rows: pd.DataFrame, border: float) -> pd.Series:
    """Return which rows are in the vanishing regime, by the metric as single precision would have stored it."""
    return pd.Series(regimes(rows["metric_float32"], border) == VANISHED, index=rows.index)


def _learned(rows: pd.DataFrame, ds: xr.Dataset) -> pd.Series:
    """Return which terminal iterates are hardly guesses: the best of networks that guess have learned nothing."""
    examples = rows["dataset"].map(ds["examples"].sel(split="test").to_series())
    guess = rows["dataset"].map(ds["largest_class"].to_series())
    return rows["accuracy"] > binom.ppf(SURE, examples, guess) / examples


def share_by_task(chosen: pd.Series, total: pd.Series, scale: Scale | None = None) -> Finding:
    """Return the mean over tasks of the share of `chosen` among `total`, counts by task: attempts at one task compete and depend on each other.

    Where all or none are chosen at every task, Student's interval would have no width: then tasks are counted, exactly.
    """
    shares = chosen[total > 0] / total[total > 0]
    if len(shares) and shares.eq(shares.iloc[0]).all() and shares.iloc[0] in (0, 1):
        return share(int(shares.sum()), len(shares), scale)
    return mean(shares, scale)


Metric = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def _drawn_metrics(metric: Metric) -> Callable[[np.random.Generator], xr.Dataset]:
    """Return how to draw attempts of any accuracy, whose metric is drawn from the accuracies."""
    levels = {
        "architecture": ["rnn", "exponential", "gru"],
        "width": [1],
        "learning_rate": [0.1],
        "training_length": [1],
        "dataset": ["mnist", "imdb"],
        "order": ["sequential", "permuted"],
        "noise": ["none", "post", "uniform"],
        "replicate": range(20),
    }
    counts = {
        "examples": (("dataset", "split"), np.full((2, 2), 1000)),
        "classes": ("dataset", [10] * 2),
        "largest_class": ("dataset", [0.1] * 2),
    }

    def draw(rng: np.random.Generator) -> xr.Dataset:
        accuracy = rng.random([len(values) for values in levels.values()])
        last = np.full_like(accuracy, 3.0)  # a thousand examples of norm 1
        measured = {"accuracy": accuracy, "loss": accuracy, "adjoint_last": last}
        measured["adjoint_first"] = last + metric(rng, accuracy)
        return xr.Dataset(
            {name: (MEASURED, np.stack([x, x], -1)[..., None]) for name, x in measured.items()}
            | {"status": (ATTEMPT, np.full(accuracy.shape, COMPLETED))}
            | {"epochs_completed": (ATTEMPT, np.ones(accuracy.shape, int))}
            | counts,
            levels | {"split": ["train", "test"], "epoch": [1]},
            {"settings": "{}"},
        )

    return draw


def _poor_vanish(rng: np.random.Generator, accuracy: np.ndarray) -> np.ndarray:
    """Let half of the attempts below the median vanish, and none above."""
    gone = (accuracy < 0.45) & (rng.random(accuracy.shape) < 0.5)
    return np.where(gone, -100.0, rng.standard_normal(accuracy.shape))


def best_had_vanished_while_training(ds: xr.Dataset, border: float) -> Finding:
    """Return the share, of the attempts in the upper quartile, that were in the vanishing regime in some epoch."""
    ended, training = terminal(ds), epochs(ds, "train")
    ever = ended["attempt"].isin(training.loc[_vanished(training, border), "attempt"])
    top = (quartiles(ended) == TOP) & _learned(ended, ds)
    task = [ended[name] for name in TASK]
    chosen, total = ((which & top).groupby(task).sum() for which in (ever, top))
    return share_by_task(chosen, total, scale_of(ds))


def vanished_are_among_the_best(ds: xr.Dataset, border: float) -> Finding:
    """Return the share, of the attempts that vanished at the end, that are in the upper quartile."""
    rows = terminal(ds)
    top = (quartiles(rows) == TOP) & _learned(rows, ds)
    gone = _vanished(rows, border)
    return share(int((top & gone).sum()), int(gone.sum()), scale_of(ds))


def vanished_are_above_the_median(ds: xr.Dataset, border: float) -> Finding:
    """Return the smallest share over the task varieties of attempts that vanished at the end and are above the median."""
    rows = terminal(ds)
    upper = quartiles(rows).isin(QUARTILES[2:]) & _learned(rows, ds)
    kinds = rows.assign(upper=upper)[_vanished(rows, border)]
    kinds = kinds.groupby(["order", "noise"])["upper"]
    found = [share(int(part.sum()), len(part), scale_of(ds)) for _, part in kinds]
    if len(found) < ds.sizes["order"] * ds.sizes["noise"]:
        return unable("some task variety has no attempt with vanished adjoints", scale_of(ds))
    return smallest(found)


COUNTEREXAMPLES: dict[str, Callable[[xr.Dataset, float], Finding]] = {
    "diss-3.4-training-quartile": best_had_vanished_while_training,
    "diss-3.4-terminal-quartile": vanished_are_among_the_best,
    "diss-3.4-terminal-median": vanished_are_above_the_median,
}
"""Claims on attempts that learn with vanished gradients; the border of the regime is the text's where a claim is judged, and may be another one to see what hangs on it."""
for _claim, _quantity in COUNTEREXAMPLES.items():
    _judge(_claim, false=_drawn_metrics(_poor_vanish))(
        lambda ds, quantity=_quantity: quantity(ds, published_border())
    )


def _others_nearer(rng: np.random.Generator, accuracy: np.ndarray) -> np.ndarray:
    """Draw metrics of which the GRU's are nearer to zero than the basic RNN's."""
    size = np.array([1.0, 1.0, rng.uniform(0.1, 0.5)])
    return size.reshape(-1, *[1] * (accuracy.ndim - 1)) * rng.standard_normal(accuracy.shape)


@_judge("diss-3.4-basic-rnn", false=_drawn_metrics(_others_nearer))
def basic_rnn_nearest(ds: xr.Dataset) -> Finding:
    """Each replicate of the design has its own best attempts: their differences are the independent values."""
    rows = terminal(ds)
    rows = rows[(rows[list(TASK)] == ["imdb", "permuted", "uniform"]).all(axis=1)]
    differences = []
    for _, part in rows.groupby("replicate"):
        distance = nearest_zero(part).set_index("architecture")["metric"].abs()
        if "rnn" in distance and len(distance) > 1:
            differences.append(distance.drop("rnn").min() - distance["rnn"])
    return mean(differences, scale_of(ds))


def _nearer_is_better(rng: np.random.Generator, accuracy: np.ndarray) -> np.ndarray:
    """Draw metrics that come nearer to zero as the accuracy rises, up to some noise."""
    return -60 * (1 - accuracy) - rng.uniform(5, 200) * rng.random(accuracy.shape)


@_judge("diss-3.4-inverse", false=_drawn_metrics(_nearer_is_better))
def nearer_is_worse(ds: xr.Dataset) -> Finding:
    """The treatments of Figure 3.5, chosen without a look at the order of their accuracies."""
    rows, found = terminal(ds), []
    for architecture, task in FIGURE_35.items():
        chosen, _ = choose_treatment(rows, architecture, task, published_border())
        found.append(correlation(chosen["accuracy"], -chosen["metric"].abs(), scale_of(ds)))
    if any(np.isnan(one.low) for one in found):
        return unable("a treatment has too few replicates for a correlation", scale_of(ds))
    # The mean of two independent correlations: their errors add as squares.
    value = np.mean([one.value for one in found])
    low = value - np.hypot(*(one.value - one.low for one in found)) / 2
    high = value + np.hypot(*(one.high - one.value for one in found)) / 2
    return Finding(float(value), float(low), float(high), scale_of(ds))
