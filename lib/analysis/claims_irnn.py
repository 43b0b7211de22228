"""What the trained networks say of the incremental RNN's claims.

A claim is judged on the reading that is adopted (notebook 69). On adding and copying, where the sign of the remark after theorem 1
learns, too, the interval covers what either reading gives: choosing one by its results would judge the choice. What the text says of
its equations as printed is judged on these.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import xarray as xr

from lib.analysis.incremental import READINGS, gains
from lib.analysis.network_claims import Networks, drawn, times_as_long
from lib.analysis.networks import chosen_rates, in_measure, steps_to, trainings
from lib.results.claims import (
    Finding,
    Judges,
    Scale,
    difference,
    geometric_mean,
    mean,
    smallest,
    unable,
)
from lib.results.schema import COMPLETED

HAR, PIXEL, PERMUTED = "HAR-2", "pixel-MNIST", "permuted MNIST"
NOISY, NOISY_CIFAR = "noisy MNIST", "noisy CIFAR-10"
REVIEWS, WORDS = "Yelp-5", "PTB words"
BASELINES = ("FastRNN", "RNN", "LSTM", "Antisymmetric")
ADDING, COPYING = "adding 200", "copying 200"
SOLVED = 0.01
"""Mean squared error below which the adding problem is solved."""

activity, memory, images = Judges("activity"), Judges("irnn_memory"), Judges("irnn_images")
texts, pilot = Judges("irnn_texts"), Judges("irnn_pilot")


def _lead(ds: xr.Dataset, task: str, label: str, *others: str) -> Finding:
    """Return by how many points a network leads others on a task, the smallest of its leads."""
    return Networks(ds, task).leads(label, others)


# ---- activities --------------------------------------------------------------------------------------------------


def _har(**scores: float):
    """Return how to draw HAR-2 with these accuracies, by the last letters of the label, and gains of one."""
    labels = [*BASELINES, "iRNN K=1", "iRNN K=5", "iRNN K=1, sigmoid", "iRNN K=5, sigmoid"]
    names = {"rnn": "RNN", "k1": "iRNN K=1", "k5": "iRNN K=5", "s5": "iRNN K=5, sigmoid"}
    named = {names[key]: value for key, value in scores.items()}
    draw = drawn({(label, HAR): named.get(label, 93) for label in labels}, spread=0.4)

    def with_gains(rng: np.random.Generator) -> xr.Dataset:
        ds = draw(rng)
        shape = ds["test_metric"].shape
        ones = {
            name: (("run", "replicate", "record"), rng.normal(-2, 0.05, shape))
            for name in ("gain_first", "gain_last", "adjoint_first")
        }
        return ds.assign(ones)

    return with_gains


@activity.judge("irnn-4.3.4-baselines", false=_har(k1=92.9))
def one_step_leads(ds: xr.Dataset) -> Finding:
    return _lead(ds, HAR, "iRNN K=1", *BASELINES)


@activity.judge("irnn-4.3.4-k", false=_har(k5=92.9))
def more_steps_help(ds: xr.Dataset) -> Finding:
    return _lead(ds, HAR, "iRNN K=5", "iRNN K=1")


@activity.judge("irnn-a.6.9-sigmoid", false=_har(s5=92.9))
def more_steps_help_sigmoid(ds: xr.Dataset) -> Finding:
    return _lead(ds, HAR, "iRNN K=5, sigmoid", "iRNN K=1, sigmoid")


def _gain(ds: xr.Dataset, label: str) -> Finding:
    """Return log10 of the norm of dh_T/dh_1, mean over the records of a training."""
    networks = Networks(ds, HAR)
    if missing := networks.missing(label):
        return missing
    frame = gains(chosen_rates(ds))
    frame = frame[(frame["label"] == label) & (frame["task_label"] == HAR)]
    return mean(frame.groupby("replicate")["first"].mean(), networks.scale(label))


@activity.judge("irnn-a.6.7-rnn", false=_har())
def gradient_of_the_rnn_vanishes(ds: xr.Dataset) -> Finding:
    return _gain(ds, "RNN")


@activity.judge("irnn-a.6.7-irnn", false=_har())
def gradient_of_irnn_stays(ds: xr.Dataset) -> Finding:
    return _gain(ds, "iRNN K=5")


# ---- adding and copying ------------------------------------------------------------------------------------------

COMPETING = (
    "RNN",
    "LSTM",
    "FastRNN, eta=0.01",
    "FastRNN, eta=0.001",
    "Antisymmetric, epsilon=0.001",
    "Antisymmetric, epsilon=0.1",
)


def _memory(first: Mapping[str, float], *, copying: float = 0.12, apart: Mapping[str, float] = {}):
    """Return how to draw adding at T = 200, solved at these steps by label, with these gains, and copying."""
    labels = [*COMPETING, "iRNN K=1", "iRNN K=5", "iRNN K=10"]

    def draw(rng: np.random.Generator, replicates: int = 6) -> xr.Dataset:
        keys = [*((label, ADDING) for label in labels), ("iRNN K=5", COPYING)]
        ds = drawn(dict.fromkeys(keys, 0.1), spread=0.1, measure="error", guess=0.408)(
            rng, replicates
        )
        runs, step = ds.sizes["run"], np.arange(50, 1001, 50)
        shape = (runs, replicates, step.size)
        solved = np.array([first.get(label, 700.0) for label in labels] + [1e9])[:, None]
        solved = solved * rng.normal(1, 0.05, (runs, replicates))
        loss = np.where(step < solved[:, :, None], 0.1, 0.002)
        loss[-1] = copying * rng.uniform(0.97, 1.03, shape[1:])
        gain = np.array([apart.get(label, 0.0) for label in labels] + [0.0])[:, None, None]
        noise = rng.normal(0, 0.02, (2, *shape))
        record = ("run", "replicate", "record")
        return ds.drop_dims("record").assign(
            {
                "time_steps": ("run", [200] * (runs - 1) + [220]),
                "records": (record[:2], np.full(shape[:2], step.size)),
                "step": (record, np.broadcast_to(step, shape)),
                "test_loss": (record, loss),
                "test_metric": (record, np.sqrt(loss)),
                "validation_loss": (record, np.full(shape, np.nan)),
                "validation_metric": (record, np.full(shape, np.nan)),
                "gain_first": (record, gain + noise[0]),
                "gain_last": (record, gain / 2 + noise[1]),
                "adjoint_first": (record, noise[0]),
            }
        )

    return draw


class _Memory:
    """How long the networks of the adding problem took, and how large the experiment was."""

    def __init__(self, ds: xr.Dataset, task: str = ADDING) -> None:
        table = steps_to(chosen_rates(ds), SOLVED)
        self.table = table[table["task_label"] == task]
        self.solved = bool(np.isfinite(self.table["steps"]).any())
        self.networks = Networks(ds, task)

    def steps(self, label: str) -> Finding:
        """Return the mean number of steps of a network, up to the spacing of its records; what never solved it counts at its end."""
        rows = self.table[self.table["label"] == label]
        ends = np.minimum(rows["steps"], rows["trained"])
        half = float((ends - rows["before"]).mean()) / 2
        found = mean((ends + rows["before"]) / 2, self.networks.scale(label))
        return replace(found, low=found.low - half, high=found.high + half)

    def refusal(self, *labels: str) -> Finding | None:
        """Return why nothing can be said, or None."""
        if missing := self.networks.missing(*labels):
            return missing
        return None if self.solved else unable("no network solves the problem")

    def sooner(self, label: str, than: str) -> Finding:
        """Return how many times the steps of a network another takes."""
        if refused := self.refusal(label, than):
            return refused
        pair = (self.table[self.table["label"] == name] for name in (than, label))
        return times_as_long(*pair, self.networks.scale(label))


MINUS = ", minus"


def _read_as_minus(ds: xr.Dataset) -> xr.Dataset:
    """Return `ds` with the networks of the remark's sign as iRNN, in place of those of the adopted reading."""
    labels = ds["label"].to_series()
    ours = labels.str.startswith("iRNN") & ~labels.str.endswith("printed")
    kept = ds.isel(run=np.flatnonzero(~ours | labels.str.endswith(MINUS)))
    return kept.assign(label=("run", [name.removesuffix(MINUS) for name in kept["label"].values]))


