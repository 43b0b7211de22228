"""The data of a run: its task, and the sequences to train on and to measure on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from study.config.network import Network
from study.config.run import RunConfig
from study.tasks import Split, Task, make_task
from study.training.model import Model
from study.training.scores import tensors
from study.training.seeds import seeds


@dataclass(frozen=True)
class RunData:
    """The data of a run, the same for all networks of a task.

    Attributes
    ----------
    task : Task
        Holds the training split, or generates training sequences when they are needed.
    splits : mapping of str to Split
        Sequences that losses and metrics are measured on. ``train`` has the first `probe_size`
        training sequences. If the task generates its sequences, ``train`` is the same as ``test``.
        ``validation`` is missing if there is no such split.
    """

    task: Task
    splits: Mapping[str, Split]

    @property
    def test(self) -> Split:
        """The test split."""
        return self.splits["test"]

    @property
    def has_validation(self) -> bool:
        """Whether there is a validation split."""
        return "validation" in self.splits


def load_data(config: RunConfig, prepared: Path | None) -> RunData:
    """Make the task of a run and its splits.

    Parameters
    ----------
    config : RunConfig
        Its task and its measurement are used.
    prepared : Path, optional
        Folder of the prepared data sets, for tasks that read one.

    Returns
    -------
    RunData

    Raises
    ------
    ValueError
        The settings do not fit the task's data.
    """
    spec = config.task.flat_settings()
    measurement = config.measurement
    for_task, for_test, for_validation = seeds({"task": spec}, 3)
    task = make_task(spec, prepared, np.random.default_rng(for_task))
    if task.draw is None:
        splits = {
            "test": task.test,
            "train": task.train.take(slice(measurement.probe_size or None)),
        }
        if task.validation is not None:
            splits["validation"] = task.validation
        return RunData(task, splits)
    test = task.draw(measurement.test_draws, np.random.default_rng(for_test))
    splits = {"test": test, "train": test}
    if measurement.validation_draws:
        rng = np.random.default_rng(for_validation)
        splits["validation"] = task.draw(measurement.validation_draws, rng)
    return RunData(task, splits)


def trains_head_only(network: Network) -> bool:
    """Return whether a network is a reservoir: only its head is trained, on fixed inputs.

    Parameters
    ----------
    network : Network

    Returns
    -------
    bool
    """
    is_random = (
        network.input_dropout or network.output_dropout or network.hyper_parameters.get("dropout")
    )
    return "cell.*" in network.frozen and not network.embedding_width and not is_random


@dataclass(frozen=True)
class TrainingSetup:
    """The module to train, and its data.

    Attributes
    ----------
    model : nn.Module
        The whole model, or only its head.
    train : Split, optional
        Training data: sequences, or inputs of the head. None if the task generates sequences.
    measured : mapping of str to Split
        Data of the same kind that losses and metrics are measured on, as `RunData.splits`.
    """

    model: nn.Module
    train: Split | None
    measured: Mapping[str, Split]


def reduce_to_head(network: Network, model: Model, data: RunData) -> TrainingSetup:
    """Return what to train: the head of a reservoir on its final states, or else the whole model.

    The cell of a reservoir never changes. If there is one target per sequence, the cell therefore
    runs only once over all sequences, and the head is trained on the final states.

    Parameters
    ----------
    network : Network
        See `trains_head_only`.
    model : Model
    data : RunData

    Returns
    -------
    TrainingSetup
    """
    train = data.task.train
    if not trains_head_only(network) or train is None or data.task.target == "steps":
        return TrainingSetup(model, train, data.splits)
    train_states = last_states(model, train)
    measured = {"train": train_states.take(slice(len(data.splits["train"])))}
    for name in ("validation", "test"):
        if name in data.splits:
            measured[name] = last_states(model, data.splits[name])
    return TrainingSetup(model.output, train_states, measured)


@torch.no_grad()
def last_states(model: Model, split: Split, batch_size: int = 500) -> Split:
    """Replace the inputs of a split by the final states of the cell, which the head reads.

    Parameters
    ----------
    model : Model
        A model with a frozen cell.
    split : Split
        n sequences.
    batch_size : int
        Number of sequences per forward pass.

    Returns
    -------
    Split
        Inputs of shape (n, hidden), and the same targets.
    """
    model.eval()
    device = model.output.weight.device
    states = []
    for first in range(0, len(split), batch_size):
        inputs, _ = tensors(split.take(slice(first, first + batch_size)), device)
        _, state = model.cell(model.cell_inputs(inputs))
        states.append(model.head_inputs(state))
    return Split(torch.cat(states).cpu().numpy(), split.targets)
