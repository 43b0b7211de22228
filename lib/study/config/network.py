"""Settings of a network: cell, initial weights, head, dropout, frozen parameters."""

from typing import Annotated, Any, Literal

from longrnn.cells import cell_class
from pydantic import AfterValidator, Field

from study.config.section import Fraction, Positive, Section, Size

Architecture = Annotated[str, AfterValidator(lambda name: cell_class(name).name)]
"""Name of a cell, checked when `params.yaml` is read."""
DEFAULT_START = "paper"
"""The default initialization of a cell, which is the one in the text of its paper."""


class Dropout(Section):
    """Dropout rates.

    The same mask is used at all time steps of a sequence (variational dropout), except for the
    inputs. Dropout between stacked layers is a hyperparameter of the cell instead.

    Attributes
    ----------
    input_dropout : float
        Rate for the inputs.
    embedding_dropout : float
        Rate for the words of an embedding; a dropped word is dropped everywhere in the batch.
    output_dropout : float
        Rate for the inputs of the head.
    """

    input_dropout: Fraction = 0.0
    embedding_dropout: Fraction = 0.0
    output_dropout: Fraction = 0.0


class Network(Dropout):
    """Settings of a network.

    Attributes
    ----------
    cell : str
        Name of the cell (`longrnn.cells.cell_names`).
    width : int
        Recurrent dimension d.
    hyper_parameters : dict
        Keywords of the cell's constructor.
    start : str
        Name of the cell's initialization (a key of `longrnn.cells.Cell.starts`): ``paper`` is the
        paper's, ``author`` that of the authors' program.
    start_settings : dict
        Keyword arguments of this initialization.
    head : str
        Initialization of the linear head: ``library`` (PyTorch's default), ``glorot``, ``kaiming``.
    read : str
        Input of the head: by default the cell's output at the last time step, with ``all`` every
        tensor of the final state. For tasks with a target at every step, the head always reads the
        output at every step.
    embedding_width : int
        Dimension of the embedding; 0 for tasks without tokens. An embedding starts from the task's
        pretrained vectors if there are any. Otherwise it is uniform within 0.05 of zero, as in
        Keras, if `start` is ``author``, and PyTorch's default if not.
    train_initial_state : bool
        Whether the initial state is a parameter, which starts at zero.
    frozen : tuple of str
        Glob patterns of the parameters that are not trained, such as ``cell.*`` for a reservoir.
    """

    cell: Architecture
    width: Positive
    hyper_parameters: dict[str, Any] = Field(default_factory=dict)
    start: str = DEFAULT_START
    start_settings: dict[str, Any] = Field(default_factory=dict)
    head: Literal["library", "glorot", "kaiming"] = "library"
    read: Literal["", "all"] = ""
    embedding_width: Size = 0
    train_initial_state: bool = False
    frozen: tuple[str, ...] = ()
