"""Fingerprints of the code that something depends on: every module below `lib/` that it reaches.

A module counts as its syntax tree without docstrings, comments and layout. Prose therefore costs
nothing, and a changed sign costs exactly what used it. A module reaches what it imports (inside
functions too) and each module of ours that a string names in full, such as ``"study.report"`` for
``python -m``.

Files that are not Python and lie beside a module belong to it if a string in the module names
them, or if its list ``DEPENDS`` does. A module that looks beside ``__file__`` without naming a file
there must have that list, because a computed file name cannot be followed. Imports by a computed
name and dynamic code (`exec`, `runpy`, `spec_from_file_location`) are refused.

What the fingerprint cannot see: methods replaced at run time by a module that nothing reaches, and
files elsewhere in the repository, which a stage must list among its dependencies in `dvc.yaml`.

The fingerprint is the same under every version of Python that parses the code to the same tree.
"""

import ast
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from study.paths import ROOT
from study.pipeline.notebooks import read_cells

PACKAGES = ("longrnn", "study")
"""The packages in `lib/` whose code counts."""

DEPENDS = "DEPENDS"
"""The list in which a module declares the files beside it that it reads by a computed name."""

_IMPORTER = "lib/longrnn/registry.py"
"""The one file that imports by a computed name; a package that calls it imports its own folder."""
_WARM_START = "lib/study/pipeline/warm.py"
"""The one file that runs modules by name: it does what ``python -m`` does."""
_REFUSED = {
    "import_module": "imports by a computed name",
    "__import__": "imports by a computed name",
    "spec_from_file_location": "imports by a computed path",
    "runpy": "runs code by a computed name",
    "run_module": "runs code by a computed name",
    "run_path": "runs code by a computed name",
    "exec": "executes text",
}
"""Names that hide which code runs, and what they do."""
_BESIDE = {"parent", "with_name", "dirname"}
"""Attributes by which a module finds the folder that it lies in."""
_LAYOUT_FIELDS = {"kind", "ctx", "type_comment"}
_DOTTED_NAME = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+")


class FingerprintError(ValueError):
    """The code that something uses cannot be determined; the message says where and what to do."""


class _Module(NamedTuple):
    """What one file says about itself."""

    digest: str
    uses: tuple[Path, ...]
    """Files in `lib/` that it imports, or names in its strings."""
    members: tuple[Path, ...]
    """The modules of its folder, if it is a package that imports them all."""
    packages: frozenset[str]
    """Top-level modules outside `lib/` that it imports."""


class Reached(NamedTuple):
    """The code that something reaches."""

    digests: dict[str, str]
    """Digest of each module, by its path from the root."""
    packages: frozenset[str]
    """Top-level modules outside `lib/` that these import."""


def fingerprint(
    modules: Iterable[str], *, whole: bool = False, without: tuple[str, ...] = (), root: Path = ROOT
) -> str:
    """Return the fingerprint of the named modules and all that they reach in `lib/`.

    Parameters
    ----------
    modules
        Dotted names of modules in `lib/`.
    whole
        As in `reached`.
    without
        Modules whose paths begin with one of these, such as ``lib/study/pipeline/``, do not count.
    root
        Root of the repository.

    Returns
    -------
    str
        Sixteen hexadecimal digits.

    Raises
    ------
    FingerprintError
        As in `reached`.
    """
    digests = reached(modules, whole=whole, root=root)
    counted = {path: digest for path, digest in digests.items() if not path.startswith(without)}
    return hashlib.sha256(as_lines(counted).encode()).hexdigest()[:16]


def reached(modules: Iterable[str], *, whole: bool = False, root: Path = ROOT) -> dict[str, str]:
    """Return the digest of every module that the named modules reach, by its path from the root.

    Parameters
    ----------
    modules
        Dotted names of modules in `lib/`.
    whole
        Whether a package that imports every file of its folder (`longrnn.registry.import_files`)
        stands for all of them. Otherwise only the members count that something names, such as the
        cells and engines of one job.
    root
        Root of the repository.

    Raises
    ------
    FingerprintError
        A module does not exist, is not Python, or uses code that cannot be determined.
    """
    return module_code(modules, whole=whole, root=root).digests


