"""Layers of one kind of cell, one on the other, and the run over packed sequences."""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longrnn.cells._bias import biases_of, remove_biases
from longrnn.cells._cell import Cell, State
from longrnn.cells._checks import check_finite, check_type_and_device, checked_flag, checked_size
from longrnn.cells._compiling import NotScripted
from longrnn.cells._modes import any_weight, on_device
from longrnn.cells._packing import Packing, Segment


class Stack(NotScripted, nn.Module):
    """Layers of one kind of cell, in one direction or in both.

    Its subclass `longrnn.cells.Recurrent` adds the interface of `torch.nn.LSTM`.

    Parameters
    ----------
    input_size, hidden_size, num_layers, hyper_parameters, bias, dropout, bidirectional
        As in `longrnn.cells.Recurrent`.
    device, dtype
        Device and dtype of the weights.

    Raises
    ------
    ValueError
        A size or a hyperparameter has a wrong type or is out of range.
    """

    core: ClassVar[type[Cell]]
    """The cell: one layer in one direction."""
    fixed: ClassVar[Mapping[str, object]] = {}
    """Hyperparameters of the cell that the layer class sets itself, such as a number of layers."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        hyper_parameters: Mapping[str, object],
        *,
        bias: bool,
        dropout: float,
        bidirectional: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        label = self._label
        self.input_size = checked_size(label, "input_size", input_size)
        self.hidden_size = checked_size(label, "hidden_size", hidden_size)
        self.num_layers = checked_size(label, "num_layers", num_layers)
        if isinstance(dropout, bool) or not isinstance(dropout, Real) or not 0 <= dropout <= 1:
            raise ValueError(f"{label}: expected dropout to be between 0 and 1, got {dropout!r}")
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                f"{label}: dropout acts between layers, and num_layers=1 has nothing to drop",
                stacklevel=4,
            )
        self.bias = checked_flag(label, "bias", bias)
        self.dropout = float(dropout)
        self.bidirectional = checked_flag(label, "bidirectional", bidirectional)
        self.num_directions = 2 if self.bidirectional else 1
        self.hyper_parameters = dict(hyper_parameters)
        self.cells = nn.ModuleDict()
        for layer in range(self.num_layers):
            for direction in range(self.num_directions):
                with on_device(device):
                    cell = self._new_cell(layer, dtype)
                if not self.bias:
                    remove_biases(cell, label)
                self.cells[_cell_name(layer, direction)] = cell

    @property
    def _label(self) -> str:
        """Name of the class, for error messages."""
        return type(self).__name__

    def _new_cell(self, layer: int, dtype: torch.dtype | None) -> Cell:
        """Return a new cell for a layer."""
        features = self.input_size
        if layer > 0:
            features = self.hidden_size * self.num_directions
        settings = self.fixed | self.hyper_parameters
        return self.core(features, self.hidden_size, dtype=dtype, label=self._label, **settings)

    def _cells_of(self, layer: int) -> list[Cell]:
        """Return the cells of a layer, one per direction."""
        directions = range(self.num_directions)
        return [self.cells[_cell_name(layer, direction)] for direction in directions]

    def reset_parameters(self, start: str = "paper", *, time_steps: int | None = None) -> None:
        """Reinitialize all weights, from torch's random generator.

        Parameters
        ----------
        start
            Name of the initialization. All layers have ``paper``, which the constructor uses: that
            of the paper, or of PyTorch's recurrent layers if the paper gives none. Some have
            ``author``, that of the authors' program, and the initializations of the dissertation's
            experiments, ``padding`` and ``adding_author`` among others.
            ``type(layer).core.starts`` lists all.
        time_steps
            Length of the sequences. The initializations of the dissertation's experiments depend on
            it, the others do not.

        Raises
        ------
        ValueError
            The cell has no such initialization, or it needs `time_steps`.

        Examples
        --------
        >>> from longrnn import LEM
        >>> LEM(10, 20).reset_parameters("author")
        """
        for cell in self.cells.values():
            reset_cell(cell, start, time_steps=time_steps, bias=self.bias)

    def train_initial_state(self) -> None:
        """Make the initial states parameters, shared by all sequences and initialized to zero.

        Call it before the optimizer is built. A second call keeps the values.
        """
        for cell in self.cells.values():
            cell.train_initial_state()

    def _run_layers(
        self, data: Tensor, segments: Sequence[Segment], states: Sequence[State | None], engine: str
    ) -> tuple[Tensor, State]:
        """Run all layers over packed sequences.

        A state that is None is the cell's initial one.

        Returns
        -------
        output : (rows, num_directions * hidden_size)
            The outputs of the last layer.
        final : tuple of (num_layers * num_directions, batch, hidden)
            The last state of every layer and direction.
        """
        check_type_and_device(self._label, data, any_weight(self))
        check_finite(self._label, data)
        outputs = [data]  # the input, and the outputs of every layer
        finals = []
        remaining = iter(states)
        for layer in range(self.num_layers):
            below = self._input_of(outputs)
            directions = []
            for direction, cell in enumerate(self._cells_of(layer)):
                packing = Packing(segments, reverse=direction == 1)
                output, final = cell(below, next(remaining), engine=engine, packing=packing)
                directions.append(output)
                finals.append(final)
            output = directions[0]
            if self.bidirectional:
                output = torch.cat(directions, dim=1)
            if self.training and self.dropout > 0 and layer < self.num_layers - 1:
                output = self._drop(output, segments)
            outputs.append(output)
        # Copies, also of one part: users detach states in place, which PyTorch refuses for views.
        final = tuple(torch.stack(parts) for parts in zip(*finals, strict=True))
        return outputs[-1], final

    def _input_of(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the input of a layer, given the input and the outputs of all layers below."""
        return outputs[-1]

    def _drop(self, output: Tensor, segments: Sequence[Segment]) -> Tensor:
        """Apply dropout to the packed outputs of a layer."""
        return F.dropout(output, self.dropout)


@torch.no_grad()
def reset_cell(cell: Cell, start: str, *, time_steps: int | None, bias: bool) -> None:
    """Reinitialize the weights of a cell, and set the rest to zero.

    Parameters
    ----------
    cell
        The cell, which is changed in place.
    start, time_steps
        As in `Stack.reset_parameters`.
    bias
        Whether the cell has biases; if not, the initialization may have overwritten their zeros.

    Raises
    ------
    ValueError
        The cell has no such initialization, or it needs `time_steps`.
    """
    cell.start(start, time_steps=time_steps)
    if cell.x0 is not None:
        for part in cell.x0:
            part.zero_()
    if not bias:
        for zeros in biases_of(cell):
            zeros.zero_()


def _cell_name(layer: int, direction: int) -> str:
    """Return the name of a cell: ``l0``, ``l0_reverse``, ``l1``, as in PyTorch's parameters."""
    if direction == 1:
        return f"l{layer}_reverse"
    return f"l{layer}"