def _judge(claim: str, *, false: Callable[[np.random.Generator], xr.Dataset]):
    """Make a function the judge of a claim on adding and copying, under both readings that learn."""

    def add(find: Callable[[xr.Dataset], Finding]) -> Callable[[xr.Dataset], Finding]:
        def judge(ds: xr.Dataset) -> Finding:
            found = {"adopted": find(ds), "minus": find(_read_as_minus(ds))}
            known = {name: one for name, one in found.items() if not math.isnan(one.low)}
            if not known:
                return found["adopted"]
            first = next(iter(known.values()))
            return replace(
                first,
                low=min(one.low for one in known.values()),
                high=max(one.high for one in known.values()),
                note="; ".join(f"{READINGS[name]}: {one.value:.3g}" for name, one in known.items()),
            )

        return memory.add(claim, judge, false=false)

    return add


@_judge("irnn-4.2-300", false=_memory({"iRNN K=10": 400}))
def ten_steps_converge(ds: xr.Dataset) -> Finding:
    found = _Memory(ds)
    return found.refusal("iRNN K=10") or found.steps("iRNN K=10")


@_judge("irnn-4.2-twice", false=_memory({"iRNN K=10": 600}))
def others_take_longer(ds: xr.Dataset) -> Finding:
    found = _Memory(ds)
    return smallest(found.sooner("iRNN K=10", other) for other in COMPETING)


