"""Read a notebook's parameters cell, and check that a notebook is built as the others are.

`python -m lib.run.notebooks FILE...` checks files; pre-commit and the tests call it.
"""

import ast
import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

Scalar = bool | int | float | str

PARAMETERS = "parameters"
"""Tag of the cell whose assignments are the notebook's parameters."""
INJECTED = "injected-parameters"
"""Tag of the cell that papermill adds to an executed copy: the values that it was given."""

# What YAML 1.2 reads as each kind, so that dvc.yaml and the command line agree; no number that a notebook is given is longer.
_WRITTEN = {
    bool: re.compile("true|false"),
    int: re.compile(r"[-+]?[0-9]{1,100}"),
    float: re.compile(r"[-+]?(\.[0-9]{1,99}|[0-9]{1,99}(\.[0-9]{0,99})?)([eE][-+]?[0-9]{1,9})?"),
    str: re.compile(r".*", re.DOTALL),
}
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}


class NotebookError(ValueError):
    """A notebook cannot be run as asked; the message says what came and what was expected."""


@dataclass(frozen=True)
class Cell:
    """One cell of a notebook file."""

    kind: str
    """``code``, ``markdown`` or ``raw``."""
    id: str
    source: str
    tags: tuple[str, ...]
    execution_count: int | None


def read_cells(path: str | Path) -> list[Cell]:
    """Return the cells of the notebook at `path`; a NotebookError says that there is none of format 4."""
    content = _read(Path(path))
    return [
        Cell(
            kind=cell["cell_type"],
            id=cell.get("id", ""),
            source="".join(cell["source"]),
            tags=tuple(cell["metadata"].get("tags", [])),
            execution_count=cell.get("execution_count"),
        )
        for cell in content["cells"]
    ]


def _read(path: Path) -> dict:
    # Read as JSON: importing nbformat takes longer than all else that `make repro` does when nothing has changed.
    if not path.is_file():
        raise NotebookError(f"no notebook at {path}; check the name and the folder")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        whole = content["nbformat"] == 4 and all(map(_is_cell, content["cells"]))
        content.get("metadata", {}).get("kernelspec", {}).get("name")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise NotebookError(
            f"{path} is not a whole Jupyter notebook of format 4; save it again from JupyterLab"
        )
    return content


def _is_cell(cell: dict) -> bool:
    """Return whether a cell has what every cell has; raises TypeError or KeyError at the latest where it is none."""
    tags = cell["metadata"].get("tags", [])
    texts = [cell["cell_type"], *tags, "".join(cell["source"])]
    return all(isinstance(text, str) for text in texts)


def read_parameters(path: str | Path) -> dict[str, Scalar]:
    """Return the parameters of the notebook at `path` in order: their defaults, in an executed copy what it was given.

    The cells are parsed, not executed. A NotebookError says that there is no such notebook or no parameters cell, or that it
    holds more than ``name = scalar``.
    """
    cells = [cell for cell in read_cells(path) if cell.kind == "code"]
    if not any(PARAMETERS in cell.tags for cell in cells):
        raise NotebookError(
            f"{path} has no cell tagged {PARAMETERS!r}; tag the cell that sets its parameters"
        )
    return dict(
        _assignment(path, statement)
        for tag in (PARAMETERS, INJECTED)
        for cell in cells
        if tag in cell.tags
        for statement in _statements(path, cell)
    )


def convert(name: str, text: str, default: Scalar) -> Scalar:
    """Return `text` as a value of the type of `default`: ``true`` or ``false``, digits, a finite number as in YAML 1.2, or text.

    >>> convert("rate", "1e-3", 0.1)
    0.001
    """
    kind = type(default)
    if _WRITTEN[kind].fullmatch(text):
        value = text == "true" if kind is bool else kind(text)
        if kind is str or math.isfinite(value):
            return value
    raise NotebookError(
        f"parameter {name} is {text!r:.80}; expected {_EXPECTED[kind]}, as its default {default!r}"
    )


def check_notebook(path: str | Path) -> list[str]:
    """Return what is wrong with how the notebook at `path` is built, one sentence each.

    A notebook asks a question in its title, then come the parameters, and it ends with a cell of checks and
    one of versions; its cells, where they were run, were run in order.
    """
    try:
        cells = read_cells(path)
        read_parameters(path)
    except NotebookError as error:
        return [str(error)]
    code = [cell for cell in cells if cell.kind == "code"]
    named = re.fullmatch(r"[\w-]+\.ipynb", Path(path).name)
    asks = cells[0].kind == "markdown" and re.match(r"# .+\?\s*(\n|$)", cells[0].source)
    ends = [cell.id for cell in code[-2:]] == ["checks", "versions"]
    kernel = _read(Path(path)).get("metadata", {}).get("kernelspec", {}).get("name")
    counts = [cell.execution_count for cell in code if cell.source.strip()]
    ordered = not any(counts) or counts == list(range(1, len(counts) + 1))
    second = [tag for cell in cells[1:2] for tag in cell.tags]
    rules = (
        (named, "its name holds other than letters, digits, '_' and '-', which a shell may read"),
        (asks, "the first cell is not a title that asks a question, '# ...?'"),
        (PARAMETERS in second, f"the second cell is not the one tagged {PARAMETERS!r}"),
        (ends, "the last two code cells are not those with the ids 'checks' and 'versions'"),
        (kernel == "python3", "its kernel is not python3"),
        (ordered, "its cells were run out of order; restart the kernel and run all of them"),
    )
    return [f"{path}: {problem}" for kept, problem in rules if not kept]


def _statements(path: str | Path, cell: Cell) -> list[ast.stmt]:
    try:
        return ast.parse(cell.source).body
    # A null byte, or brackets without end: not all that is no Python is a SyntaxError.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", error)
        raise NotebookError(f"{path}: the parameters cell is not Python ({reason})") from None


def _assignment(path: str | Path, statement: ast.stmt) -> tuple[str, Scalar]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=expression):
            pass
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as expression):
            pass
        case _:
            raise NotebookError(
                f"{path}: the parameters cell holds {ast.unparse(statement)!r}; expected only lines "
                "such as 'width = 128'"
            )
    try:
        value = ast.literal_eval(expression)
    except (ValueError, TypeError, RecursionError, MemoryError):
        value = None
    if type(value) not in _EXPECTED or value in (math.inf, -math.inf):
        raise NotebookError(
            f"{path}: the default of {name} is {ast.unparse(expression)}; expected one truth value, number or text"
        )
    return name, value


def main(paths: list[str]) -> int:
    """Check every notebook in `paths`, print what is wrong, and return the exit status."""
    problems = [problem for path in paths for problem in check_notebook(path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