def module_code(modules: Iterable[str], *, whole: bool = False, root: Path = ROOT) -> Reached:
    """Return the modules and the outside packages that `modules` reach; see `reached`."""
    files = []
    for name in modules:
        file = _resolve(name, root)
        if file is None:
            raise FingerprintError(
                f"no module {name!r} in {root}; expected a dotted name such as "
                "longrnn.cells.lstm, as only code in lib/ has a fingerprint"
            )
        files.append(file)
    return _follow(files, whole, root)


def notebook_code(path: Path, *, root: Path = ROOT) -> Reached:
    """Return the modules and the outside packages that a notebook's code cells reach.

    The cells themselves do not count. Raises FingerprintError as `reached` does, and NotebookError
    if the file is not a notebook.
    """
    code = "\n".join(cell.source for cell in read_cells(path) if cell.kind == "code")
    # Magics are not Python, and what they import is not ours.
    code = re.sub(r"^[%!].*", "", code, flags=re.MULTILINE)
    notebook = _parse(code, path, root)
    modules = _follow(notebook.uses, True, root)
    return Reached(modules.digests, modules.packages | notebook.packages)


def as_lines(digests: dict[str, str]) -> str:
    """Return what `reached` returns as text, one module per line."""
    return "".join(f"{digest} {path}\n" for path, digest in digests.items())


def _follow(files: Iterable[Path], whole: bool, root: Path) -> Reached:
    digests: dict[str, str] = {}
    packages: set[str] = set()
    todo = list(files)
    while todo:
        file = todo.pop()
        path = file.relative_to(root).as_posix()
        if path in digests:
            continue
        module = _read(file, root)
        digests[path] = module.digest
        packages |= module.packages
        todo += _packages_above(file, root)
        todo += module.uses
        if whole:
            todo += module.members
    return Reached(dict(sorted(digests.items())), frozenset(packages))


def _packages_above(file: Path, root: Path) -> list[Path]:
    """Return the packages that `file` lies in, which Python imports before it."""
    above = [folder / "__init__.py" for folder in file.parents]
    return [path for path in above if path.is_relative_to(root / "lib") and path.is_file()]


@cache
def _resolve(name: str, root: Path) -> Path | None:
    """Return the file of a module or of a package in `lib/`, or None."""
    base = root.joinpath("lib", *name.split("."))
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if file.is_relative_to(root / "lib") and file.is_file():
            return file
    return None


def _members(package: Path) -> tuple[Path, ...]:
    """Return the modules that `longrnn.registry.import_files` imports from a package's folder."""
    return tuple(path for path in sorted(package.glob("*.py")) if path.name[0] not in "_.")


@cache  # a process has imported a file once; what is written into it later is not what runs
def _read(file: Path, root: Path) -> _Module:
    source = file.read_text(encoding="utf-8")
    return _parse(source, file, root, beside=sorted(file.parent.iterdir()))