@_judge("irnn-4.2-faster", false=_memory({"iRNN K=5": 705, "iRNN K=10": 720}))
def more_steps_converge_sooner(ds: xr.Dataset) -> Finding:
    found = _Memory(ds)
    pairs = (("iRNN K=10", "iRNN K=5"), ("iRNN K=5", "iRNN K=1"))
    return smallest(found.sooner(*pair) for pair in pairs)


@_judge("irnn-4.3.1-fastrnn", false=_memory({}))
def fastrnn_takes_twice(ds: xr.Dataset) -> Finding:
    return _Memory(ds).sooner("iRNN K=5", "FastRNN, eta=0.01")


def _scale(ds: xr.Dataset, label: str, task: str = ADDING) -> Scale:
    return Networks(ds, task).scale(label)


def _ratios(ds: xr.Dataset, label: str, name: str) -> np.ndarray:
    """Return the mean over records of a norm's log10, one a training, in absolute value.

    Of the adopted reading alone: with the minus sign the Jacobian is the identity whatever the data, which is no evidence.
    """
    frame = gains(chosen_rates(ds))
    frame = frame[(frame["label"] == label) & (frame["task_label"] == ADDING)]
    found = frame.groupby("replicate")[name].mean().abs().to_numpy()
    return found.round(
        9
    )  # a Jacobian that is the identity differs from it by rounding, which is no effect


@memory.judge("irnn-4.2-gradient", false=_memory({}, apart={"iRNN K=10": -1}))
def more_steps_improve_gradients(ds: xr.Dataset) -> Finding:
    one, ten = (_ratios(ds, f"iRNN K={k}", "ratio") for k in (1, 10))
    if not len(one) or not len(ten):
        return unable(f"no gradients were recorded on {ADDING}")
    return difference(one, ten, _scale(ds, "iRNN K=10"))


@memory.judge("irnn-a.6.8-identity", false=_memory({}, apart={"iRNN K=10": -2}))
def ten_steps_give_the_identity(ds: xr.Dataset) -> Finding:
    found = _ratios(ds, "iRNN K=10", "ratio")
    if not len(found):
        return unable(f"no gradients were recorded on {ADDING}")
    return mean(found, _scale(ds, "iRNN K=10"))


