"""A model: a cell, an embedding if it reads tokens, and a linear head."""

from collections.abc import Callable
from fnmatch import fnmatchcase

import torch
from longrnn.cells import Cell, make_cell
from torch import Tensor, nn
from torch.nn import functional as F

from study.config.network import DEFAULT_START, Dropout, Network
from study.tasks import Task

HEADS: dict[str, Callable[[Tensor], Tensor]] = {
    "library": lambda weight: weight,  # PyTorch's default
    "glorot": nn.init.xavier_uniform_,
    "kaiming": nn.init.kaiming_normal_,
}
"""Initializers of the head's weight by name. The bias starts at zero, except with ``library``."""
_KERAS_EMBEDDING = 0.05
"""Keras draws the initial embedding uniformly between minus this number and this number."""


class Model(nn.Module):
    """A cell with a linear head, and an embedding if the inputs are tokens.

    It predicts a class or a value, either once per sequence or at every time step.
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
            Number of predicted numbers: one per class (logits), or one per value.
        read : {"last", "all", "every"}
            Input of the head: the cell's output at the last time step, all tensors of the final
            state (for cells whose state has several), or the outputs at every time step.
        vocabulary_size : int
            Number of tokens; 0 for real-valued inputs, which need no embedding.
        head : str
            Initial weights of the head, a key of `HEADS`.
        dropout : Dropout, optional
            Dropout rates; None for no dropout.
        """
        super().__init__()
        self.embedding = None
        if vocabulary_size:
            self.embedding = nn.Embedding(vocabulary_size, cell.input_size)
        self.cell = cell
        self.read = read
        tensors_read = cell.states if read == "all" else 1
        self.output = nn.Linear(cell.hidden_size * tensors_read, outputs)
        self.dropout = dropout or Dropout()
        if head != "library":
            HEADS[head](self.output.weight)
            nn.init.zeros_(self.output.bias)

    def cell_inputs(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the cell: embedded, with dropout, and time-major.

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
        """Embed tokens; embedding dropout zeroes a word everywhere in the batch."""
        vectors = self.embedding(tokens)
        rate = self.dropout.embedding_dropout
        if self.training and rate:
            mask = F.dropout(vectors.new_ones(self.embedding.num_embeddings, 1), rate)
            vectors = vectors * F.embedding(tokens, mask)
        return vectors

    def forward(self, inputs: Tensor, *, engine: str = "auto") -> Tensor:
        """Return the predictions.

        Parameters
        ----------
        inputs : Tensor
            Shape (batch, time, feature), or (batch, time) of int64 tokens.
        engine : str
            Engine of the cell, see `longrnn.cells.Cell.forward`.

        Returns
        -------
        Tensor
            Shape (batch, outputs), or (batch, time, outputs) if the head reads every time step.
        """
        outputs, state = self.cell(self.cell_inputs(inputs), engine=engine)
        rate = self.dropout.output_dropout
        if self.read == "every":
            features = _drop_features(outputs.transpose(0, 1), rate, self.training)
        else:
            # The final state, because the gradient of outputs[-1] would have all time steps.
            features = F.dropout(self.head_inputs(state), rate, self.training)
        return self.output(features)

    def head_inputs(self, state: tuple[Tensor, ...]) -> Tensor:
        """Return the inputs of a head that reads the final state.

        Parameters
        ----------
        state : tuple of Tensor
            Each of shape (batch, d).

        Returns
        -------
        Tensor
            Shape (batch, d), or (batch, states * d) if ``read`` is ``all``.
        """
        if self.read == "all":
            return torch.cat(state, dim=1)
        return state[self.cell.readout]


def _drop_features(x: Tensor, rate: float, training: bool) -> Tensor:
    """Apply dropout to (batch, time, feature) with the same mask at every time step."""
    if not (training and rate):
        return x
    return x * F.dropout(torch.ones_like(x[:, :1]), rate, training=True)


def build_model(task: Task, network: Network) -> Model:
    """Build a model for a task, with initial weights drawn from PyTorch's random generator.

    Parameters
    ----------
    task : Task
        Sets the number of features, the number of outputs, and whether the head reads every time
        step or the last state.
    network : Network
        Cell, initial weights, head, and which parameters are frozen.

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        The head does not fit the task, tokens have no embedding or pretrained vectors of another
        size, a pattern of `frozen` matches no parameter, or the cell refuses its hyperparameters.
    """
    model = Model(
        _build_cell(task, network),
        task.outputs,
        read=_head_reads(task, network),
        vocabulary_size=task.vocabulary_size if task.kind == "tokens" else 0,
        head=network.head,
        dropout=network,  # a `Network` has the fields of `Dropout`
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
    """Return the argument `read` of `Model`, from the task's targets and the network."""
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
    if network.start != DEFAULT_START:  # which the constructor draws
        time_steps = task.example.inputs.shape[1]
        cell.start(network.start, time_steps=time_steps, **network.start_settings)
    if network.train_initial_state:
        cell.train_initial_state()
    return cell


@torch.no_grad()
def _copy_vectors(task: Task, embedding: Tensor) -> None:
    """Initialize an embedding with the task's pretrained vectors.

    Raises `ValueError` if there are too few vectors, or their size is not the embedding's.
    """
    tokens, size = task.vectors.shape
    if task.vocabulary_size > tokens:
        raise ValueError(
            f"{task.name} has a vocabulary of {task.vocabulary_size:,} tokens, larger than the "
            f"embedding's {tokens:,}; use an embedding made for this data set, or a data set with "
            "fewer words"
        )
    if embedding.shape[1] != size:
        raise ValueError(
            f"{task.name} has vectors of {size} numbers, got embedding_width "
            f"{embedding.shape[1]}; make them equal"
        )
    embedding.copy_(torch.from_numpy(task.vectors[: task.vocabulary_size]))


def matching_parameters(model: nn.Module, pattern: str) -> list[str]:
    """Return the names of the parameters that match a glob pattern such as ``cell.*``.

    Parameters
    ----------
    model : nn.Module
    pattern : str
        Glob pattern of names, in which ``*`` stands for any characters.

    Returns
    -------
    list of str
        At least one name, in the order of ``model.named_parameters()``.

    Raises
    ------
    ValueError
        No name matches.
    """
    names = [name for name, _ in model.named_parameters()]
    matches = [name for name in names if fnmatchcase(name, pattern)]
    if not matches:
        raise ValueError(f"no parameter is called {pattern!r}; the model has {', '.join(names)}")
    return matches


def pick_device(setting: str) -> torch.device:
    """Return the device for the setting ``auto``, ``cpu`` or ``cuda``.

    Parameters
    ----------
    setting : str
        ``auto`` picks a GPU if PyTorch sees one.

    Returns
    -------
    torch.device

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
