"""Train one attempt of the factorial experiment and record what the design asks after every epoch.

An attempt is one cell of the design (dissertation, Table 1.2) and a replicate. Its random numbers, for the
permutation, the noise, the initialisation and the order of the batches, follow from its own levels alone,
so it comes out the same in whichever block, process or study it runs.
"""

import copy
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lib.cells import make_cell
from lib.probes.adjoint import adjoint_norms, log10_sum
from lib.results.factorial import COMPLETED, DIVERGED, MEASUREMENTS, SPLITS
from lib.run.params import StudySection
from lib.tasks import Part, Task
from lib.tasks.variations import vary
from lib.training.model import Classifier
from lib.training.seeds import seeds, torch_seed

RECIPE = 2
"""Raised whenever a change to training or measuring changes results: it is part of every shard's name."""


@dataclass(frozen=True)
class Attempt:
    """The levels of one training attempt; field names are the results' dimensions."""

    architecture: str
    width: int
    learning_rate: float
    training_length: int
    dataset: str
    order: str
    noise: str
    replicate: int

    def seeds(self) -> tuple[np.random.SeedSequence, ...]:
        """Return independent seeds: the task's variation, the initial weights, the batches."""
        return seeds(asdict(self), 3)


@dataclass(frozen=True)
class Record:
    """What one attempt left behind.

    Attributes
    ----------
    status
        `lib.results.factorial.COMPLETED` or `lib.results.factorial.DIVERGED`.
    epochs_completed
        Epochs after which everything measured was finite (or an adjoint norm of zero, ``-inf``).
    measurements : (measurement, split, epoch), float64
        In the order of `lib.results.factorial.MEASUREMENTS`; ``nan`` where an epoch was not completed.
    """

    status: int
    epochs_completed: int
    measurements: np.ndarray


def train_attempt(attempt: Attempt, data: Task, settings: StudySection) -> Record:
    """Train and measure one attempt.

    Parameters
    ----------
    attempt
        Its levels; order and noise are applied here.
    data
        The data set as prepared, subsampled, not yet varied.
    settings
        Batch size, probe sizes, embedding width, denormals.

    Notes
    -----
    Adam, cross entropy, batches drawn without replacement. A loss that is not finite, in a batch or
    when measured, ends the attempt: status, epochs completed and their measurements are kept.
    """
    variation, initial, batches = attempt.seeds()
    torch.set_num_threads(1)
    # Denormals slow the loops two- to tenfold; flushing is a setting since it changes last digits.
    torch.set_flush_denormal(settings.flush_denormals)
    data = vary(data, attempt.order, attempt.noise, np.random.default_rng(variation))
    model = _initial_model(attempt, data, settings, initial).to(pick_device(settings.device))
    optimiser = torch.optim.Adam(model.parameters(), lr=attempt.learning_rate)
    order = np.random.default_rng(batches)
    measurements = np.full((len(MEASUREMENTS), len(SPLITS), attempt.training_length), np.nan)

    for epoch in range(attempt.training_length):
        if not _train_epoch(model, optimiser, data.train, settings.batch_size, order):
            break
        measured = _measure_splits(model, data, settings)
        if np.isnan(measured).any():
            break
        measurements[:, :, epoch] = measured
    else:
        return Record(COMPLETED, attempt.training_length, measurements)
    return Record(DIVERGED, epoch, measurements)


def pick_device(setting: str) -> torch.device:
    """Return the device that the setting ``auto``, ``cpu`` or ``cuda`` stands for here."""
    if setting == "cuda" and not torch.cuda.is_available():
        raise ValueError("the setting device is 'cuda' but PyTorch sees no GPU here; use 'auto'")
    if setting == "auto":
        setting = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(setting)


def _initial_model(
    attempt: Attempt, data: Task, settings: StudySection, seed: np.random.SeedSequence
) -> Classifier:
    with torch_seed(seed):
        features = settings.embedding_width if data.kind == "tokens" else data.features
        cell = make_cell(attempt.architecture, features, attempt.width)
        return Classifier(cell, data.outputs, vocabulary_size=data.vocabulary_size)


def _train_epoch(
    model: Classifier,
    optimiser: torch.optim.Optimizer,
    train: Part,
    batch_size: int,
    rng: np.random.Generator,
) -> bool:
    """Pass once over the training part in a fresh order; return False at the first non-finite loss."""
    device = model.output.weight.device
    indices = rng.permutation(len(train.targets))
    for start in range(0, len(indices), batch_size):
        inputs, labels = _tensors(train, indices[start : start + batch_size], device)
        loss = F.cross_entropy(model(inputs), labels)
        if not torch.isfinite(loss):
            return False
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return True


def _measure_splits(model: Classifier, data: Task, settings: StudySection) -> np.ndarray:
    """Return (measurement, split); anything undefined is ``nan``, an adjoint of zero ``-inf``."""
    measured = [
        measure(model, part, batch_size=settings.probe_batch_size, size=settings.probe_size)
        for part in (data.train, data.test)
    ]
    return np.array([[row[name] for row in measured] for name in MEASUREMENTS])


def measure(model: Classifier, part: Part, *, batch_size: int, size: int = 0) -> dict[str, float]:
    """Measure a classifier on sequences: one value for each of `lib.results.factorial.MEASUREMENTS`.

    Parameters
    ----------
    model
        The classifier, on the CPU or a GPU.
    part
        The sequences and labels.
    batch_size
        Sequences measured at once.
    size
        Measure the first `size` sequences only; 0, or more than there are, means all.

    Notes
    -----
    Equation (3.5) of the dissertation: the norms are summed over sequences before the logarithm is taken. Each
    sequence's own loss is differentiated, not the batch's mean.
    """
    output = copy.deepcopy(model.output).double().requires_grad_(False)
    device = output.weight.device
    size = min(size or len(part.targets), len(part.targets))
    loss = correct = 0.0
    norms = {name: [] for name in MEASUREMENTS if name.startswith("adjoint")}
    for start in range(0, size, batch_size):
        inputs, labels = _tensors(part, np.arange(start, min(start + batch_size, size)), device)
        with torch.no_grad():
            u = model.drive(inputs)
        summed_loss = partial(_summed_loss, output, labels)
        adjoints = adjoint_norms(model.cell, u, summed_loss, times=(1, u.shape[0]))
        last = adjoints.final_states[model.cell.readout]
        loss += summed_loss(last).item()
        logits = output(last)
        correct += (logits.argmax(1) == labels).sum().item()
        for where, t in (("first", 0), ("last", -1)):
            norms[f"adjoint_{where}"].append(log10_sum(adjoints.readout[t]))
            norms[f"adjoint_{where}_full"].append(log10_sum(adjoints.full[t]))
    if not np.isfinite(loss):
        return dict.fromkeys(MEASUREMENTS, float("nan"))
    summed = {name: log10_sum(torch.stack(parts)).item() for name, parts in norms.items()}
    return {"loss": loss / size, "accuracy": correct / size, **summed}


def _summed_loss(output: nn.Linear, labels: Tensor, x: Tensor) -> Tensor:
    """Return the sum over sequences of the cross entropy of last states x, (batch, hidden)."""
    return F.cross_entropy(output(x), labels, reduction="sum")


def _tensors(part: Part, indices: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor]:
    inputs, labels = torch.from_numpy(part.inputs[indices]), torch.from_numpy(part.targets[indices])
    return inputs.to(device), labels.to(device)
