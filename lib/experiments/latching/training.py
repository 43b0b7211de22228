r"""One training on a long time gap task, new output layers for longer ones, and what the network does over time.

The text (3.3.2) trains a basic RNN on the shortest task, freezes its recurrence and trains the output layer again for
each longer task; it names neither optimiser nor initialisation. Here the recurrence learns by Adam on fresh sequences, and
the new output layers are logistic regressions on the last states, a convex problem that is solved to its end.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lib.cells import make_cell
from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import largest_exponent
from lib.results.schema import COMPLETED, DIVERGED
from lib.tasks.long_time_gap import draw_signs
from lib.training.model import Predictor
from lib.training.seeds import seeds_of, torch_seed

_PENALTY = 1e-4
"""Weight of the squared output weights: states that can be separated would let them grow without end."""


@dataclass(frozen=True)
class Training:
    """One training: everything that its results depend on."""

    replicate: int
    width: int
    place: int
    horizon: int
    longer: tuple[int, ...]
    learning_rate: float
    training_steps: int
    batch_size: int
    clip: float
    tolerance: float
    check_every: int
    check_size: int
    fit_size: int
    test_size: int
    probe_size: int
    flush_denormals: bool
    engine: str

    def seeds(self) -> tuple[np.random.SeedSequence, ...]:
        """Return independent seeds: initial weights, training sequences, sequences that check them, measurements."""
        return seeds_of(self, ("replicate", "width", "place", "horizon"), 4)

    def horizons(self) -> tuple[int, ...]:
        """Return all lengths T, that of the training first."""
        return (self.horizon, *self.longer)


class Latch(Predictor):
    """A cell whose last state a single number tells apart: the logit of a positive sign."""


def start(training: Training) -> Latch:
    """Return the network before training: W orthogonal, R by Glorot and Bengio, b zero, TensorFlow's defaults."""
    with torch_seed(training.seeds()[0]), torch.no_grad():
        model = Latch(make_cell("rnn", 1, training.width))
        nn.init.orthogonal_(model.cell.W)
        nn.init.xavier_uniform_(model.cell.R)
        model.cell.b.zero_()
    return model


def train(training: Training) -> dict[str, np.ndarray]:
    """Train one network, fit its output layers, and measure; return the variables of one training by name.

    Notes
    -----
    Every training is measured, whether or not it reached the tolerance. A loss that is not finite ends it as diverged,
    without measurements.
    """
    torch.set_num_threads(1)
    torch.set_flush_denormal(training.flush_denormals)
    model = start(training)
    status, steps = _learn(model, training)
    found = {"status": status, "steps_completed": steps, **_unmeasured(training)}
    if status == COMPLETED:
        model.requires_grad_(False)
        rng = np.random.default_rng(training.seeds()[3])
        for index, T in enumerate(training.horizons()):
            _measure(model, training, T, rng, index, found)
    return {name: np.asarray(value) for name, value in found.items()}


def _learn(model: Latch, training: Training) -> tuple[int, int]:
    """Train until the error is below the tolerance or the steps are used up; return status and steps."""
    optimiser = torch.optim.Adam(model.parameters(), lr=training.learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, training.training_steps)
    batches, checks = (np.random.default_rng(seed) for seed in training.seeds()[1:3])
    for step in range(1, training.training_steps + 1):
        u, labels = _tensors(training, training.horizon, training.batch_size, batches)
        loss = F.binary_cross_entropy_with_logits(model(u), labels)
        if not torch.isfinite(loss):
            return DIVERGED, step - 1
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimiser.step()
        schedule.step()
        if step % training.check_every == 0:
            u, labels = _tensors(training, training.horizon, training.check_size, checks)
            with torch.no_grad():
                # Half of it: other sequences' error is then below the tolerance, too.
                if _error(model(u), labels) < training.tolerance / 2:
                    return COMPLETED, step
    return COMPLETED, training.training_steps


def fit_output(states: Tensor, labels: Tensor) -> nn.Linear:
    """Return the logistic regression of the labels on last states, the output layer of a longer task.

    Parameters
    ----------
    states : (n, d)
        States x_T; the fit is in float64.
    labels : (n,)
        0 or 1.
    """
    states, labels = states.double(), labels.double()
    layer = nn.Linear(states.shape[1], 1).double()
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    optimiser = torch.optim.LBFGS(
        layer.parameters(),
        max_iter=200,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-9,
        tolerance_change=1e-14,
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = F.binary_cross_entropy_with_logits(layer(states)[:, 0], labels)
        loss = loss + _PENALTY * layer.weight.square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    return layer.requires_grad_(False)


def _unmeasured(training: Training) -> dict[str, np.ndarray]:
    horizons, probes = len(training.horizons()), training.probe_size
    longest = max(training.horizons())
    return {
        "error": np.full(horizons, np.nan),
        "exponent": np.full(probes, np.nan),
        "state": np.full((horizons, probes, longest), np.nan, np.float32),
        "adjoint": np.full((horizons, probes, longest), np.nan, np.float32),
    }


def _measure(
    model: Latch, training: Training, T: int, rng: np.random.Generator, index: int, found: dict
) -> None:
    """Fill in error, states and adjoints of one horizon, and for the longest the Lyapunov exponents."""
    cell = model.cell
    if training.horizon == T:
        output = copy.deepcopy(model.output).double()
    else:
        u, labels = _tensors(training, T, training.fit_size, rng)
        output = fit_output(cell(u)[0][-1], labels)
    u, labels = _tensors(training, T, training.test_size, rng)
    states, _ = cell(u)
    found["error"][index] = _error(output(states[-1].double())[:, 0], labels)
    probe = slice(training.probe_size)
    u, labels = u[:, probe], labels[probe].double()

    def loss(x: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(output(x)[:, 0], labels, reduction="sum")

    norms = adjoint_norms(cell, u, loss)
    found["state"][index, :, :T] = torch.linalg.vector_norm(states[:, probe], dim=2).T
    found["adjoint"][index, :, :T] = norms.readout.T
    if max(training.horizons()) == T:
        found["exponent"][:] = largest_exponent(cell, u, start=training.place)


def _tensors(
    training: Training, T: int, size: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Return fresh inputs, (time, batch, 1), and labels, (batch,), as numbers."""
    part = draw_signs(training.place, T, size, rng)
    u = torch.from_numpy(part.inputs).transpose(0, 1).contiguous()
    return u, torch.from_numpy(part.targets).float()


def _error(logits: Tensor, labels: Tensor) -> float:
    """Return the share of wrong signs."""
    return ((logits > 0) != (labels > 0)).double().mean().item()
