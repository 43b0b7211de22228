"""Evidence drawn at random: groups of runs with given scores, or in which a claim is true or false,
and results in which the claim of each judge is false (`study.claims.judging.Judges`).
"""

import json
import math
import re
from collections.abc import Mapping
from functools import cache, partial
from itertools import product

import numpy as np
import xarray as xr
from study.claims import attempts, chapter2, models, tasks
from study.claims.attempts import COUNTEREXAMPLES, FRAGILE, ROBUST
from study.claims.claim import Claim, NetworkName
from study.claims.estimates import mean, proportion
from study.claims.factorial import Evidence
from study.results.factorial import ATTEMPT
from study.results.networks import CLASS
from study.results.schema import COMPLETED, DIVERGED, NOT_PLANNED
from study.stats.padded_images import SWEEP
from synthetic_results import empty

MEASURES = {
    "accuracy": (lambda x: (np.ones_like(x), x / 100), 50.0, 10.0, 1, 0.2),
    "error": (lambda x: (x**2, x), 1.0, 20.0, 1, 0.01),
    "squared error": (lambda x: (x, np.sqrt(x)), 0.05, 1 / 6, 0.004, 0.01),
    "perplexity": (lambda x: (np.log(x), np.zeros_like(x)), 200.0, 700.0, 5.0, 0.01),
    "bits": (lambda x: (x * math.log(2), np.zeros_like(x)), 2.0, 4.3, 0.05, 0.01),
}
"""Recorded loss and metric, typical score, guessing's, unit of differences, spread of runs."""
RATIOS = (
    "ratio",
    "longer",
    "share_of_chance",
    "memoryless",
    "deviation",
    "steps_needed",
    "span",
    "decay",
)
RECORD = ("run", "replicate", "record")


def drawn(
    scores: Mapping[str | tuple[str, str], float],
    *,
    spread: float,
    measure: str = "accuracy",
    guess: float = 10.0,
    test_sequences: int = 4000,
    time_steps: Mapping[str, int] | None = None,
    **factors: list,
):
    """Return a function that draws a group whose networks have these mean scores.

    Scores are by label, or by label and task. `spread` is the standard deviation over runs: of
    accuracies in points, of errors in units of the error. `factors` are coordinates along run.
    """
    keys = [key if isinstance(key, tuple) else (key, "made up") for key in scores]
    means = np.array(list(scores.values()), float)[:, None]
    kept, accuracy = MEASURES[measure][0], measure == "accuracy"

    def draw(rng: np.random.Generator, replicates: int = 6) -> xr.Dataset:
        noise = spread * rng.uniform(0.5, 1.5) * rng.standard_normal((len(keys), replicates))
        values = (means + noise).clip(0, 100) if accuracy else means * np.exp(noise)
        loss, metric = kept(values)
        guess_loss, guess_metric = map(float, kept(np.array(float(guess))))
        same = {"architecture": "lem", "width": 16, "learning_rate": 0.001, "parameters": 1}
        same |= {"task_settings": '{"task": "made up"}', "substitute": "", "sequences": 100}
        same |= {"metric": "error" if measure in ("error", "squared error") else "accuracy"}
        same |= {"guess_loss": guess_loss, "guess_metric": guess_metric}
        same["test_sequences"] = test_sequences
        once = np.ones(loss.shape, int)
        labels, tasks = zip(*keys, strict=True)
        about = {name: [value] * len(keys) for name, value in same.items()}
        about |= {"label": labels, "network": [label.partition(", ")[0] for label in labels]}
        about |= {"task": tasks, "time_steps": [(time_steps or {}).get(task, 10) for task in tasks]}
        found = {name: ("run", [*values]) for name, values in (about | factors).items()}
        found |= {"status": (RECORD[:2], np.full(loss.shape, COMPLETED))}
        found |= dict.fromkeys(("records", "steps"), (RECORD[:2], once))
        for name, values in (("loss", loss), ("metric", metric)):
            both = f"test_{name}", f"validation_{name}"
            found |= dict.fromkeys(both, (RECORD, values[..., None]))
        found["step"] = RECORD, once[..., None]
        ds = xr.Dataset(found, attrs={"profile": "drawn"}).set_coords([*factors])
        runs = [", ".join(key) for key in keys]
        return ds.assign_coords(run=runs, replicate=range(replicates))

    return draw