def _parse(source: str, file: Path, root: Path, beside: Iterable[Path] = ()) -> _Module:
    """Return what the code in `file` says; `beside` are the files and folders next to it."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise FingerprintError(
            f"{file} is not valid Python (line {error.lineno}: {error.msg}); fix it and run again"
        ) from None
    text: list[str] = []
    nodes: list[ast.AST] = []
    _write(tree, text, nodes)
    _refuse_dynamic_code(nodes, file, root)

    imported: set[str] = set()
    strings: set[str] = set()
    for node in nodes:
        match node:
            case ast.Constant(value=str(string)):
                strings.add(string)
            case ast.Import(names=aliases):
                imported.update(alias.name for alias in aliases)
            case ast.ImportFrom(module=module, level=level, names=aliases):
                package = file.relative_to(root / "lib").parts[:-level] if level else ()
                base = ".".join([*package, *([module] if module else [])])
                imported.add(base)
                strings.update(f"{base}.{alias.name}" for alias in aliases)

    data = _named_files(strings, beside)
    if not data:
        _refuse_undeclared_files(nodes, file)
    _refuse_missing_files(tree, file)
    parts = [" ".join(text).encode(), *(path.read_bytes() for path in data)]
    packages = {name.split(".")[0] for name in imported}
    is_importer = any(_calls_import_files(node) for node in nodes)
    return _Module(
        digest=hashlib.sha256(b"\0".join(parts)).hexdigest()[:16],
        uses=_used_modules(imported, strings, file, root),
        members=_members(file.parent) if is_importer else (),
        packages=frozenset(packages - {*PACKAGES}),
    )


def _calls_import_files(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="import_files")):
            return True
    return False


def _used_modules(
    imported: set[str], strings: set[str], file: Path, root: Path
) -> tuple[Path, ...]:
    """Return the files in `lib/` that imports and strings name."""
    named = [_resolve(string, root) for string in strings if _DOTTED_NAME.fullmatch(string)]
    uses = [path for path in named if path is not None]
    for name in imported:
        if name.split(".")[0] in PACKAGES:
            path = _resolve(name, root)
            if path is None:
                raise FingerprintError(
                    f"{file} imports {name}, which is not in lib/; correct the name"
                )
            uses.append(path)
    return tuple(uses)


def _named_files(strings: set[str], beside: Iterable[Path]) -> list[Path]:
    """Return the files that are not Python, among `beside` and in its folders, that strings name.

    A folder counts with everything in it.
    """
    first_parts = {string.partition("/")[0] for string in strings}
    files = []
    for path in beside:
        is_python = path.suffix == ".py" or (path / "__init__.py").is_file()
        if path.name not in first_parts or path.name[0] in "._" or is_python:
            continue
        inside = sorted(path.rglob("*"))
        files += [item for item in (path, *inside) if item.is_file()]
    return files


def _refuse_dynamic_code(nodes: Iterable[ast.AST], file: Path, root: Path) -> None:
    """Raise a FingerprintError if code runs that no import statement names."""
    if file in (root / _IMPORTER, root / _WARM_START):
        return
    for node in nodes:
        match node:
            case ast.ImportFrom(module="importlib" | "importlib.util" | "runpy", names=aliases):
                names = {alias.name for alias in aliases}
            case ast.Import(names=aliases):
                names = {alias.name for alias in aliases} & {"runpy"}
            case ast.Name(id=name):
                names = {name}
            case ast.Attribute(attr=name) if name != "exec":
                names = {name}
            case _:
                continue
        for name in names & set(_REFUSED):
            raise FingerprintError(
                f"{file}, line {node.lineno}, {_REFUSED[name]} ({name}), so the code it uses "
                "cannot be determined; name the module in an import statement"
            )


def _refuse_undeclared_files(nodes: Iterable[ast.AST], file: Path) -> None:
    """Raise a FingerprintError if a module looks beside itself but names no file there."""
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    looks_beside = "__file__" in names and attributes & _BESIDE
    if looks_beside and DEPENDS not in names:
        raise FingerprintError(
            f"{file} looks for files beside itself and names none of them; list those that it "
            f"reads in {DEPENDS} = [...], which is empty if it reads none"
        )


def _refuse_missing_files(tree: ast.Module, file: Path) -> None:
    """Raise a FingerprintError if a module declares files that do not exist."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=items)):
                pass
            case _:
                continue
        if name != DEPENDS:
            continue
        for item in items:
            path = getattr(item, "value", None)
            if not isinstance(path, str) or not (file.parent / path).exists():
                raise FingerprintError(
                    f"{file} declares {ast.unparse(item)} in {DEPENDS}; expected the name of a "
                    "file or folder beside it"
                )


def _write(node: ast.AST, text: list[str], nodes: list[ast.AST]) -> None:
    """Append a node and all below it but prose to `text`, and every node to `nodes`.

    Not `ast.dump`, whose text changes with Python's version.
    """
    nodes.append(node)
    text.append(f"({node.__class__.__name__}")
    for field in node._fields:
        value = getattr(node, field, None)
        if value is None or value == [] or field in _LAYOUT_FIELDS:
            continue
        text.append(field)
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, ast.AST):
                text.append(repr(item))
            elif not _is_prose(item):
                _write(item, text, nodes)
    text.append(")")


def _is_prose(node: ast.AST) -> bool:
    """Return whether a statement is a string alone: a docstring, or the description of a field."""
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
