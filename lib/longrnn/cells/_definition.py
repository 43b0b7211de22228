"""Checks of the definition of a cell, for authors of new cells.

A mistake in a declaration would otherwise show up later, as an error inside PyTorch or, if a step
returns a tensor instead of a tuple, as wrong outputs.
"""

import inspect

from torch import Tensor, nn

from longrnn.cells._keywords import Choice, Number


class CellDefinitionError(TypeError):
    """The class of a cell is incomplete or contradicts itself."""


def check_definition(cls: type[nn.Module]) -> None:
    """Check a class of cells when it is defined.

    Parameters
    ----------
    cls
        A subclass of `longrnn.cells.Cell` with a name.

    Raises
    ------
    CellDefinitionError
        It has no step, title or source, its step is a method of instances, or a hyperparameter is
        not declared by a `Number` or a `Choice` that admits its default.
    """
    what = f"the cell {cls.name!r}"
    step = inspect.getattr_static(cls, "step", None)
    if step is None:
        raise CellDefinitionError(f"{what} has no step; define `step(weights, state, u)`")
    if inspect.isfunction(step):
        raise CellDefinitionError(f"the step of {what} is a method; put @staticmethod above it")
    for word, meaning in (("title", "its name in prose"), ("source", "paper and equation")):
        if not isinstance(getattr(cls, word, None), str):
            raise CellDefinitionError(f"{what} has no {word}; give {meaning}")
    for key, keyword in cls.hyper_parameters.items():
        if not isinstance(keyword, Number | Choice):
            raise CellDefinitionError(
                f"{what} declares {key} as {keyword!r}; expected a Number or a Choice, such as "
                "Number(0.5, '(0, 1]')"
            )
        if not keyword.admits(keyword.default):
            raise CellDefinitionError(
                f"{what} declares {key} to be {keyword}, but its default is {keyword.default!r}"
            )


def check_weights(cell: nn.Module) -> None:
    """Check that a new cell has weights.

    Parameters
    ----------
    cell
        A `longrnn.cells.Cell`.

    Raises
    ------
    CellDefinitionError
        It declares no weights.
    """
    if not cell.shapes:
        raise CellDefinitionError(
            f'the cell {cell.name!r} has no shapes; give them, such as {{"W": "d p"}}'
        )


def check_names(cell: nn.Module) -> None:
    """Check that a new cell has every attribute that its `Weights` names.

    Parameters
    ----------
    cell
        A `longrnn.cells.Cell` that does not override `weights`.

    Raises
    ------
    CellDefinitionError
        It has no `Weights`, or lacks an attribute.
    """
    known = ", ".join([*cell.shapes, *cell.hyper_parameters])
    if not hasattr(type(cell), "Weights"):
        raise CellDefinitionError(
            f"the cell {cell.name!r} has no Weights; name there what its step reads, among {known}"
        )
    attributes = {*vars(cell), *cell._parameters, *cell._buffers, *cell._modules}
    for name in cell.Weights._fields:
        # A parametrized weight is a property of the class, which would be computed here.
        if name not in attributes and not hasattr(type(cell), name):
            raise CellDefinitionError(
                f"the Weights of the cell {cell.name!r} name {name!r}; expected weights of its "
                f"shapes or hyperparameters, among {known}"
            )


def check_new_state(new: object, old: tuple[Tensor, ...]) -> None:
    """Check what a step returned.

    Parameters
    ----------
    new
        The result of a step.
    old : tuple of (batch, hidden)
        The state before it.

    Raises
    ------
    CellDefinitionError
        The result is not a tuple of as many tensors of the same shapes.
    """
    expected = f"a tuple of {len(old)} with the shape (batch, hidden), here {tuple(old[0].shape)}"
    if not isinstance(new, tuple | list):
        raise CellDefinitionError(
            f"the step returned a {type(new).__name__}; expected {expected}; write `return (x,)`"
        )
    if [part.shape for part in new] != [part.shape for part in old]:
        shapes = ", ".join(str(tuple(part.shape)) for part in new)
        raise CellDefinitionError(
            f"the step returned a tuple of {len(new)} with the shapes {shapes}; expected {expected}"
        )