def evidence(
    claim: Claim, rng: np.random.Generator, *, true: bool, replicates: int = 6
) -> xr.Dataset:
    """Draw a group in which a claim is true, or false, on its threshold or beyond."""
    comparison = claim.comparison
    verb, measure = comparison.verb, comparison.measure
    tasks, lengths = _tasks(comparison)
    value = _quantity(claim, rng, true)
    if not measure:
        errors = verb in ("ratio", "steps_needed", "longer", "share_of_chance", "memoryless")
        measure = "error" if errors else "accuracy"
    _, middle, guess, unit, spread = MEASURES[measure]
    spread *= 1 if true else 4
    first = _networks(comparison)
    if verb in ("trend", "peak", "span", "decades", "power_law"):
        level = dict.fromkeys(first, middle)
    elif verb == "deviation":
        middle = comparison.paper_accuracy or middle
        level, spread = dict.fromkeys(first, middle), value
    elif verb in ("over_chance", "share_of_chance", "memoryless"):
        learned = [comparison.control, "another"]
        level = {NetworkName(label=name): middle for name in learned if name not in ("", "any")}
        level |= dict.fromkeys(first, guess + value if verb == "over_chance" else guess * value)
    else:
        sign = 1 if measure == "accuracy" else -1
        ratio = verb in ("ratio", "longer")
        level = _levels(_pairs(comparison), middle, value if ratio else sign * unit * value, ratio)
    special = level
    if verb in ("steps_needed", "longer", "gain", "decay"):
        level = dict.fromkeys(level, middle)
    scores = {}
    for name, score in level.items():
        for part in (name, *name.pooled):
            for task in [part.task] if part.task else tasks:
                if part.best:  # two levels, of which the first is no good
                    worse = score - 20 if measure == "accuracy" else 2 * score
                    scores[f"{part.label}, {part.best}=1", task] = worse
                    scores[f"{part.label}, {part.best}=2", task] = score
                else:
                    scores[part.label, task] = score
    for _, task in scores:
        lengths.setdefault(task, 100 * (len(lengths) + 1))
    how = {"spread": spread, "measure": measure, "guess": guess, "time_steps": lengths}
    how |= {"padding": [8.0] * len(scores), "test_sequences": 10**6 if true else 4000}
    level = []
    for label, task in scores:
        named = re.search(r", (?:dt|alpha|start)=([\d.]+)", label)
        level.append(float(named[1]) if named else comparison.paper_dt.get(label, 0.19))
        lengths[task] = comparison.paper_length or lengths[task]
    factors = {"dt": level, "alpha": level, "start": level}
    ds = drawn(scores, **how, **factors)(rng, replicates)
    ds = ds.assign(steps=ds["steps"].clip(np.nan_to_num(comparison.steps)))
    if verb in ("over_chance", "share_of_chance"):  # the same at three learning rates
        parts = []
        for rate in (0.03, 0.01, 0.1):
            part = ds.assign(learning_rate=("run", np.full(ds.sizes["run"], rate)))
            names = [f"{run}, {rate:g}" for run in ds["run"].values]
            parts.append(part.assign_coords(run=names))
        ds = xr.concat(parts, "run", data_vars="minimal")
    if verb in ("steps_needed", "longer"):
        return _solving(ds, special, verb, value, rng)
    if verb in ("gain", "decay"):
        return _gains(ds, _pairs(comparison), verb, value, rng)
    if verb == "memoryless":
        loss = value * 10 * math.log(8) / ds["time_steps"] * (1 + 0 * ds["test_loss"])
        return ds.assign(test_loss=loss * rng.uniform(0.97, 1.03, loss.shape))
    if verb == "trend":
        slope = ds["time_steps"] / ds["time_steps"].max() * (30 if true else 0)
        noisy = ds["test_metric"] + 0.02 * rng.standard_normal(ds["test_metric"].shape)
        noisy = noisy + slope / 100
        return ds.assign(test_metric=noisy.transpose(*RECORD))
    if verb in ("peak", "span", "decades", "power_law"):
        return _stepping(ds, verb, value, true, rng)
    return ds


