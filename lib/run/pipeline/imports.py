"""Which files of `lib` a piece of code uses: its imports, followed."""

import ast
from collections.abc import Iterator
from pathlib import Path

from lib.paths import ROOT
from lib.run.notebooks import read_cells


def modules(sources: list[str], root: Path = ROOT) -> list[str]:
    """Return the files of `lib` that Python code imports, directly or not, as paths from `root`.

    Parameters
    ----------
    sources
        Code, such as the cells of a notebook.

    Notes
    -----
    The code is parsed, not run. A package that fills a registry from its own folder (its ``__init__`` hands on
    ``__path__``) counts whole, and so does any other package of which every file is used.
    """
    found: set[Path] = set()
    todo = [path for source in sources for path in _imports(source, root)]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        source = path.read_text(encoding="utf-8")
        todo.extend(_imports(source, root))
        if path.name == "__init__.py" and "__path__" in source:
            todo.extend(path.parent.glob("*.py"))
    packages = {path.parent for path in found if path.parent != root / "lib"}
    whole = {folder for folder in packages if found.issuperset(folder.rglob("*.py"))}
    names = {path.relative_to(root).as_posix() for path in found | whole} - {"lib/__init__.py"}
    return sorted(name for name in names if not any(_inside(name, other) for other in names))


def notebook_modules(notebook: Path, root: Path = ROOT) -> list[str]:
    """Return the files of `lib` that a notebook imports, directly or not."""
    # Magics are no Python; what they import is none of ours.
    sources = [
        "\n".join(line for line in cell.source.splitlines() if not line.startswith(("%", "!")))
        for cell in read_cells(notebook)
        if cell.kind == "code"
    ]
    return modules(sources, root)


def _inside(name: str, folder: str) -> bool:
    return name.startswith(f"{folder}/")


def _imports(source: str, root: Path) -> Iterator[Path]:
    """Yield the files of the modules of `lib` that `source` names, with those of their packages."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0, names=aliases):
                names = [module, *(f"{module}.{alias.name}" for alias in aliases)]
            case _:
                continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "lib":
                for end in range(1, len(parts) + 1):
                    yield from _files(root.joinpath(*parts[:end]))


def _files(module: Path) -> Iterator[Path]:
    """Yield the file of a module, or of a package; a name that is neither is a function or a class."""
    for path in (module.with_suffix(".py"), module / "__init__.py"):
        if path.is_file():
            yield path
