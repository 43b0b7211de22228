"""A model: a cell, an embedding where it reads tokens, and a linear head on what the states hold."""

from collections.abc import Callable
from fnmatch import fnmatchcase

import psutil
import torch
from longrnn.cells import Cell, make_cell
from torch import Tensor, nn
from torch.nn import functional as F

from study.config.network import Dropout, Network
from study.tasks import Task

HEADS: dict[str, Callable[[Tensor], Tensor]] = {
    "library": lambda weight: weight,  # as PyTorch drew it
    "glorot": nn.init.xavier_uniform_,
    "kaiming": nn.init.kaiming_normal_,
}
"""Initial weights of a head by name; but for the first, its bias starts at zero."""
ARRAYS = 12
"""Arrays of all states that a forward and a backward pass hold at once: LEM's engine; the others have 4 to 17."""


class Model(nn.Module):
    """A cell read out linearly: a class, a value, or one a time step.

    The input size of the cell is the number of features, or with a `vocabulary_size` the width of the embedding; `outputs` are the classes
    K, or values. The head reads the ``last`` state that is read out, ``every`` one, or ``all`` tensors of the last.
    """

    def __init__(
        self,
        cell: Cell,
        outputs: int,
        *,
        read: str = "last",
        vocabulary_size: int = 0,
        head: str = "library",
        dropout: Dropout | None = None,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, cell.input_size) if vocabulary_size else None
        self.cell = cell
        self.read = read
        seen = cell.hidden_size * (cell.states if read == "all" else 1)
        self.output = nn.Linear(seen, outputs)
        self.dropout = dropout or Dropout()
        if head != "library":
            HEADS[head](self.output.weight)
            nn.init.zeros_(self.output.bias)

    def drive(self, inputs: Tensor) -> Tensor:
        """Return what the cell reads, (time, batch, input), of inputs (batch, time, feature), or (batch, time) of int64 tokens."""
        dropout = self.dropout
        if self.embedding is not None:
            tokens, inputs = inputs, self.embedding(inputs)
            if self.training and dropout.embedding_dropout:
                kept = inputs.new_ones(self.embedding.num_embeddings, 1)
                inputs = inputs * F.embedding(tokens, F.dropout(kept, dropout.embedding_dropout))
        inputs = F.dropout(inputs, dropout.input_dropout, self.training)
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


def build(task: Task, network: Network) -> Model:
    """Return a new model for a task, its weights drawn from torch's generator, with what is frozen frozen.

    Raises `ValueError` where the head does not fit the task, tokens have no embedding or vectors of another size, a pattern of `frozen`
    fits no parameter, or as the cell says of its hyper-parameters.
    """
    every = task.target == "steps"
    if every and network.read:
        raise ValueError(f"{task.name} asks at every step; a head that reads 'all' does not fit it")
    read = network.read or ("every" if every else "last")
    tokens, size = task.kind == "tokens", network.embedding_width
    if tokens and size < 1:
        raise ValueError(f"{task.name}: tokens need an embedding; give embedding_width, 1 or more")
    inputs = size if tokens else task.features
    cell = make_cell(network.cell, inputs, network.width, **network.hyper_parameters)
    if network.start != "text":  # the text's are the constructor's
        length = task._example.inputs.shape[1]
        cell.start(network.start, time_steps=length, **network.start_settings)
    if network.train_initial_state:
        cell.train_initial_state()
    more = {"head": network.head, "dropout": network}
    more |= {"vocabulary_size": task.vocabulary_size} if tokens else {}
    model = Model(cell, task.outputs, read=read, **more)
    if network.start == "author" and tokens:
        nn.init.uniform_(model.embedding.weight, -0.05, 0.05)
    if task.vectors is not None:
        _start_from(task, model.embedding.weight)
    for pattern in network.frozen:
        for name in matched(model, pattern):
            model.get_parameter(name).requires_grad_(False)
    return model


@torch.no_grad()
def _start_from(task: Task, embedding: Tensor) -> None:
    """Let an embedding start from the task's vectors; raises `ValueError` where these are too few or of another size."""
    tokens, size = task.vectors.shape
    if task.vocabulary_size > tokens:
        raise ValueError(
            f"{task.name} has a vocabulary of {task.vocabulary_size:,} tokens, larger than the embedding's {tokens:,}; "
            "take an embedding made for this data set, or a data set with fewer words"
        )
    if embedding.shape[1] != size:
        raise ValueError(
            f"{task.name} has vectors of {size} numbers, got embedding_width {embedding.shape[1]}; make them equal"
        )
    embedding.copy_(torch.from_numpy(task.vectors[: task.vocabulary_size]))


def matched(model: nn.Module, pattern: str) -> list[str]:
    """Return the names of the parameters that a pattern fits; raises `ValueError` where there are none."""
    names = [name for name, _ in model.named_parameters()]
    if not (found := [name for name in names if fnmatchcase(name, pattern)]):
        raise ValueError(f"no parameter is called {pattern!r}; the model has {', '.join(names)}")
    return found


def pick_device(setting: str) -> torch.device:
    """Return the device that the setting ``auto``, ``cpu`` or ``cuda`` stands for here; raises `ValueError`."""
    if setting == "cuda" and not torch.cuda.is_available():
        raise ValueError("the setting device is 'cuda' but PyTorch sees no GPU here; use 'auto'")
    if setting == "auto":
        setting = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(setting)


def check_memory(
    task: Task, time_steps: int, batch_size: int, width: int, device: torch.device
) -> None:
    """Refuse a training that does not fit the bytes that the device has free now.

    Beside the task's parts, which lie in the processor's memory already, it needs about a batch's inputs, states, and predictions of every step;
    `width` is the recurrent dimension d, times the layers of a stack. The `ValueError` says how much is needed, how much there is, and a batch that would fit.
    """
    on_gpu = device.type == "cuda"
    free = torch.cuda.mem_get_info(device)[0] if on_gpu else psutil.virtual_memory().available
    # Logits, their softmax, and the gradient.
    predicted = 3 * task.outputs if task.target == "steps" else 0
    numbers = 2 * max(1, task.features) + ARRAYS * width + predicted
    a_sequence = 4 * time_steps * numbers
    fitting = free // a_sequence
    if batch_size > fitting:
        advice = f"batch_size to {fitting}" if fitting > 0 else "the length or their number"
        needed = batch_size * a_sequence / 2**30
        raise ValueError(
            f"{task.name}: batches of {batch_size} sequences of {time_steps} steps at width {width} need about {needed:.1f} GiB, "
            f"there are {free / 2**30:.1f} GiB; lower {advice}"
        )
