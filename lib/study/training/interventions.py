r"""Does the decay of adjoint states cause the failure to learn? An experiment on backpropagation.

The dissertation's tenet is that networks fail to learn long-time dependencies because their adjoint
states vanish (L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024,
chapter 3). Its factorial experiment supports it as a correlation. Here the backward pass alone is
changed (`study.training.adjoint_treatments`), in networks whose adjoints keep their norms and in
networks whose adjoints vanish. The information in the sequences lies at the beginning, everywhere
or at the end. All runs of one cell and replicate start from the same weights and see the same
batches, so that treatments can be compared in pairs.

If the tenet is causal, two effects appear when the information lies at the beginning: accuracy
falls with the dose in cells that keep gradients, and renormalised adjoints let the other cells
learn. When it lies at the end, neither treatment matters. Two null controls separate norms from
information: adjoints of the right norm with random signs, and ordinary gradients whose norm,
parameter by parameter, is that of the treated ones (the same effective learning rate).

Written down before the runs, after a pilot with one replicate and fewer steps (LSTM, GRU, basic
RNN, UnICORNN):

1. Beginning: test accuracy falls with the dose in Lipschitz RNN, antisymmetric RNN and UnICORNN, by
   at least .05 at -10.
2. End: no dose changes test accuracy by more than .03 on average over these three cells; the effect
   of -10 at the beginning is larger than at the end.
3. Beginning: renormalised adjoints raise the accuracy of LSTM, GRU and basic RNN by at least .2 on
   average.
4. Both null controls fail to do the same: random signs do not help the LSTM, GRU and basic RNN
   (below half of the gain of 3), and the norms of dose -10 alone cost less than half of what the
   dose costs.

The runs of one cell and location are computed side by side, along a leading run axis, in one pass
whose size belongs to the design. So a result depends on its settings alone.
"""

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from longrnn.cells import make_cell
from pydantic import model_validator
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional as F

from study.config.design import Design
from study.config.network import Architecture
from study.config.section import Factor, LearningRate, Positive, Size, Weight
from study.results.schema import COMPLETED, DIVERGED
from study.tasks import Part, Task, make_task
from study.tasks.located_rows import Deviation, Location
from study.training.adjoint_treatments import AdjointPath, AdjointTreatment, unroll_treated
from study.training.batches import Epochs
from study.training.checkpoint import Checkpoint
from study.training.job import Arrays, Job
from study.training.scores import tensors
from study.training.seeds import seeds, torch_seed

EXPERIMENT = "interventions"


class Treatment(NamedTuple):
    """How the gradient of a step is computed."""

    adjoint: AdjointTreatment
    norms_alone: bool = False
    """Whether the treated gradient only sets the norms, parameter by parameter, and ordinary
    backpropagation the directions."""


PLAIN = AdjointTreatment()
TREATMENTS = MappingProxyType(
    {
        "plain": Treatment(PLAIN),
        "dose -2": Treatment(AdjointTreatment("scaled", -2.0)),
        "dose -5": Treatment(AdjointTreatment("scaled", -5.0)),
        "dose -10": Treatment(AdjointTreatment("scaled", -10.0)),
        "dose -20": Treatment(AdjointTreatment("scaled", -20.0)),
        "dose -40": Treatment(AdjointTreatment("scaled", -40.0)),
        "renormalised": Treatment(AdjointTreatment("renormalised")),
        "random signs": Treatment(AdjointTreatment("random_signs")),
        "norms of dose -10": Treatment(AdjointTreatment("scaled", -10.0), norms_alone=True),
    }
)
"""Treatments by the name that tables and figures print."""


class Interventions(Design):
    """The experiment: cells x locations, and for each of them all treatments x replicates.

    Attributes
    ----------
    cell, location : Factor
        What is crossed, a job each.
    dataset : str
        Prepared data set of square images of one channel.
    networks : int
        Replicates of every treatment.
    learning_rate : dict of str to float
        Learning rate of each cell, chosen for ordinary backpropagation on other seeds.
    width, time_steps, batch_size, steps : int
        Recurrent dimension d, length T, sequences per step, optimizer steps.
    noise : float
        Standard deviation of the noise between the rows.
    gradient_clip : float
        Largest norm of the gradient of a run; 0 for no limit.
    train_size, validation_size, test_size : int
        Sequences of each part; 0 keeps all.
    metric_size : int
        Test sequences on which the adjoint metric is measured.
    """

    replicates: Literal[1] = 1  # `networks` says how many there are
    cell: Factor[Architecture]
    location: Factor[Location]
    networks: Positive
    learning_rate: dict[Architecture, LearningRate]
    dataset: str
    width: Positive
    time_steps: Positive
    noise: Deviation
    batch_size: Positive
    steps: Positive
    gradient_clip: Weight
    train_size: Size = 0
    validation_size: Positive
    test_size: Size = 0
    metric_size: Positive = 64

    @model_validator(mode="after")
    def _cells_have_a_learning_rate(self) -> Self:
        for cell in self.cell:
            if cell not in self.learning_rate:
                raise ValueError(f"there is no learning_rate for the cell {cell!r}; add one")
        return self


