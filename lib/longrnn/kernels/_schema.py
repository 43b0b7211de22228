"""The inputs of a `Recurrence`, read from its description, and the schemas of its operators."""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from longrnn.kernels._drive import Sources

SOURCES = [f"source_{name}" for name in Sources._fields]
"""Names of the tensors of `Sources` among the arguments of an operator."""


class Input(NamedTuple):
    """One tensor that a loop takes."""

    name: str
    optional: bool
    axis: int | None
    """Axis of the sequences of a batch; None if all sequences share the tensor."""

    @property
    def dimensions(self) -> int:
        """Number of axes of a shared tensor of one run: two of a matrix, a name in capitals."""
        if self.name[0].isupper():
            return 2
        return 1


def parse_inputs(inputs: str) -> list[Input]:
    """Read the inputs of a recurrence.

    Parameters
    ----------
    inputs : str
        Such as ``"W U? g:1 y0:0"``, see `longrnn.kernels._recurrence.Recurrence`.

    Returns
    -------
    list of Input
    """
    parsed = []
    for word in inputs.split():
        name, optional, axis = re.fullmatch(r"(\w+)(\??)(?::(\d))?", word).groups()
        if axis is not None:
            axis = int(axis)
        parsed.append(Input(name, bool(optional), axis))
    return parsed


def loop_schema(settings: str, inputs: Sequence[Input], results: Sequence[str]) -> str:
    """Return the schema of the operator that runs a loop.

    Parameters
    ----------
    settings : str
        Arguments that are not tensors, as in a schema.
    inputs : sequence of Input
        The tensors that the loop takes.
    results : sequence of str
        Names of the tensors that it returns.

    Returns
    -------
    str
        In the language of `torch.library.custom_op`.
    """
    names = [part.name for part in inputs]
    optional = [*SOURCES, *(part.name for part in inputs if part.optional)]
    arguments = _arguments(settings, [*SOURCES, *names], optional)
    return f"({arguments}) -> {_tensors(len(results))}"


def adjoint_schema(settings: str, tensors: Sequence[str], gradients: int) -> str:
    """Return the schema of the operator that runs an adjoint.

    Parameters
    ----------
    settings : str
        As for `loop_schema`.
    tensors : sequence of str
        Names of the tensors that the adjoint takes besides `Sources`. All may be None.
    gradients : int
        Number of tensors that it returns.

    Returns
    -------
    str
        In the language of `torch.library.custom_op`.
    """
    names = [*SOURCES, *tensors]
    arguments = _arguments(settings, names, names)
    # No input may have one of these two names: `torch.compile` refuses a schema with a name twice.
    return f"({arguments}, SymInt time_steps, bool[] wanted) -> {_tensors(gradients)}"


def _arguments(settings: str, tensors: Sequence[str], optional: Collection[str]) -> str:
    """Return the arguments of a schema."""
    words = []
    if settings:
        words.append(settings)
    for name in tensors:
        kind = "Tensor"
        if name in optional:
            kind = "Tensor?"
        words.append(f"{kind} {name}")
    return ", ".join(words)


def _tensors(count: int) -> str:
    """Return the type of several tensors in a schema."""
    return f"({', '.join(['Tensor'] * count)})"