@_judge("irnn-4.3.1-copy", false=_memory({}))
def irnn_copies(ds: xr.Dataset) -> Finding:
    """In units of the cross entropy without memory, 10 ln 8 / (T + 20)."""
    places = np.flatnonzero((ds["label"] == "iRNN K=5") & (ds["task_label"] == COPYING))
    if not len(places):
        return unable(f"iRNN K=5 was not trained on {COPYING}")
    run = ds.isel(run=places[0])
    memoryless = 10 * math.log(8) / int(run["time_steps"])
    last = run["test_loss"].isel(record=run["records"] - 1)
    ended = last.where(run["status"] == COMPLETED, memoryless)  # what diverged copies nothing
    return geometric_mean(ended.values / memoryless, _scale(ds, "iRNN K=5", COPYING))


# ---- images ------------------------------------------------------------------------------------------------------


def _images(**scores: float):
    labels = [*BASELINES, "iRNN K=1", "iRNN K=3"]
    names = {"k1": "iRNN K=1", "k3": "iRNN K=3", "lstm": "LSTM"}
    levels = {names[key]: value for key, value in scores.items()}
    tasks = (PIXEL, PERMUTED, NOISY, NOISY_CIFAR)
    keys = {(label, task): levels.get(label, 60) for label in labels for task in tasks}
    return drawn(keys, spread=1)


@images.judge("irnn-4.3.2-antisymmetric", false=_images(k3=50))
def matches_antisymmetric(ds: xr.Dataset) -> Finding:
    return _lead(ds, PIXEL, "iRNN K=3", "Antisymmetric")


@images.judge("irnn-4.3.2-permuted", false=_images(k1=59.9))
def leads_on_permuted(ds: xr.Dataset) -> Finding:
    return _lead(ds, PERMUTED, "iRNN K=1", "FastRNN", "LSTM", "Antisymmetric")


@images.judge("irnn-4.3.3-lstm", false=_images(lstm=40))
def lstm_does_not_learn_noisy(ds: xr.Dataset) -> Finding:
    networks = Networks(ds, NOISY)
    if networks.poor() == networks.labels():
        return unable(f"no network learns {NOISY}", networks.scale("LSTM"))
    return networks.over_guess("LSTM")


@images.judge("irnn-4.3.3-cifar", false=_images(k1=59.9))
def leads_on_noisy(ds: xr.Dataset) -> Finding:
    return _lead(ds, NOISY_CIFAR, "iRNN K=1", "FastRNN", "LSTM", "Antisymmetric")


# ---- texts -------------------------------------------------------------------------------------------------------


@texts.judge(
    "irnn-a.6.2-yelp",
    false=drawn({("iRNN K=1", REVIEWS): 50, ("iRNN K=3", REVIEWS): 49.9}, spread=1, guess=30),
)
def more_steps_help_on_reviews(ds: xr.Dataset) -> Finding:
    return _lead(ds, REVIEWS, "iRNN K=3", "iRNN K=1")


@texts.judge(
    "irnn-a.6.4-ptb",
    false=drawn(
        {("iRNN K=1", WORDS): 131.0, ("FastRNN", WORDS): 130.0, ("RNN", WORDS): 140.0},
        spread=0.02,
        measure="perplexity",
        guess=700,
    ),
)
def fewer_words_to_choose_from(ds: xr.Dataset) -> Finding:
    return Networks(in_measure(ds, "perplexity"), WORDS).leads("iRNN K=1", ("FastRNN", "RNN"))


# ---- the pilot ---------------------------------------------------------------------------------------------------

AS_PRINTED = "zero + (8) low K=5, text weights"


@pilot.judge(
    "irnn-4.3.1-easily",
    false=drawn({(AS_PRINTED, "adding 50"): 0.4}, spread=0.02, measure="error", guess=0.408),
)
def printed_learns(ds: xr.Dataset) -> Finding:
    """In units of the squared error of guessing, on the first of the pilot's adding problems."""
    rows = trainings(ds)
    rows = rows[rows["label"] == AS_PRINTED]
    task = rows["task_label"].iloc[0]
    error = (rows["test"].fillna(rows["guess_metric"]) / rows["guess_metric"]) ** 2
    return geometric_mean(error, Networks(ds, task).scale(AS_PRINTED))
