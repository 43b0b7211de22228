"""The digest of one Python file's code, and the files that the code uses.

The digest is that of the syntax tree without docstrings, comments and layout. So after a change of
prose, no stage runs again. After a change of code, exactly those stages run again that use it.

A file next to a module that is not Python belongs to the module if one of its strings or its list
``DEPENDS`` names the file. A module that looks next to ``__file__`` and names no file there must
have that list, because a computed file name can't be followed. Imports by a computed name and
dynamic code (`exec`, `runpy`, `spec_from_file_location`) are refused (`study.pipeline.refusals`).

The digest is the same under every version of Python that parses the code to the same tree.
"""

import ast
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from study.pipeline.refusals import (
    FingerprintError,
    refuse_dynamic_code,
    refuse_missing_files,
    refuse_undeclared_files,
)

PACKAGES = ("longrnn", "study")
"""The packages in `lib/` whose code counts."""
_LAYOUT_FIELDS = {"kind", "ctx", "type_comment"}
_DOTTED_NAME = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+")


class Module(NamedTuple):
    """The digest of a file's code, and what the code uses."""

    digest: str
    uses: tuple[Path, ...]
    """Files in `lib/` that it imports or names in its strings, and the packages that contain it."""
    members: tuple[Path, ...]
    """The modules of its folder, if it is a package that imports them all."""
    packages: frozenset[str]
    """Top-level modules outside `lib/` that it imports."""


@cache
def resolve(name: str, root: Path) -> Path | None:
    """Return the file of a module or of a package in `lib/`.

    Parameters
    ----------
    name
        Dotted name.
    root
        Root of the repository.

    Returns
    -------
    Path or None
        None if `lib` has no such file.
    """
    base = root.joinpath("lib", *name.split("."))
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if file.is_relative_to(root / "lib") and file.is_file():
            return file
    return None


def _members(package: Path) -> tuple[Path, ...]:
    """Return the modules that `longrnn.registry.import_files` imports from a package's folder."""
    return tuple(path for path in sorted(package.glob("*.py")) if path.name[0] not in "_.")


@cache  # a process imports a file only once, so later changes of the file don't matter
def read_module(file: Path, root: Path) -> Module:
    """Return the digest and the dependencies of a file, which is read once per process.

    Parameters
    ----------
    file
        The file.
    root
        Root of the repository.

    Returns
    -------
    Module

    Raises
    ------
    FingerprintError
        As in `parse_module`.
    """
    source = file.read_text(encoding="utf-8")
    module = parse_module(source, file, root, siblings=sorted(file.parent.iterdir()))
    return module._replace(uses=(*module.uses, *_packages_above(file, root)))


def _packages_above(file: Path, root: Path) -> list[Path]:
    """Return the packages that contain `file`, which Python imports before it."""
    above = [folder / "__init__.py" for folder in file.parents]
    return [path for path in above if path.is_relative_to(root / "lib") and path.is_file()]


