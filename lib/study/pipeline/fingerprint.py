"""The one notion of "the code this depends on": a fingerprint of every module below `lib/` that is reached.

A module counts as its syntax tree without docstrings, comments and layout, so that prose costs nothing and a changed
sign costs exactly what used it. Reached is what the code imports, inside functions too, what those modules import, and
each module of ours that a piece of text names in full (``"study.pipeline.guard"``, for ``python -m``). Files that are no
Python and lie beside a module belong to it if its text names them. The fingerprint is the same under every version of
Python that reads the same tree from the code.
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
_LOADER = ("longrnn", "registry.py")
"""The one file that imports by a computed name; a package that calls it imports its own folder."""
_DYNAMIC = {"import_module", "__import__"}
_LAYOUT = {"kind", "ctx", "type_comment"}
_DOTTED = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+")


class FingerprintError(ValueError):
    """Which code is used cannot be told; the message says where and what to do."""


class _Module(NamedTuple):
    """What one file says about itself: its digest, and the files below `lib/` that it reaches at once."""

    digest: str
    uses: tuple[Path, ...]
    """What it imports, or names in its texts."""
    members: tuple[Path, ...]
    """Its folder's, if it is a package that imports them all."""


def fingerprint(
    modules: Iterable[str], *, whole: bool = False, without: tuple[str, ...] = (), root: Path = ROOT
) -> str:
    """Return the fingerprint, sixteen hexadecimal digits, of the named modules and all that they reach in `lib/`.

    Modules whose paths begin with one of `without`, such as ``lib/study/pipeline/``, do not count; the rest is as in `reached`.
    """
    found = reached(modules, whole=whole, root=root).items()
    counted = {path: digest for path, digest in found if not path.startswith(without)}
    return hashlib.sha256(as_lines(counted).encode()).hexdigest()[:16]


def reached(modules: Iterable[str], *, whole: bool = False, root: Path = ROOT) -> dict[str, str]:
    """Return the digest of every module that `modules`, dotted names in `lib/` below `root`, reach, by its path from there.

    With `whole` a package that imports every file of its folder (`longrnn.registry.import_files`) stands for all of them, else
    only for the members that something names, such as the cells and engines of one job. A FingerprintError says which module
    does not exist, is no Python, or imports by a computed name.
    """
    files = []
    for name in modules:
        files.append(_resolve(name, root))
        if files[-1] is None:
            raise FingerprintError(
                f"no module {name!r} in {root}; expected a dotted name such as longrnn.cells.lstm, as only code in lib/ has a fingerprint"
            )
    return _follow(files, whole, root)


def notebook_reached(path: Path, *, root: Path = ROOT) -> dict[str, str]:
    """Return what `reached` does, of whole packages, for what a notebook imports; its own cells do not count. A damaged one is a NotebookError."""
    code = "\n".join(cell.source for cell in read_cells(path) if cell.kind == "code")
    # Magics are no Python; what they import is none of ours.
    module = _parse(re.sub(r"^[%!].*", "", code, flags=re.MULTILINE), path, root)
    return _follow(module.uses, True, root)


def _follow(files: Iterable[Path], whole: bool, root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    todo = list(files)
    while todo:
        file = todo.pop()
        path = file.relative_to(root).as_posix()
        if path not in found:
            module = _read(file, root)
            found[path] = module.digest
            # The packages that it lies in are imported before it.
            above = [folder / "__init__.py" for folder in file.parents]
            todo += [one for one in above if one.is_relative_to(root / "lib") and one.is_file()]
            todo += [*module.uses, *(module.members if whole else ())]
    return dict(sorted(found.items()))


def as_lines(digests: dict[str, str]) -> str:
    """Return what `reached` gives as text, one module a line."""
    return "".join(f"{digest} {path}\n" for path, digest in digests.items())


@cache
def _resolve(name: str, root: Path) -> Path | None:
    """Return the file of a module or of a package in `lib/`, or None."""
    base = root.joinpath("lib", *name.split("."))
    files = (base.with_suffix(".py"), base / "__init__.py")
    inside = (file for file in files if file.is_relative_to(root / "lib") and file.is_file())
    return next(inside, None)


def _members(package: Path) -> tuple[Path, ...]:
    """Return the modules in a package's folder, without private ones and packages: what `longrnn.registry.import_files` imports."""
    return tuple(path for path in sorted(package.glob("*.py")) if path.name[0] not in "_.")


@cache  # a process has imported a file once; what is written into it later is not what runs
def _read(file: Path, root: Path) -> _Module:
    return _parse(file.read_text(encoding="utf-8"), file, root, file.parent.iterdir())


def _parse(source: str, file: Path, root: Path, beside: Iterable[Path] = ()) -> _Module:
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise FingerprintError(
            f"{file} is no Python (line {error.lineno}: {error.msg}); mend it before anything runs"
        ) from None
    out: list[str] = []
    nodes: list[ast.AST] = []
    _write(tree, out, nodes)
    imported, texts, fills = set(), set(), False
    for node in nodes:
        named: set[str] = set()
        match node:
            case ast.Constant(value=str(text)):
                texts.add(text)
            case ast.Import(names=aliases):
                imported.update(alias.name for alias in aliases)
            case ast.ImportFrom(module=module, level=level, names=aliases):
                package = file.relative_to(root / "lib").parts[:-level] if level else ()
                base = ".".join([*package, *([module] if module else [])])
                imported.add(base)
                texts.update(f"{base}.{alias.name}" for alias in aliases)
                named = {alias.name for alias in aliases if base == "importlib"}
            case ast.Name(id=name) | ast.Attribute(attr=name):
                named = {name}
            case ast.Call(func=ast.Name(id="import_files")):
                fills = True
        if named & _DYNAMIC and file.parts[-2:] != _LOADER:
            raise FingerprintError(
                f"{file}, line {node.lineno}, imports by a computed name, so it cannot be told which code it uses; "
                "name the module in an import statement"
            )
    parts = [" ".join(out).encode()]
    first = {text.partition("/")[0] for text in texts}
    for top in sorted(path for path in beside if path.name in first):
        if top.suffix != ".py" and top.name[0] not in "._" and not (top / "__init__.py").is_file():
            parts += [
                item.read_bytes() for item in (top, *sorted(top.rglob("*"))) if item.is_file()
            ]
    uses = [_resolve(text, root) for text in texts if _DOTTED.fullmatch(text)]
    for name in imported:
        if name.split(".")[0] in PACKAGES:
            uses.append(_resolve(name, root))
            if uses[-1] is None:
                raise FingerprintError(
                    f"{file} imports {name}, which is not in lib/; correct the name"
                )
    return _Module(
        digest=hashlib.sha256(b"\0".join(parts)).hexdigest()[:16],
        uses=tuple(filter(None, uses)),
        members=_members(file.parent) if fills else (),
    )


def _write(node: ast.AST, out: list[str], nodes: list[ast.AST]) -> None:
    """Write `node` and all below it but prose as text, and note its nodes; not `ast.dump`, whose text changes with Python's version."""
    nodes.append(node)
    out.append(f"({node.__class__.__name__}")
    for field in node._fields:
        value = getattr(node, field, None)
        if value is None or value == [] or field in _LAYOUT:
            continue
        out.append(field)
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, ast.AST):
                out.append(repr(item))
            elif not _is_prose(item):
                _write(item, out, nodes)
    out.append(")")


def _is_prose(node: ast.AST) -> bool:
    """Return whether a statement is text alone: a docstring, or what describes a constant or a field."""
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
