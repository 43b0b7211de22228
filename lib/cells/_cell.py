"""What all cells share: the registry, initial weights, the reference unrolling and the choice of an engine."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from lib import kernels

State = tuple[Tensor, ...]
Step = Callable[[NamedTuple, State, Tensor], State]

_REGISTRY: dict[str, type["Cell"]] = {}


class Cell(nn.Module, ABC):
    """One recurrent architecture: the weights of an equation, and ways to run it over a sequence.

    A subclass names itself (``class LSTM(Cell, name="lstm")``) and is thereby registered; it states its
    source, points to the pure function `step`, and says which weights that function gets. Training,
    adjoints, probes, tests and figures follow from that.

    Parameters
    ----------
    input_size
        Features p of one input u_t.
    hidden_size
        Recurrent dimension d.
    """

    name: ClassVar[str]
    """Label in designs, coordinates, tables and figures."""
    title: ClassVar[str]
    """How a text calls the architecture."""
    source: ClassVar[str]
    """Where the equation comes from: paper and equation number."""
    step: ClassVar[Step]
    """The recurrence, pure: ``step(weights, state, u_t) -> state``."""
    starts: ClassVar[Mapping[str, Callable[["Cell"], None]]]
    """Ways to draw the initial weights, by name. Every cell has ``text``, the constructor's; ``author`` is what a public
    program of the authors draws (the dissertation's where it has the cell), see the cell's own docstring."""
    states: int = 1
    """Tensors in the state, each (batch, hidden)."""
    readout: int = 0
    """Index of the state that is read out, x_t in the text."""
    engine_options: Mapping[str, object] = MappingProxyType({})
    """Keywords for the engine: how it works, not what it computes (see `lib.kernels.Engine`)."""

    def __init_subclass__(cls, *, name: str | None = None, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        if name is None:  # torch's parametrisations make nameless subclasses of their own
            return
        if _REGISTRY.get(name, cls).__module__ != cls.__module__:
            raise TypeError(
                f"two cells are called {name!r}: {_REGISTRY[name]} and {cls}; rename one"
            )
        cls.name = name
        cls.step = staticmethod(cls.step)
        _REGISTRY[name] = cls

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        for label, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(
                    f"{self.name}: expected {label} to be a positive integer, got {size!r}"
                )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.x0: nn.ParameterList | None = None

    @torch.no_grad()
    def start(self, name: str) -> Self:
        """Draw all weights anew from torch's generator, as the start called `name` does; return the cell.

        Raises
        ------
        ValueError
            The cell has no start of this name.
        """
        if name not in self.starts:
            raise ValueError(
                f"{self.name}: expected initial weights among {', '.join(self.starts)}, got {name!r}"
            )
        self.starts[name](self)
        return self

    @abstractmethod
    def weights(self) -> NamedTuple:
        """Return what `step` needs, constrained matrices evaluated once."""

    def time_steps(self, u: Tensor) -> tuple[Tensor, ...]:
        """Return the time steps with which the cell moves its states over the inputs `u`, one tensor for each layer or kind.

        Few cells have any: by default there are none.
        """
        return ()

    def train_initial_state(self) -> None:
        """Make the state before the first input a parameter, one for all sequences, that starts at zero."""
        like = next(self.parameters())
        zeros = (like.new_zeros(self.hidden_size) for _ in range(self.states))
        self.x0 = nn.ParameterList(nn.Parameter(zero) for zero in zeros)

    def initial_state(self, batch: int) -> State:
        """Return `states` tensors of shape (batch, hidden): zeros, unless they are trained."""
        if self.x0 is not None:
            return tuple(part.expand(batch, -1) for part in self.x0)
        like = next(self.parameters())
        return tuple(like.new_zeros(batch, self.hidden_size) for _ in range(self.states))

    def forward(
        self, u: Tensor, state: State | None = None, *, engine: str = "auto"
    ) -> tuple[Tensor, State]:
        """Run the cell over a sequence.

        Parameters
        ----------
        u : (time, batch, input)
            The input sequence.
        state : tuple of (batch, hidden), optional
            State before the first input; zeros by default.
        engine
            ``"auto"``, ``"reference"`` or the name of an engine in `lib.kernels`.

        Returns
        -------
        outputs : (time, batch, hidden)
            The state that is read out, after every input.
        state : tuple of (batch, hidden)
            The full state after the last input.

        Raises
        ------
        ValueError
            The input or the state has the wrong shape or type, the input has no time steps or is not finite, or the
            engine cannot run it.
        """
        self._check(u, state)
        state = self.initial_state(u.shape[1]) if state is None else state
        return self.run(u, state, engine=engine)

    def run(self, u: Tensor, state: State, *, engine: str = "auto") -> tuple[Tensor, State]:
        """As `forward`, of an input and a state that were checked, or of a network that may have diverged."""
        run = kernels.select(self.name, engine, u, self.engine_options)
        if run is None:
            return unroll(self.step, self.weights(), state, u, readout=self.readout)
        return run(self.weights(), state, u)

    def _check(self, u: Tensor, state: State | None = None) -> None:
        """Refuse an input or a state that the equations do not speak of.

        That the input is finite costs a pass over it, which is little beside the recurrence. Only what asks for no gradient
        is looked at, data that is: weights that diverge, those of an embedding too, are a result and no mistake. On a GPU
        looking would make the host wait, and the pass could not be captured in a graph: there it is left out.
        """
        if u.dim() != 3 or u.shape[2] != self.input_size:
            raise ValueError(
                f"{self.name}: expected input (time, batch, input) with input={self.input_size}, "
                f"got {tuple(u.shape)}"
            )
        if u.shape[0] == 0 or u.shape[1] == 0:
            raise ValueError(
                f"{self.name}: expected at least one time step and one sequence, got {tuple(u.shape)}"
            )
        own = next(self.parameters())
        if own.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"{self.name}: expected weights of torch.float32 or torch.float64, got {own.dtype}; "
                "convert the cell with cell.float()"
            )
        if u.dtype != own.dtype or u.device != own.device:
            raise ValueError(
                f"{self.name}: expected input of {own.dtype} on {own.device}, "
                f"got {u.dtype} on {u.device}; convert it with u.to(...)"
            )
        if u.device.type == "cpu" and not u.requires_grad and not u.isfinite().all():
            bad = int((~u.isfinite()).sum())
            raise ValueError(
                f"{self.name}: expected finite input, got {bad} of {u.numel()} values that are NaN or infinite; "
                "find where they come from, or mask them with u.nan_to_num()"
            )
        expected = (u.shape[1], self.hidden_size)
        if state is not None and (
            len(state) != self.states
            or any(part.shape != expected or part.dtype != own.dtype for part in state)
        ):
            got = ", ".join(f"{tuple(part.shape)} of {part.dtype}" for part in state) or "none"
            raise ValueError(
                f"{self.name}: expected {self.states} state tensor(s) of shape {expected} and {own.dtype}, got {got}"
            )

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def unroll(
    step: Step, weights: NamedTuple, state: State, u: Tensor, *, readout: int = 0
) -> tuple[Tensor, State]:
    """Apply `step` to every input in turn: the reference that all engines are held to.

    Shapes as in `Cell.forward`. The inputs are unbound once: taking ``u[t]`` in the loop would make
    the backward pass quadratic in time.
    """
    outputs = []
    for u_t in u.unbind(0):
        state = step(weights, state, u_t)
        outputs.append(state[readout])
    return torch.stack(outputs), state


def cell_class(name: str) -> type[Cell]:
    """Return the class registered as `name`; raises `ValueError` that lists the known names."""
    if name not in _REGISTRY:
        raise ValueError(f"unknown architecture {name!r}; known: {', '.join(cell_names())}")
    return _REGISTRY[name]


def make_cell(name: str, input_size: int, hidden_size: int, **hyper_parameters) -> Cell:
    """Return a new cell of the architecture `name`, its weights drawn from torch's generator."""
    check_hyper_parameters(name, hyper_parameters)
    return cell_class(name)(input_size, hidden_size, **hyper_parameters)


def check_hyper_parameters(name: str, hyper_parameters: Mapping[str, object]) -> None:
    """Raise `ValueError` where the architecture `name`, or one of its hyper-parameters, is unknown; build nothing.

    Values are checked where the cell is built.
    """
    signature = inspect.signature(cell_class(name).__init__)
    known = [key for key, one in signature.parameters.items() if one.kind is one.KEYWORD_ONLY]
    if unknown := [key for key in hyper_parameters if key not in known]:
        raise ValueError(
            f"{name}: expected hyper-parameters among {', '.join(known) or 'none'}, "
            f"got {', '.join(map(repr, unknown))}"
        )


def cell_names() -> list[str]:
    """Return the names of all architectures, in alphabetical order."""
    return sorted(_REGISTRY)
