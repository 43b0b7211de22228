"""Read a notebook's cells and its parameters."""

import ast
import contextlib
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

Scalar = bool | int | float | str

PARAMETERS = "parameters"
"""Tag of the cell whose assignments are the notebook's parameters."""
INJECTED = "injected-parameters"
"""Tag of the cell that papermill adds to an executed copy, with the given values."""

_EXPECTED = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}


class NotebookError(ValueError):
    """A notebook can't run as requested; the message says what was given and what was expected."""


class Cell(NamedTuple):
    """One cell of a notebook file."""

    kind: str
    """``code``, ``markdown`` or ``raw``."""
    source: str
    tags: tuple[str, ...]


def read_cells(path: Path) -> list[Cell]:
    """Return the cells of the notebook at `path`.

    Parameters
    ----------
    path
        A notebook file.

    Returns
    -------
    list of Cell
        In order.

    Raises
    ------
    NotebookError
        The file does not exist, or it is not a notebook of format 4.
    """
    if not path.is_file():
        raise NotebookError(f"no notebook at {path}; check the name and the folder")
    # Read as JSON, because importing nbformat takes longer than all the rest of a `make repro` that
    # has nothing to do.
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        cells = [_read_cell(cell) for cell in content["cells"]]
        is_whole = content["nbformat"] == 4
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise NotebookError(
            f"{path} is not a whole Jupyter notebook of format 4; save it again from JupyterLab"
        )
    return cells


def _read_cell(content: dict[str, Any]) -> Cell:
    """Return a cell; raise `KeyError`, `TypeError` or `AttributeError` if it is not one."""
    cell = Cell(
        kind=content["cell_type"],
        source="".join(content["source"]),
        tags=tuple(content["metadata"].get("tags", [])),
    )
    for text in (cell.kind, *cell.tags):
        if not isinstance(text, str):
            raise TypeError(f"expected a string, got {text!r}")
    return cell


def read_title(path: Path) -> str:
    """Return the question of a notebook, which is the heading of its first cell.

    Parameters
    ----------
    path
        The notebook.

    Returns
    -------
    str
        The question, without ``#``.

    Raises
    ------
    NotebookError
        It is not a whole notebook.
    """
    return read_cells(path)[0].source.partition("\n")[0].removeprefix("# ")


def read_parameters(path: Path) -> dict[str, Scalar]:
    """Return the parameters of a notebook.

    The cells are parsed, not executed.

    Parameters
    ----------
    path
        A notebook, or an executed copy of one.

    Returns
    -------
    dict
        Name and default of each parameter in order; in an executed copy, the given values.

    Raises
    ------
    NotebookError
        The notebook or its parameters cell is missing, or the cell has more than ``name = scalar``.
    """
    cells = [cell for cell in read_cells(path) if cell.kind == "code"]
    if not any(PARAMETERS in cell.tags for cell in cells):
        raise NotebookError(
            f"{path} has no cell tagged {PARAMETERS!r}; tag the cell that sets its parameters"
        )
    sources: list[str] = []
    for tag in (PARAMETERS, INJECTED):  # in an executed copy, given values override defaults
        sources += [cell.source for cell in cells if tag in cell.tags]
    try:
        statements = ast.parse("\n".join(sources)).body
    # Null bytes and many nested brackets raise other errors than SyntaxError.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", error)
        raise NotebookError(
            f"{path}: the parameters cell is not valid Python ({reason}); correct it"
        ) from None
    return dict(_assignment(path, statement) for statement in statements)


def convert(name: str, text: str, default: Scalar) -> Scalar:
    """Convert a command-line argument to the type of `default`.

    Parameters
    ----------
    name
        Name of the parameter, for the error message.
    text
        The value as JSON writes it, or the string itself if the default is a string.
    default
        Default of the parameter.

    Returns
    -------
    bool, int, float or str
        Numbers are finite.

    Raises
    ------
    NotebookError
        The text is not a value of that type.

    Examples
    --------
    >>> convert("rate", "1e-3", 0.1)
    0.001
    """
    kind = type(default)
    if kind is str:
        return text
    with contextlib.suppress(ValueError, OverflowError, RecursionError):
        value = json.loads(text)
        fits = type(value) is kind or (type(value), kind) == (int, float)
        if fits and math.isfinite(value) and text == text.strip():
            return kind(value)
    raise NotebookError(
        f"parameter {name} is {text!r:.80}; expected {_EXPECTED[kind]}, as its default {default!r}"
    )


def _assignment(path: Path, statement: ast.stmt) -> tuple[str, Scalar]:
    """Return the name and the value that a statement of the parameters cell assigns."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=expression):
            pass
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as expression):
            pass
        case _:
            raise NotebookError(
                f"{path}: the parameters cell contains {_as_written(statement)!r}; expected only "
                "lines such as 'width = 128'"
            )
    try:
        value = ast.literal_eval(expression)
    except (ValueError, TypeError, RecursionError, MemoryError):
        value = None
    if type(value) not in _EXPECTED or value in (math.inf, -math.inf):
        raise NotebookError(
            f"{path}: the default of {name} is {_as_written(expression)}; "
            "expected one truth value, number or text"
        )
    return name, value


def _as_written(code: ast.AST) -> str:
    """Return the source of code for a message."""
    try:
        return ast.unparse(code)
    except RecursionError:  # Python 3.13 parses more brackets than it can write
        return "a deeply nested expression"
