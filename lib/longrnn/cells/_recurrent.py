"""The base class of the layers that users import, such as `longrnn.LEM`.

A layer class is a stack of cells (`Stack`): one per layer and direction. `Recurrent` gives it the
interface of `torch.nn.LSTM`: layouts, lengths, packed sequences and states.
"""

from collections.abc import Mapping, MutableMapping, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from longrnn.cells._cell import Cell, State
from longrnn.cells._checks import check_is_tensor, check_state, checked_flag
from longrnn.cells._compiling import with_own_code
from longrnn.cells._layouts import as_state, as_time_major, is_absent, state_tensors
from longrnn.cells._modes import any_weight, as_type, is_autocasting
from longrnn.cells._packing import Segment, as_rows, pack, segments_of, unpack
from longrnn.cells._repr import changed_arguments, differ, formatted
from longrnn.cells._stack import Stack

LAYERS: dict[str, type["Recurrent"]] = {}
"""The layer classes by the name of their cell."""


class Recurrent(Stack):
    """Layers of one kind of cell, with the interface of `torch.nn.LSTM`.

    A subclass gives its cell (``class LEM(Recurrent, core=LEMCore)``) and lists the
    hyperparameters in its constructor.

    Parameters
    ----------
    input_size
        Features of one input.
    hidden_size
        Features of one state.
    num_layers
        Number of layers; each reads the outputs of the one below.
    hyper_parameters
        Hyperparameters of every cell.
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
        A size or a hyperparameter has a wrong type or is out of range.

    Notes
    -----
    Layers work with `torch.compile`, `torch.export`, `torch.func`, `torch.nn.DataParallel`,
    autocast and double backward, but not with `torch.jit.script`, which PyTorch has deprecated.
    `torch.utils.flop_counter.FlopCounterMode` does not see the operations inside an engine: pass
    ``engine="reference"`` to count them.

    A program that `torch.export` has saved calls the engine that ran, and so does a package of
    AOTInductor. Write ``import longrnn`` before you load one; C++ cannot run it. Exported with
    ``engine="reference"``, a program needs PyTorch alone, but the length of its sequences is fixed.
    `LSTM` and `ChronoLSTM` are exported as PyTorch's LSTM, whose length is fixed, too.
    `torch.onnx.export` gets operators of PyTorch without being told. ONNX has none for the matrix
    functions of `ExponentialRNN`, `InverseRNN` and `LURNN`. `torch.fx.symbolic_trace` needs a
    tracer for which layers are leaves. Dynamic quantization leaves layers as they are.

    FSDP refuses scalar weights, which only `longrnn.FastRNN` and `longrnn.FastGRNN` have: give it
    these as `ignored_params`, and average their gradients over the processes in your program.
    Under autocast layers compute in the dtype of their weights. Call ``backward`` outside of it, as
    PyTorch recommends; inside, matrix products of gradients are rounded to 16 bits. In a program
    that is compiled under autocast they are rounded wherever ``backward`` is called, unless
    PyTorch's setting ``torch._functorch.config.backward_pass_autocast`` is ``"off"``.

    Compiled engines need float32 or float64. Weights of another type are run by the readable
    reference, which is slow.

    Numbers such as ``dt`` are attributes of the cells (``layer.cells.l0.dt``) and may be changed
    between runs; ``repr`` shows their present values. A `torch.nn.Parameter` in place of a number
    is trained; such a cell is run by the reference. Sizes and activations are fixed when a layer is
    built.

    Weights are drawn in the dtype of the layer. Those of 16 bits are drawn in float32 and rounded.

    Differences from `torch.nn.LSTM`, `torch.nn.GRU` and `torch.nn.RNN`:

    - There is one bias b where PyTorch adds two, ``bias_ih`` and ``bias_hh``. `LSTM.from_torch` and
      `RNN.from_torch` copy the weights of a PyTorch layer, and ``load_state_dict`` of `LSTM`, `RNN`
      and their one-step classes takes weights that were saved under PyTorch's names. A GRU cannot
      be copied: there the reset gate multiplies one of PyTorch's biases, and `longrnn.GRU` has no
      such bias.
    - Weights have the names of the equation, and are in ``layer.cells``: ``layer.cells.l0.W``. A
      loop that looks for ``weight`` or ``bias`` in the names of parameters finds none, and changes
      nothing without an error. Notebook 50 shows what to write instead.
    - The state is a tensor or a tuple, depending on the cell; its class says which. The first
      tensor is the output, as for PyTorch's layers, but `SRU` has it second.
    - No layer is an instance of `torch.nn.LSTM`.
    - Arguments after ``num_layers`` are given by name. `RNN` calls ``nonlinearity`` `activation`,
      and `LSTM` has no projections (``proj_size``). `ChronoLSTM` and `ExponentialRNN` have no
      argument ``bias``: they cannot be without biases.
    - ``forward`` also takes ``lengths`` of padded sequences, and an ``engine``.
    - Initial states are zeros as in PyTorch, but `train_initial_state` makes them parameters.
    - Weights are initialized as in the paper of a cell, if it says how, and otherwise as in
      PyTorch. `reset_parameters` chooses another initialization.

    Hooks on the cells in ``layer.cells`` are called once per run. So `torch.nn.utils.prune` works
    on their weights, as do the parametrizations of `torch.nn.utils.parametrizations`. The input and
    the outputs that a hook gets are packed as in a `PackedSequence`: (rows, features). `IndRNN`,
    `SRU` and `UnICORNN` keep weights in lists, such as ``layer.cells.l0.V``, whose hooks PyTorch
    never calls. Parametrizations work on these (``weight_norm(layer.cells.l0.V, "0")``), pruning
    does not.
    """

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
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            hyper_parameters,
            bias=bias,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )
        self.batch_first = checked_flag(self._label, "batch_first", batch_first)

    def flatten_parameters(self) -> None:
        """Do nothing; code written for `torch.nn.LSTM` may call it."""

    @staticmethod
    def _rename_torch_weights(
        state_dict: MutableMapping[str, Tensor], prefix: str, suffix: str, *, to: str
    ) -> None:
        """Do nothing; a layer that has the weights of PyTorch's renames them here.

        Parameters
        ----------
        state_dict
            Tensors by name, changed in place. Nothing happens if it does not have PyTorch's names.
        prefix, suffix
            What precedes and follows ``weight_hh`` and the like in PyTorch's names.
        to
            What precedes ``W``, ``R`` and ``b`` in our names.
        """

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
            The initial state: one tensor, or a tuple if the cell has several state tensors. Without
            a batch dimension if the input has none. The default is zero, or the parameters that
            `train_initial_state` has made.
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
        if lengths is None or u.shape[1] == 0:
            return self._run_tensor(input, u, hx, engine)
        if input.dim() == 2:
            raise ValueError(
                f"{self._label}: expected no lengths with one sequence; cut it to its length"
            )
        data, segments, order = pack(self._label, u, lengths)
        output, state = self._run_ordered(data, segments, order, hx, engine)
        output = unpack(output, segments, order, len(u))
        if self.batch_first:
            output = output.transpose(0, 1)
        return output, state

    def _run_tensor(self, input: Tensor, u: Tensor, hx, engine: str) -> tuple:
        """Run the layers over sequences of equal length; `u` is `input` in time-major layout."""
        time_steps, batch, _ = u.shape
        unbatched = input.dim() == 2
        if batch == 0:  # `torch.nn.LSTM` accepts it, too; the other engines need a sequence
            engine = "reference"
        states = self._initial_states(hx, batch, unbatched=unbatched)
        segments = [Segment(time_steps, batch)]
        output, final = self._run_layers(as_rows(u), segments, states, engine)
        output = output.unflatten(0, (time_steps, batch))
        if unbatched:
            final = tuple(part.squeeze(1) for part in final)
            return output.squeeze(1), as_state(final)
        if self.batch_first:
            output = output.transpose(0, 1)
        return output, as_state(final)

    def _run_packed(self, packed: PackedSequence, hx, engine: str) -> tuple:
        """Run the layers over a `PackedSequence`."""
        data = packed.data
        if data.dim() != 2 or data.shape[1] != self.input_size:
            raise ValueError(
                f"{self._label}: expected a PackedSequence of {self.input_size} features, "
                f"got {tuple(data.shape[1:])}"
            )
        segments = segments_of(packed.batch_sizes)
        output, state = self._run_ordered(data, segments, packed.sorted_indices, hx, engine)
        # `torch.compile` does not follow `packed._replace`.
        _, batch_sizes, sorted_indices, unsorted_indices = packed
        return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), state

    def _run_ordered(
        self, data: Tensor, segments: list[Segment], order: Tensor | None, hx, engine: str
    ) -> tuple[Tensor, Tensor | State]:
        """Run the layers over packed sequences.

        `order` has the indices of the sequences as they are packed, None if they are in order.
        """
        states = self._initial_states(hx, segments[0].batch, order=order)
        output, final = self._run_layers(data, segments, states, engine)
        if order is not None:
            inverse = order.argsort()
            final = tuple(part.index_select(1, inverse) for part in final)
        return output, as_state(final)

    def _initial_states(
        self, hx, batch: int, *, order: Tensor | None = None, unbatched: bool = False
    ) -> list[State | None]:
        """Check the initial state, and split it into one per cell, (batch, hidden) each.

        `order` sorts the sequences of a `PackedSequence`. Without a state, each cell creates its
        own in its `forward`: FSDP can keep a cell's weights sharded outside of it.
        """
        cells = list(self.cells.values())
        if is_absent(hx):
            return [None] * len(cells)
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

    def _present_hyper_parameters(self) -> dict[str, object]:
        """Return the hyperparameters by name, with the present values of those that were changed.

        The value of a changed one is that of all cells or, if these differ, a list with the value
        of each.
        """
        values = dict(self.hyper_parameters)
        cells = list(self.cells.values())
        for name in values:
            present = [cell.present_settings()[name] for cell in cells]
            pairs = zip(present, cells, strict=True)
            if any(differ(value, cell.settings[name]) for value, cell in pairs):
                values[name] = present
                if len({formatted(value) for value in present}) == 1:
                    values[name] = present[0]
        return values

    def extra_repr(self) -> str:
        values = self._present_hyper_parameters()
        for name in ("num_layers", "bias", "batch_first", "dropout", "bidirectional"):
            values[name] = getattr(self, name)
        return changed_arguments(self, values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"
