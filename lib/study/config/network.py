"""Which network is built: a cell, its initial weights, and what its head reads."""

from typing import Annotated, Any, Literal

from longrnn.cells import cell_class
from pydantic import AfterValidator, Field

from study.config.section import Positive, Section, Share, Size

Architecture = Annotated[str, AfterValidator(lambda name: cell_class(name).name)]
"""Name of a cell, checked when `params.yaml` is read."""


class Dropout(Section):
    """Shares of what is set to zero during training.

    One mask serves all time steps of a sequence (variational dropout), except for the inputs.
    Dropout between the layers of a stack is a hyper-parameter of the cell.

    Attributes
    ----------
    input_dropout : float
        Share of the inputs.
    embedding_dropout : float
        Share of the words of an embedding; a dropped word is dropped everywhere in the batch.
    output_dropout : float
        Share of what the head reads.
    """

    input_dropout: Share = 0.0
    embedding_dropout: Share = 0.0
    output_dropout: Share = 0.0


class Network(Dropout):
    """A network: a cell, how it starts, what its head reads, and what stays as it begins.

    Attributes
    ----------
    cell : str
        Name of the cell (`longrnn.cells.cell_names`).
    width : int
        Recurrent dimension d.
    hyper_parameters : dict
        Keywords of the cell's constructor.
    start : str
        Name of the initial weights (`longrnn.cells.Cell.starts`).
    start_settings : dict
        Settings of these initial weights.
    head : str
        Initial weights of the linear head: ``library`` (as PyTorch draws them), ``glorot``,
        ``kaiming``.
    read : str
        What the head reads: the last state, or with ``all`` every tensor of it. If the task has a
        target at every step, the head reads every state.
    embedding_width : int
        Numbers that represent a token; 0 for tasks without tokens. An embedding starts from the
        task's own vectors if there are any, with the start ``author`` uniform within 0.05 of zero
        as in Keras.
    train_initial_state : bool
        Whether the state before the first input is trained, starting from zero.
    frozen : tuple of str
        Patterns of names of parameters that keep their initial values, such as ``cell.*`` for a
        reservoir.
    """

    cell: Architecture
    width: Positive
    hyper_parameters: dict[str, Any] = Field(default_factory=dict)
    start: str = "text"
    start_settings: dict[str, Any] = Field(default_factory=dict)
    head: Literal["library", "glorot", "kaiming"] = "library"
    read: Literal["", "all"] = ""
    embedding_width: Size = 0
    train_initial_state: bool = False
    frozen: tuple[str, ...] = ()