def parse_module(source: str, file: Path, root: Path, siblings: Iterable[Path] = ()) -> Module:
    """Return the digest and the dependencies of a piece of code.

    Parameters
    ----------
    source
        The code.
    file
        The file that contains it, for relative imports and messages.
    root
        Root of the repository.
    siblings
        The files and folders next to it, among which its strings may name data.

    Returns
    -------
    Module

    Raises
    ------
    FingerprintError
        It is not Python, or the code or the files that it uses cannot be determined.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise FingerprintError(
            f"{file} is not valid Python (line {error.lineno}: {error.msg}); fix it and run again"
        ) from None
    text: list[str] = []
    nodes: list[ast.AST] = []
    _write(tree, text, nodes)
    refuse_dynamic_code(nodes, file, root)
    names = _names_in(nodes, file, root)
    data = _named_files(names.strings, siblings)
    if not data:
        refuse_undeclared_files(nodes, file)
    refuse_missing_files(tree, file)
    parts = [" ".join(text).encode(), *(path.read_bytes() for path in data)]
    packages = {name.split(".")[0] for name in names.imported}
    members: tuple[Path, ...] = ()
    if any(_calls_import_files(node) for node in nodes):
        members = _members(file.parent)
    return Module(
        digest=hashlib.sha256(b"\0".join(parts)).hexdigest()[:16],
        uses=_used_modules(names, file, root),
        members=members,
        packages=frozenset(packages - {*PACKAGES}),
    )


class _Names(NamedTuple):
    """The names in a piece of code that can lead to other files."""

    imported: set[str]
    """Dotted names of modules that it imports, or from which it imports."""
    strings: set[str]
    """Its strings, and the dotted names that it imports from modules."""


def _names_in(nodes: Iterable[ast.AST], file: Path, root: Path) -> _Names:
    """Return the names that the nodes of a syntax tree import, and their strings."""
    imported: set[str] = set()
    strings: set[str] = set()
    for node in nodes:
        match node:
            case ast.Constant(value=str(string)):
                strings.add(string)
            case ast.Import(names=aliases):
                imported.update(alias.name for alias in aliases)
            case ast.ImportFrom(module=module, level=level, names=aliases):
                base = _absolute_name(file, root, module, level)
                imported.add(base)
                strings.update(f"{base}.{alias.name}" for alias in aliases)
    return _Names(imported, strings)


def _absolute_name(file: Path, root: Path, module: str | None, level: int) -> str:
    """Return the dotted name of a module that a file imports from, relative by `level` dots."""
    parts: list[str] = []
    if level > 0:
        parts += file.relative_to(root / "lib").parts[:-level]
    if module is not None:
        parts.append(module)
    return ".".join(parts)


def _calls_import_files(node: ast.AST) -> bool:
    """Return whether a node is a call of `longrnn.registry.import_files`."""
    match node:
        case ast.Call(func=ast.Name(id="import_files")):
            return True
    return False


def _used_modules(names: _Names, file: Path, root: Path) -> tuple[Path, ...]:
    """Return the files in `lib/` that imports and strings name."""
    named = [resolve(string, root) for string in names.strings if _DOTTED_NAME.fullmatch(string)]
    uses = [path for path in named if path is not None]
    for name in names.imported:
        if name.split(".")[0] in PACKAGES:
            path = resolve(name, root)
            if path is None:
                raise FingerprintError(
                    f"{file} imports {name}, which is not in lib/; correct the name"
                )
            uses.append(path)
    return tuple(uses)


def _named_files(strings: set[str], siblings: Iterable[Path]) -> list[Path]:
    """Return the files other than Python that strings name, among `siblings` and below them.

    A folder counts with everything in it.
    """
    first_parts = {string.partition("/")[0] for string in strings}
    files = []
    for path in siblings:
        is_python = path.suffix == ".py" or (path / "__init__.py").is_file()
        if path.name not in first_parts or path.name[0] in "._" or is_python:
            continue
        inside = sorted(path.rglob("*"))
        files += [item for item in (path, *inside) if item.is_file()]
    return files


def _write(node: ast.AST, text: list[str], nodes: list[ast.AST]) -> None:
    """Append a syntax tree without prose to `text`, and its nodes to `nodes`.

    `ast.dump` would not do, because its text changes with Python's version.
    """
    nodes.append(node)
    text.append(f"({node.__class__.__name__}")
    for field in node._fields:
        value = getattr(node, field, None)
        if value is None or value == [] or field in _LAYOUT_FIELDS:
            continue
        text.append(field)
        items = value
        if not isinstance(value, list):
            items = [value]
        for item in items:
            if not isinstance(item, ast.AST):
                text.append(repr(item))
            elif not _is_prose(item):
                _write(item, text, nodes)
    text.append(")")


def _is_prose(node: ast.AST) -> bool:
    """Return whether a statement is a string alone: a docstring, or the description of a field."""
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