def _tasks(comparison) -> tuple[list[str], dict[str, int]]:
    """Return the names of tasks that a claim is about, and their lengths if it asks for them."""
    condition = comparison.tasks_where
    if condition is None:
        return list(comparison.tasks), {}
    if condition.column == "padding":
        return ["Pad8x", "Pad12x"], {}
    lengths = [2000, 5000] if math.isinf(condition.at_most) else [250, 500, 2000]
    return [f"N={n}" for n in lengths], {f"N={n}": n for n in lengths}


def _networks(comparison) -> list[NetworkName]:
    return list(comparison.networks) or [first for first, _ in comparison.pairs]


def _pairs(comparison) -> list[tuple[NetworkName, NetworkName | None]]:
    if comparison.pairs:
        return list(comparison.pairs)
    others = comparison.others
    if others == "all":
        others = [NetworkName(label=name) for name in ("other", "another")]
    return list(product(comparison.networks, others or [None]))


def _quantity(claim: Claim, rng, true: bool) -> float:
    """Return a value well inside the claim's region, or on its threshold or beyond."""
    verb, region = claim.comparison.verb, claim.region
    ratio = verb in RATIOS
    if true and region.bounded:
        if ratio:
            return math.sqrt(region.above * region.below)
        return (region.above + region.below) / 2
    if math.isfinite(region.above):
        border, sign = region.above, 1
    else:
        border, sign = region.below, -1
    if not true:
        if region.bounded and rng.uniform() < 0.5:
            border, sign = region.below, -1
        sign = -sign
    if verb == "deviation":
        return border * (0.15 if true else rng.uniform(2, 4))
    if ratio:
        return border * math.exp(sign * (0.7 if true else rng.uniform(0, 0.5)))
    if verb == "apart" and sign < 0:
        return 0.02 * border if true else border - rng.uniform(0, 0.5 * border)
    size = {"over_chance": 5.0, "gain": 1.0, "decades": 1.0}.get(verb, 8.0)
    return border + sign * size * (1 if true else rng.uniform(0, 1))


def _levels(pairs, middle, value, ratio) -> dict[NetworkName, float]:
    """Return scores such that each of a pair is `value` times, or so much above, the other."""
    level = {}
    for first, second in pairs:
        if first in level and second not in level:
            level[second] = level[first] / value if ratio else level[first] - value
        level.setdefault(second, middle)
        level.setdefault(first, level[second] * value if ratio else level[second] + value)
    level.pop(None, None)
    return level


def _solving(ds, special, verb, value, rng) -> xr.Dataset:
    """Return `ds` with 200 records in which each network solves the adding problem."""
    at = np.array([value if verb == "steps_needed" else 100.0] * ds.sizes["run"])
    if verb == "longer":
        base = min(special.values())
        for run, label in enumerate(ds["label"].values):
            longest = max(ds["time_steps"].values) == ds["time_steps"].values[run]
            length = "longest" if longest else "shortest"
            names = [NetworkName(label=label), NetworkName(label=label, length=length)]
            found = [special[name] for name in names if name in special]
            at[run] = 100 * (found[0] if found else base) / base
    shape = (ds.sizes["run"], ds.sizes["replicate"], 200)
    step = np.broadcast_to(np.arange(1, 201) * max(at.max() / 100, 1.0), shape)
    first = at[:, None, None] * np.exp(0.03 * rng.standard_normal((*shape[:2], 1)))
    loss = np.where(step < first, 0.1, 0.002)
    records = {"step": (RECORD, step), "records": (RECORD[:2], np.full(shape[:2], 200))}
    for part in ("test", "validation"):
        records |= {f"{part}_loss": (RECORD, loss), f"{part}_metric": (RECORD, np.sqrt(loss))}
    return ds.drop_dims("record").assign(records | {"guess_metric": ("run", [1.0] * shape[0])})


