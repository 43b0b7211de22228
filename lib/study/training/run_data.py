"""The data of a run: its task, and the parts that networks are trained and measured on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from study.config.network import Network
from study.config.run import RunConfig
from study.tasks import Part, Task, make_task
from study.training.model import Model
from study.training.scores import tensors
from study.training.seeds import seeds


@dataclass(frozen=True)
class RunData:
    """The data of a run, the same for all networks of a task.

    Attributes
    ----------
    task : Task
        With its training part, if it has one: else sequences are drawn as they are needed.
    parts : mapping of str to Part
        ``test``, ``validation`` (if there is one), and ``train``: the training sequences that are
        measured. If sequences are drawn, the test part stands for the training part too.
    """

    task: Task
    parts: Mapping[str, Part]

    @property
    def test(self) -> Part:
        """The test part."""
        return self.parts["test"]

    @property
    def has_validation(self) -> bool:
        """Whether there is a validation part."""
        return "validation" in self.parts


def load_data(config: RunConfig, prepared: Path | None) -> RunData:
    """Make the task of a run and its parts.

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
    spec = config.task.flat()
    measurement = config.measurement
    for_task, for_test, for_validation = seeds({"task": spec}, 3)
    task = make_task(spec, prepared, np.random.default_rng(for_task))
    if task.draw is None:
        parts = {"test": task.test, "train": task.train.take(slice(measurement.probe_size or None))}
        if task.validation is not None:
            parts["validation"] = task.validation
        return RunData(task, parts)
    test = task.draw(measurement.test_draws, np.random.default_rng(for_test))
    parts = {"test": test, "train": test}
    if measurement.validation_draws:
        rng = np.random.default_rng(for_validation)
        parts["validation"] = task.draw(measurement.validation_draws, rng)
    return RunData(task, parts)


def trains_head_only(network: Network) -> bool:
    """Return whether only a reservoir's head is trained, and what it reads never changes."""
    is_random = (
        network.input_dropout or network.output_dropout or network.hyper_parameters.get("dropout")
    )
    return "cell.*" in network.frozen and not network.embedding_width and not is_random


@dataclass(frozen=True)
class Trained:
    """What is trained, and the sequences it sees.

    Attributes
    ----------
    model : nn.Module
        The whole model, or a reservoir's head.
    train : Part, optional
        Training sequences; None if they are drawn.
    measured : mapping of str to Part
        The parts that losses and metrics are measured on.
    """

    model: nn.Module
    train: Part | None
    measured: Mapping[str, Part]


def reduce_to_head(network: Network, model: Model, data: RunData) -> Trained:
    """Return what is trained: the model, or the head alone if its inputs never change.

    A reservoir with one target per sequence is run over all sequences once. Its head is then
    trained on the last states.

    Parameters
    ----------
    network : Network
        Its frozen parameters and its dropout decide.
    model : Model
    data : RunData

    Returns
    -------
    Trained
    """
    train = data.task.train
    if not trains_head_only(network) or train is None or data.task.target == "steps":
        return Trained(model, train, data.parts)
    states = {name: last_states(model, part) for name, part in data.parts.items()}
    all_states = last_states(model, train)
    states["train"] = all_states.take(slice(len(data.parts["train"])))
    return Trained(model.output, all_states, states)


@torch.no_grad()
def last_states(model: Model, part: Part, batch_size: int = 500) -> Part:
    """Return a part with the last states of a network in place of the inputs.

    Parameters
    ----------
    model : Model
        A network whose cell stays fixed.
    part : Part
        n sequences.
    batch_size : int
        Sequences that are run at once.

    Returns
    -------
    Part
        Inputs of shape (n, hidden), and the same targets.
    """
    model.eval()
    device = model.output.weight.device
    states = []
    for first in range(0, len(part), batch_size):
        inputs, _ = tensors(part.take(slice(first, first + batch_size)), device)
        _, state = model.cell(model.drive(inputs))
        states.append(model.seen(state))
    return Part(torch.cat(states).cpu().numpy(), part.targets)