def train_interventions(
    jobs: Sequence[Job], prepared: Path | None, checkpoints: Sequence[Checkpoint | None]
) -> list[Arrays]:
    """Train and measure the networks of some jobs, see `study.training.job.Experiment.train`."""
    return [train_networks(job.config, prepared) for job in jobs]


def train_networks(job: Interventions, prepared: Path) -> Arrays:
    """Train all networks of one cell and location.

    Parameters
    ----------
    job : Interventions
        A design with one level in every place.
    prepared : Path
        Folder of the prepared data sets.

    Returns
    -------
    dict
        Variables of `study.results.interventions`, each (treatment, replicate) or (treatment,
        replicate, stage).
    """
    task = _make_task(job, prepared)
    runs = _Runs(job, task)
    before = runs.metrics(task.test)
    losses = runs.train(task.train)
    after = runs.metrics(task.test)
    shape = (len(TREATMENTS), job.networks)
    diverged = ~np.isfinite(losses).all(axis=0)
    last_tenth = losses[-max(1, len(losses) // 10) :]
    chance = np.bincount(task.test.targets).max() / len(task.test)
    return {
        "status": np.where(diverged, DIVERGED, COMPLETED).reshape(shape),
        "test_accuracy": runs.accuracies(task.test).reshape(shape),
        "validation_accuracy": runs.accuracies(task.validation).reshape(shape),
        "train_loss": last_tenth.mean(axis=0).reshape(shape),
        "own_metric": np.stack([before.own, after.own], axis=-1).reshape(*shape, 2),
        "treated_metric": np.stack([before.treated, after.treated], axis=-1).reshape(*shape, 2),
        "chance": np.full(shape, chance),
        "test_sequences": np.full(shape, len(task.test)),
    }


def _make_task(job: Interventions, prepared: Path) -> Task:
    """Return the task, the same for all cells, treatments and replicates of one location."""
    settings = {
        "task": "located_rows",
        "dataset": job.dataset,
        "time_steps": job.time_steps,
        "location": job.location,
        "noise": job.noise,
        "train_size": job.train_size,
        "validation_size": job.validation_size,
        "test_size": job.test_size,
    }
    (seed,) = seeds({"task": settings}, 1)
    return make_task(settings, prepared, np.random.default_rng(seed))


class _Metrics(NamedTuple):
    """Adjoint metrics of all runs, each (run,)."""

    own: np.ndarray
    treated: np.ndarray


class _Network(nn.Module):
    """A cell and its head; called as one step of the recurrence, or as the head."""

    def __init__(self, cell: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.cell = cell
        self.head = head

    def forward(self, state: tuple, u_t: Tensor | None = None) -> tuple | Tensor:
        if u_t is None:
            return self.head(state[self.cell.readout])
        return self.cell.step(self.cell.weights(), state, u_t)


class _Runs:
    """All networks of a job, their weights stacked along a leading run axis.

    Runs are in the order treatment, replicate. A treatment that takes its norms and its directions
    from two gradients has a second network with the same weights for the latter, after all others.
    """

    def __init__(self, job: Interventions, task: Task) -> None:
        self.job = job
        treatments = list(TREATMENTS.values())
        self.adjoints = [t.adjoint for t in treatments for _ in range(job.networks)]
        self.count = len(self.adjoints)
        norms_alone = [t.norms_alone for t in treatments for _ in range(job.networks)]
        self.norms_alone = [run for run, flag in enumerate(norms_alone) if flag]
        self.adjoints += [PLAIN] * len(self.norms_alone)

        networks = []
        self.orders = []
        for replicate in range(job.networks):
            # Neither treatment nor location is part of the seeds: runs can be compared in pairs.
            levels = {"experiment": EXPERIMENT, "cell": job.cell, "replicate": replicate}
            initial, order = seeds(levels, 2)
            with torch_seed(initial):
                cell = make_cell(job.cell, task.features, job.width)
                head = nn.Linear(job.width, task.outputs)
            networks.append(_Network(cell, head))
            self.orders.append(order)
        (signs,) = seeds({"experiment": EXPERIMENT, "cell": job.cell, "signs": True}, 1)
        self.generator = torch.Generator().manual_seed(int(signs.generate_state(1)[0]))

        self.pattern = networks[0]
        stacked, _ = stack_module_state(networks)
        replicates = [*range(job.networks)] * len(treatments)
        replicates += [replicates[run] for run in self.norms_alone]
        self.parameters = {
            name: nn.Parameter(part.detach()[replicates].clone()) for name, part in stacked.items()
        }
        self.replicates = replicates

    def unroll(
        self, inputs: Tensor, adjoints: list[AdjointTreatment]
    ) -> tuple[Tensor, tuple, tuple]:
        """Run all networks over inputs (run, batch, time, input).

        Returns the predictions (run, batch, classes), and the states before and after the sequence.
        """
        runs, batch, time_steps, _ = inputs.shape
        shape = (runs, batch, self.job.width)
        states = range(self.pattern.cell.states)
        before = tuple(inputs.new_zeros(shape).requires_grad_() for _ in states)
        path = AdjointPath(adjoints, time_steps, inputs, self.generator)

        def one_network(parameters: dict[str, Tensor], *arguments: object) -> object:
            return functional_call(self.pattern, parameters, arguments)

        step_all = torch.vmap(one_network)
        after = unroll_treated(
            lambda state, u_t: step_all(self.parameters, state, u_t),
            before,
            inputs.permute(2, 0, 1, 3),
            path,
        )
        return step_all(self.parameters, after), before, after

    def train(self, part: Part) -> np.ndarray:
        """Train all networks in place; return the loss of every step and run, (step, run)."""
        job = self.job
        parameters = list(self.parameters.values())
        optimizer = torch.optim.Adam(parameters, lr=job.learning_rate[job.cell])
        batches = [
            Epochs(part, job.batch_size, np.random.default_rng(order), drop_last=True)
            for order in self.orders
        ]
        losses = np.empty((job.steps, self.count))
        for step in range(job.steps):
            drawn = [each.next() for each in batches]
            inputs = torch.stack([inputs for inputs, _ in drawn])[self.replicates]
            targets = torch.stack([targets for _, targets in drawn])[self.replicates]
            predictions, _, _ = self.unroll(inputs, self.adjoints)
            each = F.cross_entropy(predictions.flatten(0, 1), targets.flatten(), reduction="none")
            loss = each.view(targets.shape).mean(dim=1)
            gradients = torch.autograd.grad(loss.sum(), parameters)
            gradients = [self._with_norms(gradient) for gradient in gradients]
            if job.gradient_clip:
                gradients = _clipped(gradients, job.gradient_clip)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
            losses[step] = loss.detach()[: self.count]
        return losses

    def _with_norms(self, gradient: Tensor) -> Tensor:
        """Give runs whose treatment sets only norms the directions of backpropagation."""
        if not self.norms_alone:
            return gradient
        plain = gradient[self.count :]
        treated = gradient[self.norms_alone]
        smallest = torch.finfo(gradient.dtype).tiny
        ratio = _run_norm(treated) / _run_norm(plain).clamp_min(smallest)
        changed = plain * ratio.view(-1, *[1] * (plain.dim() - 1))
        gradient = gradient.clone()
        gradient[self.norms_alone] = changed
        gradient[self.count :] = changed
        return gradient

    def metrics(self, part: Part) -> _Metrics:
        """Return the adjoint metrics of ordinary backpropagation and under the treatments.

        Medians over the first sequences of a part, in float64: float32 underflows at dose -40.
        """
        inputs, targets = tensors(part.take(slice(self.job.metric_size)))
        runs = len(self.adjoints)
        inputs = inputs.double().expand(runs, *inputs.shape)
        targets = targets.expand(runs, *targets.shape)
        single = self.parameters
        self.parameters = {name: p.detach().double() for name, p in single.items()}
        try:
            own = self._metric(inputs, targets, [PLAIN] * runs)
            treated = self._metric(inputs, targets, self.adjoints)
        finally:
            self.parameters = single
        treated[self.norms_alone] = own[self.norms_alone]
        return _Metrics(own[: self.count], treated[: self.count])

    def _metric(
        self, inputs: Tensor, targets: Tensor, adjoints: list[AdjointTreatment]
    ) -> np.ndarray:
        predictions, before, after = self.unroll(inputs, adjoints)
        loss = F.cross_entropy(predictions.flatten(0, 1), targets.flatten(), reduction="sum")
        first = torch.autograd.grad(loss, before, retain_graph=True)
        last = torch.autograd.grad(loss, after, allow_unused=True)
        ratio = _log10_norm(first) - _log10_norm(last)
        return ratio.median(dim=1).values.numpy()

    @torch.no_grad()
    def accuracies(self, part: Part) -> np.ndarray:
        """Return the share of sequences whose class is predicted, (run,)."""
        inputs, targets = tensors(part)
        runs = len(self.adjoints)
        predictions, _, _ = self.unroll(inputs.expand(runs, *inputs.shape), [PLAIN] * runs)
        right = predictions.argmax(dim=2) == targets
        return right.double().mean(dim=1)[: self.count].numpy()


def _run_norm(gradient: Tensor) -> Tensor:
    """Return the Euclidean norm of every run's part of a stacked gradient, (run,)."""
    return gradient.flatten(1).norm(dim=1)


def _clipped(gradients: list[Tensor], largest: float) -> list[Tensor]:
    """Return gradients whose norm over all parameters is at most `largest` in every run."""
    norms = torch.stack([_run_norm(gradient) for gradient in gradients]).norm(dim=0)
    factors = (largest / (norms + 1e-6)).clamp_max(1)
    return [g * factors.view(-1, *[1] * (g.dim() - 1)) for g in gradients]


def _log10_norm(adjoints: tuple) -> Tensor:
    """Return log10 of the Euclidean norm per sequence over all tensors of a state, (run, batch)."""
    squares = [part.square().sum(dim=-1) for part in adjoints if part is not None]
    return torch.stack(squares).sum(dim=0).log10() / 2