def _gains(ds, pairs, verb, value, rng) -> xr.Dataset:
    ((first, second),) = pairs
    beside = 0.5 if second else 0.0
    above = beside * value if beside and verb == "decay" else beside + value
    of = {first.label: above} | ({second.label: beside} if second else {})
    gain = np.array([of.get(label, 0.0) for label in ds["label"].values])[:, None, None]
    noise = rng.normal(0, 0.02, (2, *ds["test_loss"].shape))
    return ds.assign(gain_first=(RECORD, gain + noise[0]), gain_last=(RECORD, noise[1]))


def _stepping(ds, verb, value, true, rng) -> xr.Dataset:
    """Return `ds` with time steps of two kinds whose shares by class follow a law."""
    low, high = -3.0, 0.3
    if verb == "span":
        largest = float(ds["dt"].max())
        low, high = np.log10(largest / value), np.log10(largest)
    if verb == "decades":
        low, high = -value, 0.0
    decade = np.round(np.arange(-6, 1, CLASS), 1)
    at = 10 ** (decade + CLASS / 2)
    inside = (np.log10(at) > low) & (np.log10(at) < high)
    law = inside.astype(float)
    if verb == "peak":
        law = inside * (0.1 * at + true * np.exp(-(np.log10(at / 0.02) ** 2) / 0.02))
    if verb == "power_law":
        law = inside * at * (at**-1.5 if true else np.exp(-5 * at))
    shape = (ds.sizes["run"], ds.sizes["replicate"], 1, 2, len(decade))
    stages = [stage * rng.uniform(0.9, 1.1, shape) for stage in ((at > 0.3) & (at < 0.5), law)]
    shares = np.concatenate(stages, axis=2)
    dims = ("run", "replicate", "stage", "scale", "decade")
    ds = ds.assign(time_step_share=(dims, shares / shares.sum(-1, keepdims=True)))
    return ds.assign_coords(stage=["untrained", "trained"], scale=[0, 1], decade=decade)


def factorial(status: np.ndarray | int = COMPLETED, examples: int = 1000, **levels) -> xr.Dataset:
    """Return results of a factorial design in which nothing is measured yet."""
    one = {"width": 8, "learning_rate": 0.1, "training_length": 1, "dataset": "mnist"}
    one |= {"order": "sequential", "noise": "none", "replicate": 0}
    levels = {name: [level] for name, level in one.items()} | levels
    ds = empty(levels | {"epoch": [*range(1, levels["training_length"][0] + 1)]}, profile="drawn")
    ds["status"][:], ds["epochs_completed"][:] = status, levels["training_length"][0]
    ds["examples"][:], ds["classes"][:], ds["largest_class"][:] = examples, 2, 0.1
    return ds


def failing(**rate: float):
    """Return a function that draws results in which architectures fail at these rates."""
    names = [*ROBUST, *FRAGILE]
    rates = np.array([rate.get(name, 0.0) for name in names]).reshape(-1, *[1] * 7)

    def draw(rng):
        status = np.where(rng.random((len(names), *[1] * 6, 400)) < rates, DIVERGED, COMPLETED)
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
    if not decisive:  # hardly anything is left on test data, the last split, against the paper
        metric[..., 1, :] = 10 * other[..., 1, :] - 2 * common[..., 1, :]
    ds["accuracy"][:], ds["adjoint_first"][:] = 0.5 + 0.1 * common, metric
    ds["adjoint_last"][:] = 0.0
    return Evidence(ds)


