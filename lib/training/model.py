"""A model: a cell, an embedding where it reads tokens, and a linear head on what the states hold."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from lib.cells import Cell, make_cell
from lib.run.params import Section
from lib.tasks import Part, Task
from lib.training.limits import check_embedding

READS = ("last", "every", "all")
"""What a head sees: the state read out after the last input, after every input, or all state tensors after the last."""

MOST = 2**25
"""Predictions that a batch of `evaluate` may have, where there is one for every step."""

HEADS: dict[str, Callable[[Tensor], Tensor]] = {
    "library": lambda weight: weight,  # as PyTorch drew it
    "glorot": nn.init.xavier_uniform_,
    "kaiming": nn.init.kaiming_normal_,
}
"""Initial weights of a head by name; but for the first, its bias starts at zero."""


Share = Annotated[float, Field(ge=0, lt=1)]


class Dropout(Section):
    """Shares of numbers set to zero in training: of the inputs, of an embedding's words, of what the head sees.

    One mask serves all time steps of a sequence (variational dropout), but for the inputs. Dropout between the layers of
    a stack is the cell's own hyper-parameter.
    """

    input_dropout: Share = 0.0
    embedding_dropout: Share = 0.0
    output_dropout: Share = 0.0


NO_DROPOUT = Dropout()


class Model(nn.Module):
    """A cell read out linearly: a class, a value, or one a time step.

    Parameters
    ----------
    cell
        Any cell; its input size is the number of features, or the width of the embedding.
    outputs
        Numbers the head returns: classes K, or values.
    read, head
        One of `READS`, and one of `HEADS`.
    vocabulary_size
        Number of tokens; 0 where the inputs are numbers and need no embedding.
    dropout
        Applied in training alone; anything that has its fields, such as a row.
    """

    def __init__(
        self,
        cell: Cell,
        outputs: int,
        *,
        read: str = "last",
        vocabulary_size: int = 0,
        head: str = "library",
        dropout: Dropout = NO_DROPOUT,
    ) -> None:
        super().__init__()
        if read not in READS:
            raise ValueError(f"expected a head that reads {' or '.join(READS)}, got {read!r}")
        if head not in HEADS:
            raise ValueError(f"expected a head among {', '.join(HEADS)}, got {head!r}")
        self.embedding = nn.Embedding(vocabulary_size, cell.input_size) if vocabulary_size else None
        self.cell = cell
        self.read = read
        seen = cell.hidden_size * (cell.states if read == "all" else 1)
        self.output = nn.Linear(seen, outputs)
        self.dropout = Dropout(**{name: getattr(dropout, name) for name in Dropout.model_fields})
        if head != "library":
            HEADS[head](self.output.weight)
            nn.init.zeros_(self.output.bias)

    def drive(self, inputs: Tensor) -> Tensor:
        """Return what the cell reads, (time, batch, input), of inputs (batch, time, feature), or (batch, time) of int64 tokens."""
        if self.embedding is not None:
            inputs = _same_mask(
                self.embedding(inputs), self.dropout.embedding_dropout, self.training
            )
        inputs = F.dropout(inputs, self.dropout.input_dropout, self.training)
        return inputs.transpose(0, 1).contiguous()

    def forward(self, inputs: Tensor, *, engine: str = "auto") -> Tensor:
        """Return the predictions, (batch, outputs), or (batch, time, outputs) of a head that reads every state."""
        outputs, state = self.cell(self.drive(inputs), engine=engine)
        if self.read == "every":
            seen = _same_mask(outputs.transpose(0, 1), self.dropout.output_dropout, self.training)
        else:  # the final state, not the last of the outputs: its gradient needs no array over all times
            seen = F.dropout(self.seen(state), self.dropout.output_dropout, self.training)
        return self.output(seen)

    def seen(self, state: tuple[Tensor, ...]) -> Tensor:
        """Return what the head sees of the cell's final state, (batch, d) or (batch, states * d)."""
        return torch.cat(state, dim=1) if self.read == "all" else state[self.cell.readout]


def _same_mask(x: Tensor, share: float, training: bool) -> Tensor:
    """Drop the same features of (batch, time, feature) at every time step."""
    if not (training and share):
        return x
    return x * F.dropout(torch.ones_like(x[:, :1]), share, training=True)


