r"""Latching (3.3.2 and 3.6): what does a small network do over time that remembers one sign?

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, Figures 3.6 to 3.8. The text trains a basic RNN on the
shortest long time gap task, freezes its recurrence and trains the output layer again for each longer task; it names
neither optimiser nor initialisation. What it leaves open, and what is chosen here:

=================== =====================================================================================
optimiser           Adam on fresh sequences, the learning rate falling along a cosine; gradients are clipped
initial weights     TensorFlow's for recurrent layers: W orthogonal, R by Glorot and Bengio, b zero
output layers       of the longer tasks: logistic regression on the last states, solved to its optimum
number of networks  the text shows one; here several are trained, and all are kept
=================== =====================================================================================
"""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar, Self

import numpy as np
import torch
import xarray as xr
from longrnn.cells import make_cell
from longrnn.probes.adjoint import adjoint_norms
from longrnn.probes.lyapunov import largest_exponent
from pydantic import Field, model_validator
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from study.config.recipe import Recipe
from study.config.section import LearningRate, Positive, PositiveDraws
from study.results.latching import LATCHING
from study.results.schema import COMPLETED
from study.tasks.long_time_gap import draw_signs
from study.training.batches import Fresh
from study.training.checkpoint import Checkpoint
from study.training.job import Job, Results, seeds_of, torch_seed
from study.training.loop import train
from study.training.measures import summed_loss
from study.training.model import Model
from study.training.record import Record
from study.training.scores import cross_entropy, likeliest, tensors

_PENALTY = 1e-4
"""Weight of the squared output weights: states that can be separated would let them grow without end."""


class Latching(Job):
    """Independent trainings of the basic RNN on the long time gap task, and longer tasks for its output layer.

    The label is the sign of the input at `place`; `horizon` is the length of the training sequences, `longer` are those
    for which only the output layer is trained again. A training ends when the error on `check_size` fresh sequences is below
    half the `tolerance`, looked up every `check_every` steps, or after `training_steps`. Gradients longer than `clip` are
    shortened to it. The output layers are fitted to `fit_size` sequences, errors are those of `test_size` others, and
    `probe_size` of these are followed step by step.
    """

    section: ClassVar = "latching"
    held: ClassVar = LATCHING
    cells: ClassVar = ("rnn",)
    width: Positive
    place: Positive
    horizon: Positive
    longer: tuple[Positive, ...]
    learning_rate: LearningRate
    training_steps: Positive
    batch_size: Positive
    clip: Annotated[float, Field(gt=0, le=1e9)]
    tolerance: Annotated[float, Field(gt=0, lt=0.5)]
    check_every: Positive
    check_size: PositiveDraws
    fit_size: PositiveDraws
    test_size: PositiveDraws
    probe_size: PositiveDraws

    title = property(lambda job: f"training {job.replicate}")
    training = property(lambda job: job.replicate)
    horizons = property(lambda job: (job.horizon, *job.longer))

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        places = (self.place, *self.horizons)
        if places != tuple(sorted(set(places))):
            raise ValueError(
                f"expected the place before the end of the horizon, and lengths above it, each longer than the last, got {self.place}, "
                f"{self.horizon} and {list(self.longer)}"
            )
        if self.probe_size > self.test_size:
            raise ValueError(
                f"probe_size is {self.probe_size}; expected at most test_size, {self.test_size}"
            )
        return self

    def compute(self, prepared: None, checkpoint: Checkpoint) -> dict[str, np.ndarray]:
        """Train one network, fit its output layers, and measure; return the variables of one training by name.

        Every training is measured, whether or not it reached the tolerance. A loss that is not finite ends it as diverged,
        without measurements.
        """
        drawing, checking, measuring = map(np.random.default_rng, seeds(self)[1:])
        model, draw = start(self), partial(draw_signs, self.place, self.horizon)

        @torch.no_grad()
        def look(model: Model) -> dict[str, float]:
            inputs, labels = tensors(draw(self.check_size, checking))
            return {"error": _error(model(inputs), labels)}

        how = {"gradient_clip": self.clip, "cosine": True, "options": {"fused": True}}
        recipe = Recipe(learning_rate=self.learning_rate, steps=self.training_steps, **how)
        batches = Fresh(lambda: tensors(draw(self.batch_size, drawing)), drawing, checking)
        record = Record(
            look,
            range(self.check_every, self.training_steps + 1, self.check_every),
            # Half of it: other sequences' error is then below the tolerance, too.
            stop=lambda row: row["error"] < self.tolerance / 2,
        )
        done = train(
            model,
            batches,
            lambda model, inputs, labels: cross_entropy(model(inputs), labels),
            recipe,
            record=record,
            checkpoint=checkpoint,
        )
        shape = (len(self.horizons), self.probe_size, max(self.horizons))
        found = {
            "error": np.full(len(self.horizons), np.nan),
            "exponent": np.full(self.probe_size, np.nan),
            "states": np.full(shape, np.nan, np.float32),
            "adjoints": np.full(shape, np.nan, np.float32),
        }
        if done.status == COMPLETED:
            model.requires_grad_(False)
            for index, T in enumerate(self.horizons):
                _measure(model, self, T, measuring, index, found)
        return found | {"status": done.status, "steps_completed": done.step}

    @property
    def inner(self) -> dict[str, list]:
        times = list(range(1, max(self.horizons) + 1))
        sequences = list(range(self.probe_size))
        return {"horizon": list(self.horizons), "sequence": sequences, "time": times}

    @classmethod
    def finish(cls, ds: xr.Dataset, designs: Sequence["Latching"], results: Results) -> xr.Dataset:
        """Add the medians over sequences, and all sequences of one example."""
        ds["adjoint_median"].values[:] = [np.median(one["adjoints"], axis=1) for one in results]
        # The smallest error at the worst horizon, the first of equals: figures show it.
        worst = ds["error"].max("horizon").fillna(np.inf)
        chosen = int(ds["training"].values[np.argmin(worst.values)])
        ds["example"] = ds["example"].copy(data=chosen)
        ds["state_norm"].values[:] = results[chosen]["states"]
        ds["adjoint"].values[:] = results[chosen]["adjoints"]
        return ds


