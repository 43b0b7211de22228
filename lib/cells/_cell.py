"""What all cells share: the registry, declared weights and hyper-parameters, the reference unrolling, the choice of an engine."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from lib import kernels
from lib.cells._init import Start
from lib.cells._keywords import Keyword, complete

State = tuple[Tensor, ...]
Step = Callable[[NamedTuple, State, Tensor], State]

_REGISTRY: dict[str, type["Cell"]] = {}
_NOTHING: Mapping = MappingProxyType({})


class Cell(nn.Module):
    """One recurrent architecture: the weights of an equation, and ways to run it over a sequence.

    A subclass names itself (``class LSTM(Cell, name="lstm")``) and is thereby registered; it states its
    source, points to the pure function `step`, and declares the weights and hyper-parameters of the equation. Training,
    adjoints, probes, tests and figures follow from that. Its constructor takes the features p of one input u_t, the
    recurrent dimension d, and the hyper-parameters, which become attributes.
    """

    name: ClassVar[str]
    """Label in designs, coordinates, tables and figures."""
    title: ClassVar[str]
    """How a text calls the architecture."""
    source: ClassVar[str]
    """Where the equation comes from: paper and equation number."""
    Weights: ClassVar[type[NamedTuple]]
    """What `step` gets: attributes of the cell by name, unless `weights` says more."""
    step: ClassVar[Step]
    """The recurrence, pure: ``step(weights, state, u_t) -> state``."""
    hyper_parameters: ClassVar[Mapping[str, Keyword]] = _NOTHING
    """What each may be, and its default."""
    shapes: Mapping[str, str | tuple[str, ...]] = _NOTHING
    """Shapes of the trained weights by name, such as ``"4d p"``; a tuple of shapes is a list of weights."""
    starts: ClassVar[Mapping[str, Start]] = _NOTHING
    """Ways to draw the initial weights, by name. Every cell has ``text``, the constructor's; ``author`` is what a public
    program of the authors draws (the dissertation's where it has the cell), see the cell's own docstring."""
    states: int = 1
    """Tensors in the state, each (batch, hidden)."""
    readout: int = 0
    """Index of the state that is read out, x_t in the text."""
    engine_options: Mapping[str, object] = _NOTHING
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

    def __init__(self, input_size: int, hidden_size: int, **hyper_parameters: object) -> None:
        super().__init__()
        for label, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(
                    f"{self.name}: expected {label} to be a positive integer, got {size!r}"
                )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.x0: nn.ParameterList | None = None
        for key, value in _checked(type(self), hyper_parameters, input_size, hidden_size).items():
            setattr(self, key, value)
        self.prepare()
        for label, shape in self.shapes.items():
            if isinstance(shape, str):
                setattr(self, label, nn.Parameter(self._empty(shape)))
            else:
                setattr(self, label, nn.ParameterList(map(self._empty, shape)))
        self.constrain()
        if self.starts:
            self.start("text")

    def _empty(self, shape: str) -> Tensor:
        """Return an empty tensor of a shape in words: ``"4d p"``, ``"d 3"``, or nothing for a number."""
        letters = {"d": self.hidden_size, "p": self.input_size, "": 1}
        factors = [re.fullmatch(r"(\d*)([dp]?)", part).groups() for part in shape.split()]
        return torch.empty([int(times or 1) * letters[letter] for times, letter in factors])

    @classmethod
    def conflict(cls, given: SimpleNamespace, p: int | None, d: int | None) -> str:
        """Return what was expected of hyper-parameters that do not fit each other or the sizes (None where unknown), else nothing."""
        return ""

    def prepare(self) -> None:
        """Derive what else follows from the hyper-parameters, before there are weights."""

    def constrain(self) -> None:
        """Let weights be maps of free parameters, before they are drawn."""

    @torch.no_grad()
    def start(self, name: str, *, time_steps: int | None = None, **settings: object) -> Self:
        """Draw all weights anew from torch's generator, as the start called `name` does; return the cell.

        Some starts have settings of their own, or ask for the sequences' length, `time_steps`. Raises `ValueError` where the
        cell has no such start or setting, or the length is not given.
        """
        start, settings = _checked_start(type(self), name, settings)
        if start.by_length:
            if time_steps is None:
                raise ValueError(
                    f"{self.name}: the start {name!r} depends on the sequences' length; give time_steps"
                )
            settings["time_steps"] = time_steps
        start.draw(self, **settings)
        return self

    def weights(self) -> NamedTuple:
        """Return what `step` needs, constrained matrices evaluated once."""
        return self.Weights(*(getattr(self, field) for field in self.Weights._fields))

    def time_steps(self, u: Tensor) -> tuple[Tensor, ...]:
        """Return the time steps that move the states over the inputs `u`, a tensor for each layer or kind; few cells have any."""
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
        """Run the cell over a sequence u, (time, batch, input), from a state, by default zeros.

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
            `engine`, ``auto``, ``reference`` or one of `lib.kernels`, cannot run it.
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

        Of values only data, which ask for no gradient, are looked at: weights that diverge, those of an embedding too, are a
        result and no mistake. On a GPU looking would make the host wait, and the pass could not be captured in a graph.
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
        weight = next(self.parameters())
        if weight.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"{self.name}: expected weights of torch.float32 or torch.float64, got {weight.dtype}; "
                "convert the cell with cell.float()"
            )
        if u.dtype != weight.dtype or u.device != weight.device:
            raise ValueError(
                f"{self.name}: expected input of {weight.dtype} on {weight.device}, "
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
            or any(part.shape != expected or part.dtype != weight.dtype for part in state)
        ):
            got = ", ".join(f"{tuple(part.shape)} of {part.dtype}" for part in state) or "none"
            raise ValueError(
                f"{self.name}: expected {self.states} state tensor(s) of shape {expected} and {weight.dtype}, got {got}"
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


def per_layer(shape: str, layers: int) -> tuple[str, ...]:
    """Return a shape for each layer, with q for what it reads: the input, then the layer below."""
    return tuple(shape.replace("q", "p" if k == 0 else "d") for k in range(layers))


def cell_class(name: str) -> type[Cell]:
    """Return the class registered as `name`; raises `ValueError` that lists the known names."""
    if name not in _REGISTRY:
        raise ValueError(f"unknown architecture {name!r}; known: {', '.join(cell_names())}")
    return _REGISTRY[name]


def make_cell(name: str, input_size: int, hidden_size: int, **hyper_parameters) -> Cell:
    """Return a new cell of the architecture `name`, its weights drawn from torch's generator."""
    return cell_class(name)(input_size, hidden_size, **hyper_parameters)


def check_hyper_parameters(
    name: str,
    hyper_parameters: Mapping[str, object],
    *,
    input_size: int | None = None,
    hidden_size: int | None = None,
) -> dict[str, object]:
    """Return all hyper-parameters of the architecture `name`, defaults included; build nothing.

    Raises `ValueError` where the architecture or one of them is unknown, of another type, out of range, or does not fit the
    others or the sizes that are given.
    """
    return _checked(cell_class(name), hyper_parameters, input_size, hidden_size)


def check_start(name: str, start: str, settings: Mapping[str, object] = _NOTHING) -> bool:
    """Refuse, by a `ValueError`, a start that the architecture `name` does not have; tell whether it asks for `time_steps`."""
    return _checked_start(cell_class(name), start, settings)[0].by_length


def _checked(
    cell: type[Cell], hyper_parameters: Mapping[str, object], p: int | None, d: int | None
) -> dict[str, object]:
    values = complete(cell.name, cell.hyper_parameters, hyper_parameters)
    if expected := cell.conflict(SimpleNamespace(**values), p, d):
        got = ", ".join(f"{key}={value!r}" for key, value in hyper_parameters.items())
        raise ValueError(f"{cell.name}: expected {expected}, got {got}")
    return values


def _checked_start(
    cell: type[Cell], name: str, settings: Mapping[str, object]
) -> tuple[Start, dict[str, object]]:
    if name not in cell.starts:
        raise ValueError(
            f"{cell.name}: expected initial weights among {', '.join(cell.starts)}, got {name!r}"
        )
    start = cell.starts[name]
    return start, complete(f"{cell.name}, start {name}", start.settings, settings)


def cell_names() -> list[str]:
    """Return the names of all architectures, in alphabetical order."""
    return sorted(_REGISTRY)