def build(
    task: Task,
    architecture: str,
    width: int,
    *,
    hyper_parameters: Mapping[str, object] | None = None,
    start: str = "text",
    start_settings: Mapping[str, object] | None = None,
    read: str = "",
    head: str = "library",
    embedding_width: int = 0,
    train_initial_state: bool = False,
    dropout: Dropout = NO_DROPOUT,
) -> Model:
    """Return a new model for a task, its weights drawn from torch's generator.

    Parameters
    ----------
    task
        Its inputs and targets say what the model reads and returns.
    architecture, width, hyper_parameters
        Name of the cell, recurrent dimension d, and keywords of the cell's constructor.
    start
        Name of the cell's initial weights, and `start_settings` of it, see `lib.cells.Cell.start`. With ``author`` an embedding starts uniform within
        0.05 of zero, Keras's.
    read, head, dropout
        As in `Model`; by default the last state, or every state where the task asks at every step.
    embedding_width
        Numbers that a token becomes. An embedding starts from the task's vectors where it has some.
    train_initial_state
        Whether the state before the first input is trained, from zero.

    Raises
    ------
    ValueError
        The head does not fit the task, tokens have no embedding or vectors of another size, or whatever the cell says of
        its hyper-parameters.
    """
    read = read or ("every" if task.target == "steps" else "last")
    if (read == "every") != (task.target == "steps"):
        raise ValueError(
            f"a head that reads {read!r} does not fit {task.name}, which asks for a {task.target}; "
            f"use {'every' if task.target == 'steps' else 'last or all'}"
        )
    if task.kind == "tokens" and embedding_width < 1:
        raise ValueError(f"{task.name}: tokens need an embedding; give embedding_width, 1 or more")
    features = embedding_width if task.kind == "tokens" else task.features
    # Lists of numbers, as params.yaml writes them, are tuples to a cell.
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in (hyper_parameters or {}).items()}
    cell = make_cell(architecture, features, width, **given)
    if start != "text":  # the text's are the constructor's
        length = task._example.inputs.shape[1]
        cell.start(start, time_steps=length, **(start_settings or {}))
    if train_initial_state:
        cell.train_initial_state()
    model = Model(
        cell,
        task.outputs,
        read=read,
        vocabulary_size=task.vocabulary_size if task.kind == "tokens" else 0,
        head=head,
        dropout=dropout,
    )
    if start == "author" and model.embedding is not None:
        nn.init.uniform_(model.embedding.weight, -0.05, 0.05)
    if task.vectors is not None:
        check_embedding(task, len(task.vectors))
        if task.vectors.shape[1] != embedding_width:
            raise ValueError(
                f"{task.name} has vectors of {task.vectors.shape[1]} numbers, got embedding_width {embedding_width}; "
                "make them equal"
            )
        with torch.no_grad():
            model.embedding.weight.copy_(torch.from_numpy(task.vectors[: task.vocabulary_size]))
    return model


def task_loss(task: Task) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the mean loss of predictions and targets: cross entropy of classes, squared error of values."""
    return cross_entropy if task.classifies else F.mse_loss


def cross_entropy(logits: Tensor, classes: Tensor, reduction: str = "mean") -> Tensor:
    """Return the cross entropy of logits (.., outputs) and classes (..); one output is the log odds of class 1 of two."""
    if logits.shape[-1] == 1:
        odds, classes = logits.squeeze(-1), classes.to(logits.dtype)
        return F.binary_cross_entropy_with_logits(odds, classes, reduction=reduction)
    return F.cross_entropy(logits.flatten(0, -2), classes.flatten(), reduction=reduction)


def likeliest(logits: Tensor) -> Tensor:
    """Return the classes (..) that logits (.., outputs) make likeliest, as `cross_entropy` reads them."""
    return (logits[..., 0] > 0).long() if logits.shape[-1] == 1 else logits.argmax(-1)


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, part: Part, *, batch_size: int = 500
) -> tuple[float, float]:
    """Return loss and metric of a model, or of a head alone, on a part: means over sequences, and steps, in float64.

    The metric is the share of classes found, or the root of the mean squared error. Where every step has its predictions,
    batches are so much smaller that these stay below 256 MiB.
    """
    device = next(model.parameters()).device
    if task.target == "steps":
        batch_size = max(1, min(batch_size, MOST // (task.outputs * part.time_steps)))
    was_training = model.training
    model.eval()
    loss, right = 0.0, 0
    for start in range(0, len(part), batch_size):
        inputs, targets = tensors(part.take(slice(start, start + batch_size)), device)
        predicted = model(inputs).double()
        loss += task_loss(task)(predicted, targets.to(_wide(targets))).item() * len(inputs)
        if task.classifies:
            right += (likeliest(predicted) == targets).sum().item()
    model.train(was_training)
    loss /= len(part)
    return loss, right / part.targets.size if task.classifies else math.sqrt(loss)


def _wide(targets: Tensor) -> torch.dtype:
    return torch.float64 if targets.is_floating_point() else targets.dtype


def tensors(part: Part, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a part as tensors on a device."""
    inputs, targets = torch.from_numpy(part.inputs), torch.from_numpy(part.targets)
    return inputs.to(device), targets.to(device)


def pick_device(setting: str) -> torch.device:
    """Return the device that the setting ``auto``, ``cpu`` or ``cuda`` stands for here; raises `ValueError`."""
    if setting == "cuda" and not torch.cuda.is_available():
        raise ValueError("the setting device is 'cuda' but PyTorch sees no GPU here; use 'auto'")
    if setting == "auto":
        setting = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(setting)