def seeds(job: Latching) -> tuple[np.random.SeedSequence, ...]:
    """Return independent seeds: initial weights, training sequences, sequences that check them, measurements."""
    return seeds_of(job, ("replicate", "width", "place", "horizon"), 4)


def start(job: Latching) -> Model:
    """Return the network before training: W orthogonal, R by Glorot and Bengio, b zero, TensorFlow's defaults.

    Its single output is the logit of a positive sign.
    """
    with torch_seed(seeds(job)[0]):
        model = Model(make_cell("rnn", 1, job.width), 1)
        model.cell.start("author")
    return model


def fit_output(states: Tensor, labels: Tensor) -> nn.Linear:
    """Return the logistic regression, in float64, of labels (n,), 0 or 1, on last states x_T, (n, d): the output layer of a longer task."""
    weight = 1 / (2 * len(labels) * _PENALTY)  # of the summed loss beside half the squared weights
    found = LogisticRegression(C=weight, tol=1e-9, max_iter=1000)
    found.fit(states.double().numpy(), labels.numpy())
    layer = nn.Linear(states.shape[1], 1).double()
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(found.coef_))
        layer.bias.copy_(torch.from_numpy(found.intercept_))
    return layer.requires_grad_(False)


def _measure(
    model: Model, job: Latching, T: int, rng: np.random.Generator, index: int, found: dict
) -> None:
    """Fill in error, states and adjoints of one horizon, and for the longest the Lyapunov exponents."""
    cell = model.cell
    draw = partial(draw_signs, job.place, T)
    if job.horizon == T:
        output = copy.deepcopy(model.output).double()
    else:
        inputs, labels = tensors(draw(job.fit_size, rng))
        output = fit_output(cell(model.drive(inputs))[0][-1], labels)
    inputs, labels = tensors(draw(job.test_size, rng))
    u = model.drive(inputs)
    states, _ = cell(u)
    found["error"][index] = _error(output(states[-1].double()), labels)
    probe = slice(job.probe_size)
    u, labels = u[:, probe], labels[probe]
    summed = partial(summed_loss, output, labels)
    norms = adjoint_norms(cell, u, summed)
    found["states"][index, :, :T] = torch.linalg.vector_norm(states[:, probe], dim=2).T
    found["adjoints"][index, :, :T] = norms.readout.T
    if max(job.horizons) == T:
        found["exponent"][:] = largest_exponent(cell, u, start=job.place)


def _error(logits: Tensor, labels: Tensor) -> float:
    """Return the share of wrong signs."""
    return (likeliest(logits) != labels).double().mean().item()
