"""What all cells share: the registry, declared weights and hyper-parameters, the reference unrolling, the choice of an engine."""

import re
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from longrnn import kernels
from longrnn.cells._init import Start, uniform_fan
from longrnn.cells._keywords import Keyword, complete

State = tuple[Tensor, ...]
Step = Callable[[NamedTuple, State, Tensor], State]

_REGISTRY: dict[str, type["Cell"]] = {}
_NOTHING: Mapping = MappingProxyType({})


class Cell(nn.Module):
    """One recurrent architecture: the weights of an equation, and ways to run it over a sequence.

    A subclass names itself (``class LSTM(Cell, name="lstm")``) and is thereby registered. It states its source, writes the
    equation as the pure function `step`, and declares weights and hyper-parameters, each once, with its shape or range and what
    it means beside it. Training, adjoints, probes, tests and figures follow from that.

    Its constructor takes the features p of one input u_t, the recurrent dimension d, and the hyper-parameters, which become
    attributes. A method ``start_x(self)`` draws the initial weights called ``x``: ``text`` is the constructor's, uniform as in
    PyTorch's recurrent layers unless the cell says otherwise; ``author`` is what a public program of the authors draws (the
    dissertation's where it has the cell).
    """

    name: ClassVar[str]
    """Label in designs, coordinates, tables and figures."""
    title: ClassVar[str]
    """How a text calls the architecture."""
    source: ClassVar[str]
    """Where the equation comes from: paper and equation number."""
    shapes: Mapping[str, str | Sequence[str]] = _NOTHING
    """Shapes of the trained weights by name, in words: numbers, d, p (``"4d p"``) and hyper-parameters. Several shapes are a list of
    weights; ``each: ..`` is one for every layer, with q for what the layer reads, the input or the layer below."""
    hyper_parameters: ClassVar[Mapping[str, Keyword]] = _NOTHING
    """What each may be, and its default."""
    starts: ClassVar[Mapping[str, Start]] = _NOTHING
    """Initial weights by name: the methods ``start_x``, and what a cell adds that several share."""
    Weights: ClassVar[type[NamedTuple]]
    """What `step` gets, in this order: the names, as one text, of attributes of the cell, unless `weights` says more."""
    step: ClassVar[Step]
    """The recurrence, pure: ``step(weights, state, u_t) -> state``; each state is (batch, d), u_t is (batch, p)."""
    states: int = 1
    """Tensors in the state, each (batch, hidden)."""
    readout: int = 0
    """Index of the state that is read out, x_t in the text."""
    engine_options: Mapping[str, object] = _NOTHING
    """Keywords for the engine: how it works, not what it computes (see `longrnn.kernels.Engine`)."""

    def __init_subclass__(cls, *, name: str | None = None, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        if name is None:  # torch's parametrisations make nameless subclasses of their own
            return
        if _REGISTRY.get(name, cls).__module__ != cls.__module__:
            raise TypeError(
                f"two cells are called {name!r}: {_REGISTRY[name]} and {cls}; rename one"
            )
        cls.name = name
        if isinstance(getattr(cls, "Weights", None), str):
            cls.Weights = namedtuple("Weights", cls.Weights)
        # Of starts only the text's is inherited: what authors do is said of each cell.
        own = {key: value for key, value in vars(cls).items() if key.startswith("start_")}
        methods = {"start_text": cls.start_text} | own
        named = {key.removeprefix("start_"): Start(draw) for key, draw in methods.items()}
        cls.starts = MappingProxyType(named | dict(vars(cls).get("starts", {})))
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
        for key, value in self.checked(hyper_parameters, hidden_size).items():
            setattr(self, key, value)
        self.prepare()
        for label, shape in self.shapes.items():
            setattr(self, label, self._empty(shape))
        self.constrain()
        with torch.no_grad():
            self.start_text()

    def _empty(self, shape: str | Sequence[str]) -> nn.Parameter | nn.ParameterList:
        """Return weights to be drawn, of a shape as in `shapes`."""
        if isinstance(shape, str) and shape.startswith("each:"):
            below = ["p"] + ["d"] * (self.layers - 1)
            shape = [shape.removeprefix("each:").replace("q", q) for q in below]
        if not isinstance(shape, str):
            return nn.ParameterList(map(self._empty, shape))
        known = vars(self) | {"d": self.hidden_size, "p": self.input_size, "": 1}
        factors = [re.fullmatch(r"(\d*)(\w*)", word).groups() for word in shape.split()]
        return nn.Parameter(torch.empty([int(times or 1) * known[name] for times, name in factors]))

    @classmethod
    def checked(cls, given: Mapping[str, object], d: int | None = None) -> dict[str, object]:
        """Return all hyper-parameters, defaults included; build nothing.

        Raises `ValueError` where one of them is unknown, of another type, out of range, or does not fit the others or the
        width d, where it is given.
        """
        values = complete(cls.name, cls.hyper_parameters, given)
        if expected := cls.conflict(SimpleNamespace(**values), d):
            got = ", ".join(f"{key}={value!r}" for key, value in given.items())
            raise ValueError(f"{cls.name}: expected {expected}, got {got}")
        return values

    @classmethod
    def conflict(cls, given: SimpleNamespace, d: int | None) -> str:
        """Return what was expected of hyper-parameters that do not fit each other or the width (None: unknown), else nothing."""
        return ""

    def prepare(self) -> None:
        """Derive what else follows from the hyper-parameters, before there are weights."""

    def constrain(self) -> None:
        """Let weights be maps of free parameters, before they are drawn."""

    def start_text(self) -> None:
        """Draw all weights as PyTorch draws those of its recurrent layers."""
        uniform_fan(*(getattr(self, label) for label in self.shapes), fan=self.hidden_size)

    @torch.no_grad()
    def start(self, name: str, *, time_steps: int | None = None, **settings: object) -> Self:
        """Draw all weights anew from torch's generator, as the start called `name` does; return the cell.

        Some starts have settings of their own, or ask for the sequences' length, `time_steps`. Raises `ValueError` where the
        cell has no such start or setting, or the length is not given or below one.
        """
        start, settings = self.checked_start(name, settings)
        if start.by_length:
            if time_steps is None or time_steps < 1:
                raise ValueError(
                    f"{self.name}: the start {name!r} depends on the sequences' length; give time_steps"
                )
            settings["time_steps"] = time_steps
        start.draw(self, **settings)
        return self

    @classmethod
    def checked_start(
        cls, name: str, settings: Mapping[str, object]
    ) -> tuple[Start, dict[str, object]]:
        """Return a start and all its settings; raises `ValueError` where the cell has no such start or setting."""
        if name not in cls.starts:
            raise ValueError(
                f"{cls.name}: expected initial weights among {', '.join(cls.starts)}, got {name!r}"
            )
        start = cls.starts[name]
        return start, complete(f"{cls.name}, start {name}", start.settings, settings)

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
            `engine`, ``auto``, ``reference`` or one of `longrnn.kernels`, cannot run it.
        """
        device = u.device.type
        if torch.is_autocast_enabled(device):
            # As `torch.amp.custom_fwd(cast_inputs=torch.float32)`: recurrences need the digits.
            with torch.autocast(device, enabled=False):
                dtype = next(self.parameters()).dtype
                state = None if state is None else tuple(part.to(dtype) for part in state)
                return self(u.to(dtype), state, engine=engine)
        self._check(u, state)
        state = self.initial_state(u.shape[1]) if state is None else state
        return self.run(u, state, engine=engine)

    def run(
        self, u: Tensor, state: State, *, engine: str = "auto", weights: tuple | None = None
    ) -> tuple[Tensor, State]:
        """As `forward`, of an input and a state that were checked, or of a network that may have diverged."""
        run = kernels.select(self.name, engine, u, self.engine_options)
        run = run or partial(unroll, self.step, readout=self.readout)
        return run(self.weights() if weights is None else weights, state, u)

    def _check(self, u: Tensor, state: State | None = None) -> None:
        """Refuse an input or a state that the equations do not speak of.

        Of values only data, which ask for no gradient, are looked at: weights that diverge, those of an embedding too, are a
        result and no mistake. On a GPU looking would make the host wait, and the pass could not be captured in a graph.
        """

        def expect(met: bool, expected: str, got: object, advice: str = "") -> None:
            if not met:
                raise ValueError(f"{self.name}: expected {expected}, got {got}{advice}")

        p, d, weight = self.input_size, self.hidden_size, next(self.parameters())
        expect(
            u.dim() == 3 and u.shape[2] == p,
            f"input (time, batch, input) with input={p}",
            tuple(u.shape),
        )
        expect(0 not in u.shape, "at least one time step and one sequence", tuple(u.shape))
        expect(
            weight.dtype in (torch.float32, torch.float64),
            "weights of torch.float32 or torch.float64",
            weight.dtype,
            "; convert the cell with cell.float()",
        )
        expect(
            (u.dtype, u.device) == (weight.dtype, weight.device),
            f"input of {weight.dtype} on {weight.device}",
            f"{u.dtype} on {u.device}",
            "; convert it with u.to(...)",
        )
        if u.device.type == "cpu" and not u.requires_grad and has_values(u):
            finite = u.isfinite()
            if not finite.all():
                got = f"{int((~finite).sum())} of {u.numel()} values that are NaN or infinite"
                advice = "; find where they come from, or mask them with u.nan_to_num()"
                expect(False, "finite input", got, advice)
        if state is not None:
            each = (u.shape[1], d)
            expect(
                len(state) == self.states
                and all(part.shape == each for part in state)
                and all((s.dtype, s.device) == (weight.dtype, weight.device) for s in state),
                f"{self.states} state tensor(s) of shape {each} and {weight.dtype} on {weight.device}",
                ", ".join(f"{tuple(s.shape)} of {s.dtype} on {s.device}" for s in state) or "none",
            )

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def has_values(u: Tensor) -> bool:
    """Return whether code may look at the values of `u`, which compilers and transforms forbid."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return not isinstance(u, FakeTensor)


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
    return cell_class(name)(input_size, hidden_size, **hyper_parameters)


def cell_names() -> list[str]:
    """Return the names of all architectures, in alphabetical order."""
    return sorted(_REGISTRY)
