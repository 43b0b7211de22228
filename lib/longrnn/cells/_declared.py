"""The base class of `longrnn.cells.Cell`: declared weights and hyperparameters.

A class declares the shapes of its weights and the ranges of its hyperparameters as data. The
constructor checks the hyperparameters, creates the weights, and initializes them.
"""

import re
from collections import namedtuple
from collections.abc import Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import ClassVar, NamedTuple, Self

import torch
from torch import nn

from longrnn.cells._checks import check_representable, checked_dtype, checked_size
from longrnn.cells._compiling import NotScripted
from longrnn.cells._definition import CellDefinitionError
from longrnn.cells._init import Start, converted_for_drawing, uniform_fan
from longrnn.cells._keywords import Keyword, Number, complete
from longrnn.cells._modes import wide_dtype
from longrnn.cells._repr import sizes_and_changes

NOTHING: Mapping = MappingProxyType({})
"""An empty mapping, the default of declarations."""


class DeclaredModule(NotScripted, nn.Module):
    """A module whose weights and hyperparameters are declared as data.

    Parameters
    ----------
    input_size
        Features p of one input u_t.
    hidden_size
        The recurrent dimension d.
    dtype
        Type of the weights; PyTorch's default type if None.
    label
        First word of error messages; the name of the class by default.
    **hyper_parameters
        Hyperparameters that the class declares; they become attributes.

    Raises
    ------
    ValueError
        A size or a hyperparameter has a wrong type or is out of range, or the dtype is not one of
        floating-point numbers.
    """

    name: ClassVar[str]
    """Short name in settings, coordinates, tables and figures."""
    label: str
    """First word of error messages: the name of a layer class, or by default `name`."""
    shapes: Mapping[str, str | Sequence[str]] = NOTHING
    """Shapes of the parameters by name. A shape is a string such as ``"4d p"``: each word is a
    number, d, p or a hyperparameter, possibly with a factor. A sequence of shapes declares a list
    of weights. ``each: ..`` declares one weight per layer; q is the size of the layer's input."""
    hyper_parameters: ClassVar[Mapping[str, Keyword]] = NOTHING
    """Allowed values and defaults."""
    starts: ClassVar[Mapping[str, Start]] = NOTHING
    """Initializations by name: the methods ``start_x``, and shared ones that a cell adds."""
    Weights: ClassVar[type[NamedTuple]]
    """Type of the first argument of `Cell.step`: a NamedTuple whose fields are attributes of the
    cell. A subclass may write it as a string of field names, separated by spaces."""

    def __init_subclass__(cls, *, name: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if name is None:  # torch's parametrizations create nameless subclasses
            return
        cls.name = name
        cls.label = name
        if isinstance(getattr(cls, "Weights", None), str):
            cls.Weights = namedtuple("Weights", cls.Weights)
        # Only `paper` is inherited. An initialization of an authors' program belongs to one cell.
        draws = {"paper": cls.start_paper}
        for key, value in vars(cls).items():
            if key.startswith("start_"):
                draws[key.removeprefix("start_")] = value
        starts = {key: Start(draw) for key, draw in draws.items()}
        cls.starts = MappingProxyType(starts | dict(vars(cls).get("starts", {})))

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        dtype: torch.dtype | None = None,
        label: str | None = None,
        **hyper_parameters: object,
    ) -> None:
        super().__init__()
        if label is not None:
            self.label = label
        self.input_size = checked_size(self.label, "input_size", input_size)
        self.hidden_size = checked_size(self.label, "hidden_size", hidden_size)
        self.settings = self.checked(hyper_parameters, self.hidden_size, label=self.label)
        """All hyperparameters by name, defaults included, as the cell was built."""
        dtype = checked_dtype(self.label, dtype)
        self._check_representable(wide_dtype(dtype))
        for key, value in self.settings.items():
            setattr(self, key, value)
        self.prepare()
        for name, shape in self.shapes.items():
            setattr(self, name, self._empty(shape, wide_dtype(dtype)))
        self.constrain()
        with torch.no_grad():
            self.start_paper()
        self.to(dtype=dtype)

    def _check_representable(self, dtype: torch.dtype) -> None:
        """Check that numbers among the settings do not become zero or infinite in a type."""
        for key, keyword in self.hyper_parameters.items():
            if isinstance(keyword, Number) and not keyword.whole:
                values = self.settings[key]
                if not isinstance(values, tuple):  # one value, not one for each layer
                    values = (values,)
                for value in values:
                    if value is not None:
                        check_representable(self.label, key, value, dtype)

    def _empty(
        self, shape: str | Sequence[str], dtype: torch.dtype
    ) -> nn.Parameter | nn.ParameterList:
        """Return uninitialized weights of a shape declared in `shapes`."""
        if isinstance(shape, str) and shape.startswith("each:"):
            inputs = ["p"] + ["d"] * (self.layers - 1)
            shape = [shape.removeprefix("each:").replace("q", size) for size in inputs]
        if not isinstance(shape, str):
            return nn.ParameterList([self._empty(part, dtype) for part in shape])
        known = vars(self) | {"d": self.hidden_size, "p": self.input_size}
        known[""] = 1  # a word such as "1", a factor without a name
        sizes = []
        for word in shape.split():
            factor, name = re.fullmatch(r"(\d*)(\w*)", word).groups()
            if name not in known:
                raise CellDefinitionError(
                    f"the cell {self.name!r} has a weight of shape {shape!r}; expected d (units), "
                    f"p (features), a number or a hyperparameter instead of {name!r}"
                )
            sizes.append(int(factor or 1) * known[name])
        return nn.Parameter(torch.empty(sizes, dtype=dtype))

    @classmethod
    def checked(
        cls, given: Mapping[str, object], d: int | None = None, *, label: str | None = None
    ) -> dict[str, object]:
        """Check hyperparameters without building anything.

        Parameters
        ----------
        given
            Hyperparameters by name.
        d
            The hidden size, if it is known.
        label
            First word of error messages; the name of the cell by default.

        Returns
        -------
        dict
            All hyperparameters, defaults included.

        Raises
        ------
        ValueError
            A hyperparameter is unknown, has a wrong type, is out of range, or is inconsistent with
            the others or with the hidden size.
        """
        label = label or cls.name
        values = complete(label, cls.hyper_parameters, given)
        expected = cls.conflict(SimpleNamespace(**values), d)
        if expected:
            changed = [
                f"{key}={value!r}"
                for key, value in values.items()
                if value != cls.hyper_parameters[key].default
            ]
            raise ValueError(f"{label}: expected {expected}, got {', '.join(changed)}")
        return values

    @classmethod
    def conflict(cls, given: SimpleNamespace, d: int | None) -> str:
        """Check the hyperparameters against each other and against the hidden size.

        Parameters
        ----------
        given
            All hyperparameters as attributes, each of them valid by itself.
        d
            The hidden size; None if it is unknown.

        Returns
        -------
        str
            The condition that is violated, as it follows "expected" in an error message; empty if
            they are consistent.
        """
        return ""

    def prepare(self) -> None:
        """Derive attributes from the hyperparameters; called before the weights are created."""

    def constrain(self) -> None:
        """Register parametrizations; called before the weights are initialized."""

    def start_paper(self) -> None:
        """Initialize all weights like PyTorch's recurrent layers."""
        weights = [getattr(self, name) for name in self.shapes]
        uniform_fan(*weights, fan=self.hidden_size)

    @torch.no_grad()
    def start(self, name: str, *, time_steps: int | None = None, **settings: object) -> Self:
        """Reinitialize all weights, from torch's random generator.

        Parameters
        ----------
        name
            Name of the initialization, one of `starts`.
        time_steps
            Length of the sequences, which some initializations depend on.
        **settings
            Keyword arguments of the initialization.

        Returns
        -------
        Cell
            The cell itself.

        Raises
        ------
        ValueError
            The cell has no such initialization or setting, or the length is missing or no positive
            integer.
        """
        start, settings = self.checked_start(name, settings, label=self.label)
        if start.by_length:
            if time_steps is None:
                raise ValueError(
                    f"{self.label}: the start {name!r} depends on the sequences' length; "
                    "give time_steps"
                )
            settings["time_steps"] = checked_size(self.label, "time_steps", time_steps)
        with converted_for_drawing(self):
            start.draw(self, **settings)
        return self

    @classmethod
    def checked_start(
        cls, name: str, settings: Mapping[str, object], *, label: str | None = None
    ) -> tuple[Start, dict[str, object]]:
        """Return an initialization and its settings, after checking them.

        Parameters
        ----------
        name
            One of `starts`.
        settings
            Some or all settings of the initialization.
        label
            First word of error messages; the name of the cell by default.

        Returns
        -------
        start : Start
        settings : dict
            All settings, defaults included.

        Raises
        ------
        ValueError
            The cell has no such initialization or setting.
        """
        label = label or cls.name
        if name not in cls.starts:
            raise ValueError(
                f"{label}: expected initial weights among {', '.join(cls.starts)}, got {name!r}"
            )
        start = cls.starts[name]
        return start, complete(f"{label}, start {name}", start.settings, settings)

    def present_settings(self) -> dict[str, object]:
        """Return all hyperparameters by name, with the present values of those that may change.

        Returns
        -------
        dict
            As `settings`, but a number such as ``dt`` has the value of the attribute, which users
            may change between runs. Whole numbers and choices are fixed when a cell is built.
        """
        values = dict(self.settings)
        for name, keyword in self.hyper_parameters.items():
            may_change = isinstance(keyword, Number) and not keyword.whole
            if name in self.shapes or name in self._buffers:
                may_change = False  # the attribute is a weight, which starts at the number
            if may_change:
                values[name] = getattr(self, name, values[name])
        return values

    def extra_repr(self) -> str:
        defaults = {name: keyword.default for name, keyword in self.hyper_parameters.items()}
        return sizes_and_changes(self, self.present_settings(), defaults)
