"""Train networks together under different treatments of the backward pass.

`study.training.interventions` describes the experiment.
"""

from typing import NamedTuple

import numpy as np
import torch
from longrnn.cells import make_cell
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional as F

from study.tasks import Split, Task
from study.training.adjoint_treatments import AdjointPath, AdjointTreatment, unroll_treated
from study.training.batches import EpochBatches
from study.training.intervention_design import EXPERIMENT, PLAIN, TREATMENTS, Interventions
from study.training.optimizers import adam_options
from study.training.scores import tensors
from study.training.seeds import seeds, torch_seed


class AdjointMetrics(NamedTuple):
    """Adjoint metrics of all runs: log10 of |lambda_0| / |lambda_T|, medians over sequences.

    Attributes
    ----------
    ordinary : numpy.ndarray
        With ordinary backpropagation, (run,).
    treated : numpy.ndarray
        With the treatment of each run, (run,).
    """

    ordinary: np.ndarray
    treated: np.ndarray


class _Network(nn.Module):
    """A cell and its head. Called with an input it computes one time step, else predictions."""

    def __init__(self, cell: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.cell = cell
        self.head = head

    def forward(self, state: tuple, u_t: Tensor | None = None) -> tuple | Tensor:
        if u_t is None:
            return self.head(state[self.cell.readout])
        return self.cell.step(self.cell.weights(), state, u_t)


def _initial_network(
    config: Interventions, task: Task, replicate: int
) -> tuple[_Network, np.random.SeedSequence]:
    """Return the network of a replicate before training, and the seed of the order of its batches.

    The seeds don't depend on treatment or location, so runs can be compared in pairs.
    """
    levels = {"experiment": EXPERIMENT, "cell": config.cell, "replicate": replicate}
    initial, order = seeds(levels, 2)
    with torch_seed(initial):
        cell = make_cell(config.cell, task.features, config.width)
        head = nn.Linear(config.width, task.outputs)
    return _Network(cell, head), order


class TreatedNetworks:
    """All networks of a job, with weights stacked along a leading run axis.

    Runs are sorted by treatment, then by replicate. A run whose treatment only sets norms needs two
    networks, whose weights are always equal. The treated gradient of the first gives the norms, and
    the ordinary gradient of the second gives the directions. The second networks come after all
    others.
    """

    def __init__(self, config: Interventions, task: Task) -> None:
        """Draw the initial weights of all networks.

        Parameters
        ----------
        config : Interventions
            A job of the design, with one cell and one location.
        task : Task
        """
        self.config = config
        treatments = list(TREATMENTS.values())
        treatment_of_run = [t for t in treatments for _ in range(config.networks)]
        self.count = len(treatment_of_run)
        """Number of runs."""
        self.paired = [run for run, t in enumerate(treatment_of_run) if t.norms_alone]
        """Runs whose treatment only sets norms. Each has a second network."""
        self.adjoints = [treatment.adjoint for treatment in treatment_of_run]
        self.adjoints += [PLAIN] * len(self.paired)
        """Treatment of the adjoints of each network."""
        self.replicates = [*range(config.networks)] * len(treatments)
        self.replicates += [self.replicates[run] for run in self.paired]
        """Replicate of each network."""
        networks = []
        self.order_seeds = []
        """Seed of the order of the batches, by replicate."""
        for replicate in range(config.networks):
            network, order_seed = _initial_network(config, task, replicate)
            networks.append(network)
            self.order_seeds.append(order_seed)
        self.template = networks[0]
        """A network that computes any of the networks if it is called with their weights."""
        self.parameters: dict[str, Tensor] = {}
        """Stacked weights by name, each (network, ...)."""
        stacked, _ = stack_module_state(networks)
        for name, weights in stacked.items():
            self.parameters[name] = nn.Parameter(weights.detach()[self.replicates].clone())
        (sign_seed,) = seeds({"experiment": EXPERIMENT, "cell": config.cell, "signs": True}, 1)
        self.generator = torch.Generator().manual_seed(int(sign_seed.generate_state(1)[0]))
        """Draws the signs of the treatment ``random signs``."""

    def unroll(
        self, parameters: dict[str, Tensor], inputs: Tensor, adjoints: list[AdjointTreatment]
    ) -> tuple[Tensor, tuple, tuple]:
        """Run all networks over their sequences.

        Parameters
        ----------
        parameters : dict of str to Tensor
            The stacked weights, in the precision of the inputs.
        inputs : Tensor
            Shape (network, batch, time, input).
        adjoints : list of AdjointTreatment
            The treatment of each network's adjoints.

        Returns
        -------
        predictions : Tensor
            Logits, shape (network, batch, classes).
        before, after : tuple of Tensor, each (network, batch, hidden)
            The states before the first and after the last input.
        """
        runs, batch, time_steps, _ = inputs.shape
        shape = (runs, batch, self.config.width)
        states = range(self.template.cell.states)
        before = tuple(inputs.new_zeros(shape).requires_grad_() for _ in states)
        path = AdjointPath(adjoints, time_steps, inputs, self.generator)

        def call_one(weights: dict[str, Tensor], *arguments: object) -> object:
            return functional_call(self.template, weights, arguments)

        call_all = torch.vmap(call_one)

        def step(state: tuple, u_t: Tensor) -> tuple:
            return call_all(parameters, state, u_t)

        after = unroll_treated(step, before, inputs.permute(2, 0, 1, 3), path)
        return call_all(parameters, after), before, after

    def train(self, split: Split) -> np.ndarray:
        """Train all networks in place with Adam and cross entropy.

        Parameters
        ----------
        split : Split
            The training sequences.

        Returns
        -------
        numpy.ndarray
            The loss of every step and run, (step, run).
        """
        config = self.config
        parameters = list(self.parameters.values())
        learning_rate = config.learning_rate[config.cell]
        optimizer = torch.optim.Adam(parameters, lr=learning_rate, **adam_options())
        batches = [
            EpochBatches(split, config.batch_size, np.random.default_rng(order), drop_last=True)
            for order in self.order_seeds
        ]
        losses = np.empty((config.steps, self.count))
        for step in range(config.steps):
            drawn = [batches_of_replicate.next() for batches_of_replicate in batches]
            inputs = torch.stack([inputs for inputs, _ in drawn])[self.replicates]
            targets = torch.stack([targets for _, targets in drawn])[self.replicates]
            predictions, _, _ = self.unroll(self.parameters, inputs, self.adjoints)
            loss_of_sequence = F.cross_entropy(
                predictions.flatten(0, 1), targets.flatten(), reduction="none"
            )
            loss = loss_of_sequence.view(targets.shape).mean(dim=1)  # of each network
            gradients = torch.autograd.grad(loss.sum(), parameters)
            gradients = [self._with_norms(gradient) for gradient in gradients]
            if config.gradient_clip:
                gradients = _clipped(gradients, config.gradient_clip)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
            losses[step] = loss.detach()[: self.count]
        return losses

    def _with_norms(self, gradient: Tensor) -> Tensor:
        """Combine norms and directions for the runs whose treatment only sets norms."""
        if not self.paired:
            return gradient
        plain = gradient[self.count :]
        treated = gradient[self.paired]
        smallest = torch.finfo(gradient.dtype).tiny
        ratio = _run_norm(treated) / _run_norm(plain).clamp_min(smallest)
        changed = plain * ratio.view(-1, *[1] * (plain.dim() - 1))
        gradient = gradient.clone()
        gradient[self.paired] = changed
        gradient[self.count :] = changed
        return gradient

    def metrics(self, split: Split) -> AdjointMetrics:
        """Return the adjoint metrics of ordinary backpropagation and of the treatments.

        They are computed in float64, because float32 underflows at dose -40.

        Parameters
        ----------
        split : Split
            Its first `metric_size` sequences are measured.

        Returns
        -------
        AdjointMetrics
            Medians over sequences.
        """
        inputs, targets = tensors(split.take(slice(self.config.metric_size)))
        runs = len(self.adjoints)
        inputs = inputs.double().expand(runs, *inputs.shape)
        targets = targets.expand(runs, *targets.shape)
        ordinary = self._metric(inputs, targets, [PLAIN] * runs)
        treated = self._metric(inputs, targets, self.adjoints)
        treated[self.paired] = ordinary[self.paired]
        return AdjointMetrics(ordinary[: self.count], treated[: self.count])

    def _metric(
        self, inputs: Tensor, targets: Tensor, adjoints: list[AdjointTreatment]
    ) -> np.ndarray:
        """Return log10 of |lambda_0| / |lambda_T|, medians over sequences, (network,)."""
        parameters = {name: p.detach().double() for name, p in self.parameters.items()}
        predictions, before, after = self.unroll(parameters, inputs, adjoints)
        loss = F.cross_entropy(predictions.flatten(0, 1), targets.flatten(), reduction="sum")
        first = torch.autograd.grad(loss, before, retain_graph=True)
        last = torch.autograd.grad(loss, after, allow_unused=True)
        ratio = _log10_norm(first) - _log10_norm(last)
        return ratio.median(dim=1).values.numpy()

    def are_finite(self) -> np.ndarray:
        """Return whether all weights of each run are finite.

        Returns
        -------
        numpy.ndarray
            Bool, (run,).
        """
        finite = torch.ones(self.count, dtype=torch.bool)
        for weights in self.parameters.values():
            finite &= torch.isfinite(weights[: self.count]).flatten(1).all(dim=1)
        return finite.numpy()

    @torch.no_grad()
    def accuracies(self, split: Split) -> np.ndarray:
        """Return the accuracy of each run.

        Parameters
        ----------
        split : Split

        Returns
        -------
        numpy.ndarray
            Fraction of sequences whose class is predicted correctly, (run,).
        """
        inputs, targets = tensors(split)
        runs = len(self.adjoints)
        inputs = inputs.expand(runs, *inputs.shape)
        predictions, _, _ = self.unroll(self.parameters, inputs, [PLAIN] * runs)
        correct = predictions.argmax(dim=2) == targets
        return correct.double().mean(dim=1)[: self.count].numpy()


def _run_norm(gradient: Tensor) -> Tensor:
    """Return the Euclidean norm of each run's gradient, (run,), for a stacked gradient."""
    return gradient.flatten(1).norm(dim=1)


def _clipped(gradients: list[Tensor], largest: float) -> list[Tensor]:
    """Return gradients whose norm over all parameters is at most `largest` in every run."""
    norms = torch.stack([_run_norm(gradient) for gradient in gradients]).norm(dim=0)
    factors = (largest / (norms + 1e-6)).clamp_max(1)
    return [g * factors.view(-1, *[1] * (g.dim() - 1)) for g in gradients]


def _log10_norm(adjoints: tuple) -> Tensor:
    """Return log10 of the Euclidean norm per sequence over all tensors of a state, (run, batch)."""
    squares = [tensor.square().sum(dim=-1) for tensor in adjoints if tensor is not None]
    return torch.stack(squares).sum(dim=0).log10() / 2
