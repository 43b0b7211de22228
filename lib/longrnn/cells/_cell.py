"""The base class of all cells: its step, its state, and the run over sequences.

A `Cell` is one architecture in one direction. The layer classes that users import, such as
`longrnn.LEM`, stack cells (see `longrnn.cells._recurrent`).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from longrnn import kernels
from longrnn.cells._checks import (
    check_finite,
    check_is_tensor,
    check_state,
    check_type_and_device,
)
from longrnn.cells._compiling import with_own_code
from longrnn.cells._declared import NOTHING, DeclaredModule
from longrnn.cells._definition import (
    CellDefinitionError,
    check_definition,
    check_names,
    check_weights,
)
from longrnn.cells._modes import any_weight, as_type, is_autocasting
from longrnn.cells._packing import Packing, run_segments
from longrnn.cells._registry import REGISTRY
from longrnn.cells._unroll import State, Step, unroll
from longrnn.kernels._modes import is_in_forward_mode


class Cell(DeclaredModule):
    """Base class of a recurrent architecture: one layer in one direction.

    A subclass gives its name (``class LSTMCore(Cell, name="lstm")``), which registers it. It cites
    its source, writes the equation as the pure function `step`, and declares its weights and
    hyperparameters once, with shape or range and meaning (see
    `longrnn.cells._declared.DeclaredModule`). Training, adjoints, probes, tests and figures use
    these declarations. A subclass of a named cell needs no name to replace its `step`; it then runs
    without a compiled engine.

    A method ``start_x(self)`` implements the initialization called ``x``. The constructor uses
    ``paper``, the initialization of the paper; by default it is uniform as in PyTorch's recurrent
    layers. ``author`` is the initialization in a public program of the authors (in that of the
    dissertation, if it has the cell).

    Parameters
    ----------
    input_size
        Features p of one input u_t.
    hidden_size
        The recurrent dimension d.
    dtype
        Type of the weights; PyTorch's default type if None.
    label
        First word of error messages: the name of a layer class that has this cell, or by default
        the name of the cell.
    **hyper_parameters
        Hyperparameters that the cell declares; they become attributes.

    Raises
    ------
    TypeError
        The class is `Cell` itself, or a subclass without a name.
    ValueError
        A size or a hyperparameter has a wrong type or is out of range.
    """

    title: ClassVar[str]
    """Name of the architecture in prose."""
    source: ClassVar[str]
    """Source of the equation: paper and equation number."""
    step: ClassVar[Step]
    """The recurrence, a pure function ``step(weights, state, u_t) -> state``. Each state tensor is
    (batch, d), and u_t is (batch, p)."""
    states: int = 1
    """Number of tensors in the state, each (batch, hidden)."""
    readout: int = 0
    """Index in the state of the tensor that is the output."""
    counters: Sequence[int] = ()
    """Indices in the state of tensors that count time steps. They don't remember inputs."""
    reads_output: ClassVar[bool] = True
    """Whether a step depends on the output of the step before."""
    biases: ClassVar[Sequence[str]] = ("b",)
    """Names of the weights that ``bias=False`` removes in a layer class."""
    engine_options: Mapping[str, object] = NOTHING
    """Options for the engine, which don't change results (see `longrnn.kernels.Engine`)."""
    _step_of_engines: ClassVar[Step]
    """The step that the engines of this name compute; `step` itself may have been replaced."""

    def __init_subclass__(cls, *, name: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(name=name, **kwargs)
        if name is None:
            return
        check_definition(cls)
        # A notebook may define its cell again, so only another module's cell is a conflict.
        known = REGISTRY.get(name, cls)
        if known.__module__ != cls.__module__:
            raise TypeError(f"two cells are called {name!r}: {known} and {cls}; rename one")
        if "forward" not in vars(cls):
            cls.forward = with_own_code(cls.forward, cls)
        cls._step_of_engines = staticmethod(cls.step)
        REGISTRY[name] = cls

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        dtype: torch.dtype | None = None,
        label: str | None = None,
        **hyper_parameters: object,
    ) -> None:
        kind = type(self)
        if kind is Cell:
            raise TypeError(
                "Cell is the base class of all cells and has no equations; build one of them, "
                "such as make_cell('lem', input_size, hidden_size), or define a subclass"
            )
        if not hasattr(kind, "name"):
            raise CellDefinitionError(
                f"{kind.__name__} has no name; define it as class {kind.__name__}(Cell, name=...)"
            )
        super().__init__(input_size, hidden_size, dtype=dtype, label=label, **hyper_parameters)
        self.x0: nn.ParameterList | None = None
        check_weights(self)
        if type(self).weights is Cell.weights:
            check_names(self)

    def weights(self) -> NamedTuple:
        """Return the first argument of `step`; parametrized weights are computed once.

        Returns
        -------
        NamedTuple
            The attributes of the cell that `Weights` names, for most cells all weights and the
            hyperparameters of the equation.
        """
        return self.Weights(*(getattr(self, field) for field in self.Weights._fields))

    def bias_conflict(self) -> str:
        """Check whether the cell can be without biases.

        Returns
        -------
        str
            Why it cannot, as it follows "expected bias=True" in an error message; empty if it can.
        """
        return ""

    def time_steps(self, u: Tensor) -> tuple[Tensor, ...]:
        """Return the learned step sizes of the cell along sequences.

        Parameters
        ----------
        u : (time, batch, input)
            The sequences, which the step sizes of some cells depend on.

        Returns
        -------
        tuple of Tensor
            One tensor per layer or kind of step; empty for cells without learned step sizes.
        """
        return ()

    def train_initial_state(self) -> None:
        """Make the initial state a parameter, shared by all sequences and initialized to zero.

        Call it before the optimizer is built. A second call keeps the values. What no gradient can
        reach is not trained, because `DistributedDataParallel` refuses parameters without one: the
        counts of time steps, and an output that the step does not read.
        """
        if self.x0 is not None:
            return
        like = any_weight(self)
        zeros = [nn.Parameter(like.new_zeros(self.hidden_size)) for _ in range(self.states)]
        self.x0 = nn.ParameterList(zeros)
        for index in self.counters:
            self.x0[index].requires_grad_(False)
        if not self.reads_output:
            self.x0[self.readout].requires_grad_(False)

    def initial_state(self, batch: int) -> State:
        """Return the state before the first input: zeros, unless it is trained.

        Parameters
        ----------
        batch
            Number of sequences.

        Returns
        -------
        tuple of (batch, hidden)
            One tensor for each of the cell's `states`.
        """
        if self.x0 is not None:
            return tuple(part.expand(batch, -1) for part in self.x0)
        like = any_weight(self)
        return tuple(like.new_zeros(batch, self.hidden_size) for _ in range(self.states))

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest: object) -> None:
        """Load a state dict, and create the trained initial state first if the dict has one."""
        if self.x0 is None and f"{prefix}x0.0" in state_dict:
            self.train_initial_state()
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(
        self,
        u: Tensor,
        state: State | None = None,
        *,
        engine: str = "auto",
        packing: Packing | None = None,
        checked: bool = False,
    ) -> tuple[Tensor, State]:
        """Run the cell over sequences.

        Parameters
        ----------
        u : (time, batch, input)
            The sequences.
        state : tuple of (batch, hidden), optional
            The state before the first input; see `initial_state` for the default.
        engine
            ``auto``, ``reference`` or one of `longrnn.kernels.engine_names`.
        packing
            Set by the layer classes, which call their cells so that hooks on a cell are called.
            Then `u` is (rows, input), sequences packed as `longrnn.cells._packing` describes, and
            has been checked.
        checked
            Set by the one-step classes, which have checked the input and the state.

        Returns
        -------
        outputs : (time, batch, hidden)
            The output tensor of the state (index `readout`) after every input; (rows, hidden) with
            `packing`.
        state : tuple of (batch, hidden)
            The full state after the last input.

        Raises
        ------
        TypeError
            The input is not a tensor.
        ValueError
            The input or the state has the wrong shape, type or device, the input has no time
            steps or is not finite, or the engine cannot run it.
        """
        if packing is not None:
            if state is None:
                state = self.initial_state(packing.segments[0].batch)
            return run_segments(self, u, state, packing, engine=engine)
        if checked:
            return self._run(u, state, engine)
        if is_autocasting(u):
            u, state = as_type(any_weight(self).dtype, u, state)
            with torch.autocast(u.device.type, enabled=False):
                return self._checked_run(u, state, engine)
        return self._checked_run(u, state, engine)

    def _checked_run(self, u: Tensor, state: State | None, engine: str) -> tuple[Tensor, State]:
        """Check the input and the state, then run."""
        self.check_input(u, state)
        return self._run(u, state, engine)

    def _run(self, u: Tensor, state: State | None, engine: str) -> tuple[Tensor, State]:
        """Run from a state, by default the initial one."""
        if state is None:
            state = self.initial_state(u.shape[1])
        return self.run(u, state, engine=engine)

    def run(
        self, u: Tensor, state: State, *, engine: str = "auto", weights: tuple | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell like `forward`, but without checking the input and the state.

        Parameters
        ----------
        u, state, engine
            As in `forward`.
        weights
            Result of `run_weights`, to share it between several calls.

        Returns
        -------
        outputs, state
            As from `forward`.
        """
        if weights is None:
            weights = self.run_weights(u.shape[1])
        engine = self.engine_for(engine)
        if engine == "auto" and is_in_forward_mode():
            engine = "reference"
        options = self.engine_options
        engine_run = kernels.select(self.name, engine, u, options, self.hidden_size)
        if engine_run is None:
            engine_run = partial(unroll, self.step, readout=self.readout)
        return engine_run(weights, state, u)

    def engine_for(self, engine: str) -> str:
        """Return the engine that runs the cell if `engine` is requested.

        An engine computes the step of the cell whose name it is registered for, and takes numbers
        such as a time step as constants. Only the reference runs a cell whose step was replaced, by
        a subclass, a user or its activation, or one with a tensor in place of a number, which may
        be trained.

        Parameters
        ----------
        engine
            As in `forward`.

        Returns
        -------
        str
            `engine`, but ``reference`` instead of ``auto`` if only the reference runs the cell.

        Raises
        ------
        ValueError
            `engine` is not a name, or only the reference runs the cell, and `engine` is neither
            ``auto`` nor the reference.
        """
        if not isinstance(engine, str):
            raise ValueError(
                f"{self.label}: expected engine to be a name such as 'auto', got {engine!r}"
            )
        obstacle = self._obstacle_to_engines()
        if not obstacle or engine.startswith("reference"):
            return engine
        if engine == "auto":
            return "reference"
        raise ValueError(
            f"engine {engine!r} cannot run {self.label}: {obstacle}; use engine='auto'"
        )

    def _obstacle_to_engines(self) -> str:
        """Return why only the reference runs this cell; an empty string if engines do, too."""
        if self.step is not self._step_of_engines:
            return "this cell has another step than the one that the engine computes"
        for name in self.settings:
            if name in self.shapes or name in self._buffers:
                continue  # step sizes of the incremental RNN, which engines take as a tensor
            if isinstance(getattr(self, name, None), Tensor):
                return f"its {name} is a tensor, and the engine takes it as a constant number"
        return ""

    def run_weights(self, batch: int) -> NamedTuple:
        """Return the weights for one run, with new dropout masks if the cell has dropout.

        Parameters
        ----------
        batch
            Number of sequences.

        Returns
        -------
        NamedTuple
            First argument of `step`.
        """
        return self.weights()

    def check_input(self, u: Tensor, state: State | None = None) -> None:
        """Check that an input and a state fit the cell.

        Parameters
        ----------
        u : (time, batch, input)
            The sequences.
        state : tuple of (batch, hidden), optional
            The state before the first input.

        Raises
        ------
        TypeError
            The input is not a tensor.
        ValueError
            The input or the state has the wrong shape, type or device, or the input has no time
            steps or is not finite.
        """
        check_is_tensor(self.label, u)
        weight = any_weight(self)
        if u.dim() != 3 or u.shape[2] != self.input_size:
            raise ValueError(
                f"{self.label}: expected input (time, batch, input) with input={self.input_size}, "
                f"got {tuple(u.shape)}"
            )
        if 0 in u.shape:
            raise ValueError(
                f"{self.label}: expected at least one time step and one sequence, "
                f"got {tuple(u.shape)}"
            )
        check_type_and_device(self.label, u, weight)
        check_finite(self.label, u)
        if isinstance(state, Tensor):  # a layer takes it, but `step` unpacks its state
            raise ValueError(
                f"{self.label}: expected the state to be a tuple of {self.states} tensor(s), as "
                "the cell returns it, got a tensor; pass (state,)"
            )
        if state is not None:
            shapes = [(u.shape[1], self.hidden_size)] * self.states
            check_state(self.label, state, shapes, weight)