def deciding(decisive: bool):
    """Return a function that draws results in which the metric decides accuracy, or does not."""
    return lambda rng: _deciding(decisive, int(rng.integers(2**31)))


def linear(rng, emphasised=1.0, cost=0.0) -> xr.Dataset:
    """Draw networks of which a share emphasizes the input at 50; the penalty costs accuracy."""
    replicates, times = 20, np.array([49, 50, 51])
    shape, dims = (1, 2, replicates), ("place", "orthogonality", "replicate")
    emphasis = rng.standard_normal((*shape, len(times))) / 10
    emphasis[..., 1] = np.where(rng.random(shape) < emphasised, 1.0, 0.0)
    emphasis[..., 2] += 0.5
    accuracy = 0.9 + 0.05 * rng.standard_normal(shape)
    accuracy[:, 1] -= cost
    found = {"emphasis": ((*dims, "time"), emphasis), "accuracy": (dims, accuracy)}
    found |= {"departure": (dims, np.ones(shape)), "status": (dims, np.full(shape, COMPLETED))}
    levels = {"place": [50], "orthogonality": [0.0, 0.1], "replicate": range(replicates)}
    settings = '{"steps": 1, "batch_size": 1, "width": 4, "test_size": 4000}'
    return xr.Dataset(found, levels | {"time": times}, {"settings": settings})


def coadjoint(rng, rises=True, learned=1.0) -> xr.Dataset:
    """Draw networks whose adjoints become more even with kappa, or not; a share learns."""
    kappas, replicates = np.array([0.0, 0.1, 1.0, 5.0]), 12
    shape = (len(kappas), replicates)
    spread = np.where(rises, 4.0 - np.arange(len(kappas)), 2.0)[:, None]
    spread = spread + 0.5 * rng.standard_normal(shape)
    accuracy = (RECORD, np.where(rng.random((*shape, 1)) < learned, 1.0, 0.5))
    adjoint = -abs(spread)[:, :, None, None] * np.linspace(1, 0, 5)
    make = drawn({f"RNN, kappa={kappa:g}": 50.0 for kappa in kappas}, spread=1, kappa=[*kappas])
    found = {"adjoint_norm": ((*RECORD[:2], "sequence", "time"), adjoint), "record": [0]}
    found |= {"validation_metric": accuracy, "test_metric": accuracy}
    ds = make(rng, replicates).assign(found)
    ds["status"][0, 8:], ds["test_metric"][0, 8:] = NOT_PLANNED, np.nan
    return ds


def latching(rng, latch=0.9, longer=1.0, steady=1.0, peak=1.0) -> xr.Dataset:
    """Draw results of 24 trainings of which these shares fulfil each claim."""
    trainings, times, place = 24, np.array([20, 22, 23, 24, 800]), 23
    fulfilled = (rng.random(trainings) < rate for rate in (latch, longer, steady, peak))
    latched, longer, steady, peak = fulfilled
    error = np.where(np.stack([latched, longer], 1), 0.001, 0.3)
    adjoint = -np.where(steady, 0.0, 10.0)[:, None] * (800 - times) / 777
    adjoint[:, times == place] += np.where(peak, 0.3, 0.0)[:, None]
    settings = {"horizon": 40, "longer": [800], "place": place, "tolerance": 0.01}
    settings |= {"training_steps": 1, "batch_size": 1, "width": 4, "test_size": 1}
    training = ("training", "horizon")
    medians = (*training, "time"), np.stack([adjoint, adjoint], 1)
    levels = {"training": range(trainings), "horizon": [40, 800], "time": times}
    found = {"error": (training, error), "adjoint_median": medians}
    return xr.Dataset(found, levels, {"settings": json.dumps(settings)})


