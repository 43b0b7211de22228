"""The base class of the layers that users import, such as `longrnn.LEM`.

A layer class stacks cells: one per layer and direction. It has the interface of `torch.nn.LSTM`.
"""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from longrnn.cells._bias import biases_of, remove_biases
from longrnn.cells._cell import Cell, State
from longrnn.cells._checks import (
    check_finite,
    check_is_tensor,
    check_state,
    check_type_and_device,
    checked_size,
)
from longrnn.cells._compiling import with_own_code
from longrnn.cells._layouts import as_state, as_time_major, is_absent, state_tensors
from longrnn.cells._modes import any_weight, as_type, is_autocasting, on_device
from longrnn.cells._packing import Segment, pack, run_segments, segments_of
from longrnn.cells._repr import changed_arguments

LAYERS: dict[str, type["Recurrent"]] = {}
"""The layer classes by the name of their cell."""


class Recurrent(nn.Module):
    """Layers of one kind of cell, with the interface of `torch.nn.LSTM`.

    A subclass gives its cell (``class LEM(Recurrent, core=LEMCore)``) and lists the
    hyper-parameters in its constructor.

    Parameters
    ----------
    input_size
        Features of one input.
    hidden_size
        Features of one state.
    num_layers
        Number of layers; each reads the outputs of the one below.
    hyper_parameters
        Hyper-parameters of every cell.
    bias
        Whether the cells have biases.
    batch_first
        Whether inputs and outputs are (batch, time, features) instead of (time, batch, features).
    dropout
        Dropout probability in training, for the outputs of all layers but the last.
    bidirectional
        Whether each layer also reads the sequences backward. The outputs of both directions are
        then concatenated.
    device, dtype
        Device and dtype of the weights.

    Raises
    ------
    ValueError
        A size or a hyper-parameter has a wrong type or is out of range.

    Notes
    -----
    Layers work with `torch.compile`, `torch.export`, `torch.func`, autocast and double backward,
    but not with `torch.jit.script`, which PyTorch has deprecated. Under autocast they compute in
    the dtype of their weights. Compiled engines need float32 or float64; weights of another type
    are run by the readable reference, which is slow.

    Hooks on the cells in ``layer.cells`` are not called, because a layer does not call its cells as
    modules. So pruning and weight normalization by hooks do not work; those of
    `torch.nn.utils.parametrizations` do.
    """

    core: ClassVar[type[Cell]]
    """The cell: one layer in one direction."""
    fixed: ClassVar[Mapping[str, object]] = {}
    """Hyper-parameters of the cell that the layer class sets itself, such as a number of layers."""

    def __init_subclass__(cls, *, core: type[Cell] | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if core is None:  # a user's subclass of a layer class
            return
        cls.core = core
        if "forward" not in vars(cls):
            cls.forward = with_own_code(cls.forward, cls)
        LAYERS[core.name] = cls

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        hyper_parameters: Mapping[str, object],
        *,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        label = type(self).__name__
        self.input_size = checked_size(label, "input_size", input_size)
        self.hidden_size = checked_size(label, "hidden_size", hidden_size)
        self.num_layers = checked_size(label, "num_layers", num_layers)
        if isinstance(dropout, bool) or not isinstance(dropout, Real) or not 0 <= dropout <= 1:
            raise ValueError(f"{label}: expected dropout to be between 0 and 1, got {dropout!r}")
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                f"{label}: dropout acts between layers, and num_layers=1 has nothing to drop",
                stacklevel=3,
            )
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.num_directions = 2 if bidirectional else 1
        self.hyper_parameters = dict(hyper_parameters)
        self.cells = nn.ModuleDict()
        for layer in range(self.num_layers):
            for direction in range(self.num_directions):
                with on_device(device):
                    cell = self._new_cell(layer, dtype)
                if not bias:
                    remove_biases(cell, type(self).__name__)
                self.cells[_cell_name(layer, direction)] = cell

    def _new_cell(self, layer: int, dtype: torch.dtype | None) -> Cell:
        """Return a new cell for a layer."""
        features = self.input_size
        if layer > 0:
            features = self.hidden_size * self.num_directions
        settings = self.fixed | self.hyper_parameters
        return self.core(features, self.hidden_size, dtype=dtype, **settings)

    def reset_parameters(self, start: str = "text", *, time_steps: int | None = None) -> None:
        """Reinitialize all weights, from torch's random generator.

        Parameters
        ----------
        start
            Name of the initialization: ``text`` is that of the paper, ``author`` that of the
            authors' program. ``type(self).core.starts`` lists all.
        time_steps
            Length of the sequences, which some initializations depend on.

        Raises
        ------
        ValueError
            The cell has no such initialization, or it needs `time_steps`.
        """
        for cell in self.cells.values():
            cell.start(start, time_steps=time_steps)
            zeros = []
            if cell.x0 is not None:
                zeros += cell.x0
            if not self.bias:
                zeros += biases_of(cell)
            with torch.no_grad():
                for parameter in zeros:
                    parameter.zero_()

    def flatten_parameters(self) -> None:
        """Do nothing; code written for `torch.nn.LSTM` may call it."""

    def _cells_of(self, layer: int) -> list[Cell]:
        """Return the cells of a layer, one per direction."""
        directions = range(self.num_directions)
        return [self.cells[_cell_name(layer, direction)] for direction in directions]

    def train_initial_state(self) -> None:
        """Make the initial states parameters, shared by all sequences and initialized to zero."""
        for cell in self.cells.values():
            cell.train_initial_state()

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | State | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        engine: str = "auto",
    ) -> tuple[Tensor | PackedSequence, Tensor | State]:
        """Run the layers over sequences.

        Parameters
        ----------
        input : (time, batch, input_size), (batch, time, input_size), or (time, input_size)
            Sequences, batch first if `batch_first` is set; one sequence without a batch
            dimension; or a `PackedSequence`.
        hx : (num_layers * num_directions, batch, hidden_size), optional
            The initial state, zeros by default: one tensor, or a tuple if the cell has several
            state tensors. Without a batch dimension if the input has none.
        lengths : (batch,), optional
            Time steps of each sequence, if the input is padded. Outputs after a sequence's end
            are zero, and the last state is the one at its end.
        engine
            ``auto`` for the fastest implementation that can run, ``reference`` for plain PyTorch,
            or one of `longrnn.kernels.engine_names`.

        Returns
        -------
        output
            The outputs of the last layer after every input, shaped as the input with
            num_directions * hidden_size features.
        state
            The last state, shaped as `hx`.

        Raises
        ------
        TypeError
            The input is neither a tensor nor a `PackedSequence`.
        ValueError
            The input, the state or the lengths have a wrong shape, type or device, the input is
            not finite, or the engine cannot run it.
        """
        data = input
        if isinstance(input, PackedSequence):
            data = input.data
        if is_autocasting(data):
            dtype = any_weight(self).dtype
            if data.dtype.is_floating_point:
                input = input.to(dtype)
            (hx,) = as_type(dtype, hx)
            with torch.autocast(data.device.type, enabled=False):
                return self._run(input, hx, lengths, engine)
        return self._run(input, hx, lengths, engine)

    def _run(self, input, hx, lengths, engine: str) -> tuple:
        """Run the layers; see `forward`."""
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ValueError(
                    f"{self._label}: expected no lengths with a PackedSequence, which has its own"
                )
            return self._run_packed(input, hx, engine)
        check_is_tensor(self._label, input)
        u = as_time_major(self._label, input, self.input_size, batch_first=self.batch_first)
        if lengths is None:
            return self._run_tensor(input, u, hx, engine)
        if input.dim() == 2:
            raise ValueError(
                f"{self._label}: expected no lengths with one sequence; cut it to its length"
            )
        output, state = self._run_packed(pack(self._label, u, lengths), hx, engine)
        padded, _ = pad_packed_sequence(output, self.batch_first, total_length=len(u))
        return padded, state

    def _run_tensor(self, input: Tensor, u: Tensor, hx, engine: str) -> tuple:
        """Run the layers over sequences of equal length; `u` is `input` in time-major layout."""
        time_steps, batch, _ = u.shape
        unbatched = input.dim() == 2
        states = self._initial_states(hx, batch, unbatched=unbatched)
        output, final = self._run_layers(
            u.reshape(-1, self.input_size), [Segment(time_steps, batch)], states, engine
        )
        output = output.unflatten(0, (time_steps, batch))
        if unbatched:
            final = tuple(part.squeeze(1) for part in final)
            return output.squeeze(1), as_state(final)
        if self.batch_first:
            output = output.transpose(0, 1)
        return output, as_state(final)

    def _run_packed(self, packed: PackedSequence, hx, engine: str) -> tuple:
        """Run the layers over a `PackedSequence`."""
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        if data.dim() != 2 or data.shape[1] != self.input_size:
            raise ValueError(
                f"{self._label}: expected a PackedSequence of {self.input_size} features, "
                f"got {tuple(data.shape[1:])}"
            )
        segments = segments_of(batch_sizes)
        states = self._initial_states(hx, segments[0].batch, order=sorted_indices)
        output, final = self._run_layers(data, segments, states, engine)
        if unsorted_indices is not None:
            final = tuple(part.index_select(1, unsorted_indices) for part in final)
        output = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return output, as_state(final)

    def _initial_states(
        self, hx, batch: int, *, order: Tensor | None = None, unbatched: bool = False
    ) -> list[State]:
        """Check the initial state, and split it into one per cell, (batch, hidden) each.

        `order` sorts the sequences of a `PackedSequence`.
        """
        cells = list(self.cells.values())
        if is_absent(hx):
            return [cell.initial_state(batch) for cell in cells]
        shape = (len(cells), batch, self.hidden_size)
        if unbatched:
            shape = (len(cells), self.hidden_size)
        weight = any_weight(self)
        check_state(self._label, hx, [shape] * cells[0].states, weight)
        parts = state_tensors(hx)
        if unbatched:
            parts = tuple(part.unsqueeze(1) for part in parts)
        if order is not None:
            parts = tuple(part.index_select(1, order) for part in parts)
        states = []
        for index in range(len(cells)):
            states.append(tuple(part[index] for part in parts))
        return states

    def _run_layers(
        self, data: Tensor, segments: Sequence[Segment], states: Sequence[State], engine: str
    ) -> tuple[Tensor, State]:
        """Run all layers over packed sequences.

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
                output, final = run_segments(
                    cell,
                    below,
                    segments,
                    next(remaining),
                    reverse=direction == 1,
                    engine=engine,
                )
                directions.append(output)
                finals.append(final)
            output = directions[0]
            if self.bidirectional:
                output = torch.cat(directions, dim=1)
            if self.training and self.dropout > 0 and layer < self.num_layers - 1:
                output = self._drop(output, segments)
            outputs.append(output)
        final = tuple(torch.stack(parts) for parts in zip(*finals, strict=True))
        return outputs[-1], final

    def _input_of(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the input of a layer, given the input and the outputs of all layers below."""
        return outputs[-1]

    def _drop(self, output: Tensor, segments: Sequence[Segment]) -> Tensor:
        """Apply dropout to the packed outputs of a layer."""
        return F.dropout(output, self.dropout)

    @property
    def _label(self) -> str:
        """Name of the class, for error messages."""
        return type(self).__name__

    def extra_repr(self) -> str:
        values = dict(self.hyper_parameters)
        for name in ("num_layers", "bias", "batch_first", "dropout", "bidirectional"):
            values[name] = getattr(self, name)
        return changed_arguments(self, values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


def _cell_name(layer: int, direction: int) -> str:
    """Return the name of a cell: ``l0``, ``l0_reverse``, ``l1``, as in PyTorch's parameters."""
    if direction == 1:
        return f"l{layer}_reverse"
    return f"l{layer}"
