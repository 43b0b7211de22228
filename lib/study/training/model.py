"""A model: a cell, an embedding if it reads tokens, and a linear head."""

from collections.abc import Callable
from fnmatch import fnmatchcase

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
"""Initial weights of a head by name. The bias starts at zero, except with ``library``."""
_KERAS_EMBEDDING = 0.05
"""Keras draws the numbers of an embedding uniformly between this and its negative."""


class Model(nn.Module):
    """A cell with a linear head.

    Its predictions are classes or values, one per sequence or one per time step.
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
        """Build the embedding and the head around a cell.

        Parameters
        ----------
        cell : Cell
            Its input size is the number of features, or the width of the embedding.
        outputs : int
            Number of classes, or of values.
        read : str
            What the head reads: the ``last`` state that is read out, ``all`` tensors of the last
            state, or ``every`` state that is read out.
        vocabulary_size : int
            Number of tokens; 0 for inputs that are numbers.
        head : str
            Initial weights of the head, a name in `HEADS`.
        dropout : Dropout, optional
            None for no dropout.
        """
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, cell.input_size) if vocabulary_size else None
        self.cell = cell
        self.read = read
        tensors_read = cell.states if read == "all" else 1
        self.output = nn.Linear(cell.hidden_size * tensors_read, outputs)
        self.dropout = dropout or Dropout()
        if head != "library":
            HEADS[head](self.output.weight)
            nn.init.zeros_(self.output.bias)

    def drive(self, inputs: Tensor) -> Tensor:
        """Return what the cell reads.

        Parameters
        ----------
        inputs : Tensor
            Shape (batch, time, feature), or (batch, time) of int64 tokens.

        Returns
        -------
        Tensor
            Shape (time, batch, input).
        """
        if self.embedding is not None:
            inputs = self._embed(inputs)
        inputs = F.dropout(inputs, self.dropout.input_dropout, self.training)
        return inputs.transpose(0, 1).contiguous()

    def _embed(self, tokens: Tensor) -> Tensor:
        """Return the vectors of tokens; a dropped word is zero everywhere in the batch."""
        vectors = self.embedding(tokens)
        share = self.dropout.embedding_dropout
        if self.training and share:
            mask = F.dropout(vectors.new_ones(self.embedding.num_embeddings, 1), share)
            vectors = vectors * F.embedding(tokens, mask)
        return vectors

    def forward(self, inputs: Tensor, *, engine: str = "auto") -> Tensor:
        """Return the predictions.

        Parameters
        ----------
        inputs : Tensor
            As `drive` takes them.
        engine : str
            The cell's engine.

        Returns
        -------
        Tensor
            Shape (batch, outputs), or (batch, time, outputs) if the head reads every state.
        """
        outputs, state = self.cell(self.drive(inputs), engine=engine)
        share = self.dropout.output_dropout
        if self.read == "every":
            seen = _drop_features(outputs.transpose(0, 1), share, self.training)
        else:
            # Not the last of the outputs, whose gradient would need an array over all times.
            seen = F.dropout(self.seen(state), share, self.training)
        return self.output(seen)

    def seen(self, state: tuple[Tensor, ...]) -> Tensor:
        """Return what the head reads of the cell's final state.

        Parameters
        ----------
        state : tuple of Tensor
            Each of shape (batch, d).

        Returns
        -------
        Tensor
            Shape (batch, d), or (batch, states * d) if it reads all tensors.
        """
        return torch.cat(state, dim=1) if self.read == "all" else state[self.cell.readout]


def _drop_features(x: Tensor, share: float, training: bool) -> Tensor:
    """Drop the same features of (batch, time, feature) at every time step."""
    if not (training and share):
        return x
    return x * F.dropout(torch.ones_like(x[:, :1]), share, training=True)


def build(task: Task, network: Network) -> Model:
    """Build a model for a task, its weights drawn from PyTorch's generator.

    Parameters
    ----------
    task : Task
        Its inputs and targets decide the sizes of the model and what the head reads.
    network : Network
        Cell, initial weights, head, and which parameters are frozen.

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        The head does not fit the task, tokens have no embedding or vectors of another size, a
        pattern of `frozen` matches no parameter, or the cell refuses its hyper-parameters.
    """
    model = Model(
        _build_cell(task, network),
        task.outputs,
        read=_head_reads(task, network),
        vocabulary_size=task.vocabulary_size if task.kind == "tokens" else 0,
        head=network.head,
        dropout=network,
    )
    if model.embedding is not None:
        if network.start == "author":
            nn.init.uniform_(model.embedding.weight, -_KERAS_EMBEDDING, _KERAS_EMBEDDING)
        if task.vectors is not None:
            _copy_vectors(task, model.embedding.weight)
    for pattern in network.frozen:
        for name in matching_parameters(model, pattern):
            model.get_parameter(name).requires_grad_(False)
    return model


def _head_reads(task: Task, network: Network) -> str:
    """Return the `read` of a `Model` for a task."""
    if task.target != "steps":
        return network.read or "last"
    if network.read:
        raise ValueError(
            f"{task.name} has a target at every step; a head that reads {network.read!r} "
            "does not fit it"
        )
    return "every"


def _build_cell(task: Task, network: Network) -> Cell:
    """Return the cell of a network, with its initial weights."""
    if task.kind != "tokens":
        input_size = task.features
    elif network.embedding_width:
        input_size = network.embedding_width
    else:
        raise ValueError(f"{task.name}: tokens need an embedding; give embedding_width, 1 or more")
    cell = make_cell(network.cell, input_size, network.width, **network.hyper_parameters)
    if network.start != "text":  # the paper's initial weights are the constructor's
        time_steps = task._example.inputs.shape[1]
        cell.start(network.start, time_steps=time_steps, **network.start_settings)
    if network.train_initial_state:
        cell.train_initial_state()
    return cell


@torch.no_grad()
def _copy_vectors(task: Task, embedding: Tensor) -> None:
    """Let an embedding start from the task's vectors.

    Raises `ValueError` if there are too few vectors or they have another size.
    """
    tokens, size = task.vectors.shape
    if task.vocabulary_size > tokens:
        raise ValueError(
            f"{task.name} has a vocabulary of {task.vocabulary_size:,} tokens, larger than the "
            f"embedding's {tokens:,}; take an embedding made for this data set, or a data set with "
            "fewer words"
        )
    if embedding.shape[1] != size:
        raise ValueError(
            f"{task.name} has vectors of {size} numbers, got embedding_width "
            f"{embedding.shape[1]}; make them equal"
        )
    embedding.copy_(torch.from_numpy(task.vectors[: task.vocabulary_size]))


def matching_parameters(model: nn.Module, pattern: str) -> list[str]:
    """Return the names of the parameters that match a pattern such as ``cell.*``.

    Raises
    ------
    ValueError
        There are none.
    """
    names = [name for name, _ in model.named_parameters()]
    matches = [name for name in names if fnmatchcase(name, pattern)]
    if not matches:
        raise ValueError(f"no parameter is called {pattern!r}; the model has {', '.join(names)}")
    return matches


def pick_device(setting: str) -> torch.device:
    """Return the device that ``auto``, ``cpu`` or ``cuda`` stands for on this machine.

    Raises
    ------
    ValueError
        The setting is ``cuda`` and PyTorch sees no GPU.
    """
    if setting == "cuda" and not torch.cuda.is_available():
        raise ValueError("the setting device is 'cuda' but PyTorch sees no GPU here; use 'auto'")
    if setting == "auto":
        setting = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(setting)