def sweep(rng, together=False, networks=24) -> xr.Dataset:
    """Draw a sweep in which accuracy is unrelated to the metric, or rises near zero."""
    shape, stage = (2 * networks, 1, 1), (*RECORD[:2], "stage")
    metric = 5 * rng.standard_normal(shape)
    accuracy = rng.standard_normal(shape) - (abs(metric) if together else 0)
    levels = {"padding": [0, 3] * networks, "dataset": [chapter2.PAPERS_DATA[1]] * 2 * networks}
    start = np.repeat(["orthogonal", "glorot"], networks).tolist()
    levels |= {"kappa": [0.0] * 2 * networks, "initialisation": start}
    make = drawn({f"{SWEEP}, {n}": 50.0 for n in range(2 * networks)}, spread=1, **levels)
    ends = {"adjoint_norm_first": (stage, metric), "adjoint_norm_last": (stage, 0 * metric)}
    return make(rng, 1).assign(ends | {"test_metric": (RECORD, accuracy), "stage": ["trained"]})


JUDGES = {
    "factorial": attempts.judge_attempts,
    "factorial, by task": tasks.judge_tasks,
    **{f"factorial, models {family}": judges for family, judges in models.JUDGES.items()},
    "linear_gaps": chapter2.judge_linear_gaps,
    "coadjoint_gaps": chapter2.judge_coadjoint_gaps,
    "latching": chapter2.judge_latching,
    "padding": chapter2.judge_padding,
}
"""By the results that they judge."""

_AGAINST_NO_EFFECT = ("terminal-stronger", "terminal-mild", "reverse-terminal-stronger")
by_task = with_metric(
    lambda rng, a: 200 * (a.mean((0, 1, 2, 3, 7), keepdims=True) - 0.5) + rng.random(a.shape)
)
FALSE = {
    "diss-1.5.2-robust": failing(unicornn=0.02),
    "diss-1.5.2-fragile": failing(lstm=0.1, rnn=0.1, gru=0.1),
    "diss-1.4-error-rate": failing(antisymmetric=0.08),
    **dict.fromkeys(COUNTEREXAMPLES, with_metric(poor_vanish)),
    "diss-3.4-basic-rnn": with_metric(others_nearer),
    "diss-3.4-inverse": with_metric(nearer_is_better),
    **dict.fromkeys(tasks.judge_tasks, alike),
    **{
        claim: deciding(claim.removeprefix("diss-3.5-") not in _AGAINST_NO_EFFECT)
        for judges in models.JUDGES.values()
        for claim in judges
    },
    # Reversed, or a relation between tasks without one within them.
    "diss-3.5-terminal-sign": lambda rng: rng.choice([deciding(False), by_task])(rng),
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
TRUE = {
    **dict.fromkeys(("diss-1.5.2-robust", "diss-1.4-error-rate"), failing()),
    "diss-1.5.2-fragile": failing(**dict.fromkeys(FRAGILE, 0.2)),
    **dict.fromkeys(COUNTEREXAMPLES, with_metric(partial(poor_vanish, below=1.0))),
    "diss-3.4-basic-rnn": with_metric(lambda rng, a: others_nearer(rng, a)[::-1]),
    "diss-3.4-inverse": with_metric(lambda rng, a: -60 * a - rng.random(a.shape)),
    **dict.fromkeys(chapter2.judge_linear_gaps, lambda rng: linear(rng, cost=0.1)),
    **dict.fromkeys(chapter2.judge_coadjoint_gaps, coadjoint),
    **dict.fromkeys(chapter2.judge_latching, latching),
    "diss-2.8-relation": lambda rng: sweep(rng, together=True),
    "diss-2.8-no-relation": lambda rng: sweep(rng, networks=500),
}
IN_NOTEBOOKS = {
    "irnn-3.2-smooth": lambda rng: proportion(int(rng.binomial(200, 1 / 3)), 200),
    "irnn-3.2-surface": lambda rng: proportion(int(rng.binomial(200, 1 / 3)), 200),
    "irnn-a.6.6-negative": lambda rng: mean(rng.normal(0.9, 0.02, 8)),
}
"""What notebooks 54 and 55 count: a third of the paths, nine tenths of the eigenvalues."""
