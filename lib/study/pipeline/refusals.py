"""Refuse code if `study.pipeline.modules` cannot determine the files that it uses."""

import ast
from collections.abc import Iterable
from pathlib import Path

DEPENDS = "DEPENDS"
"""The list in which a module declares the files next to it that it reads by a computed name."""
_IMPORTER = "lib/longrnn/registry.py"
"""The one file that imports by a computed name; a package that calls it imports its own folder."""
_FORK_SERVER = "lib/study/pipeline/fork_server.py"
"""The one file that runs modules by name, as ``python -m`` does."""
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
_FOLDER_ATTRIBUTES = {"parent", "with_name", "dirname"}
"""Attributes with which a module finds its own folder."""


class FingerprintError(ValueError):
    """The code that something uses cannot be determined; the message says where and what to do."""


def refuse_dynamic_code(nodes: Iterable[ast.AST], file: Path, root: Path) -> None:
    """Refuse code that runs other code without naming it in an import statement.

    Parameters
    ----------
    nodes
        All nodes of the code's syntax tree.
    file
        The file that contains it.
    root
        Root of the repository.

    Raises
    ------
    FingerprintError
        The message says where, and what to do.
    """
    if file in (root / _IMPORTER, root / _FORK_SERVER):
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


def refuse_undeclared_files(nodes: Iterable[ast.AST], file: Path) -> None:
    """Refuse a module that looks for files in its own folder but names none of them.

    Parameters
    ----------
    nodes
        All nodes of the code's syntax tree.
    file
        The file that contains it.

    Raises
    ------
    FingerprintError
        It has no list ``DEPENDS``.
    """
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    looks_around = "__file__" in names and attributes & _FOLDER_ATTRIBUTES
    if looks_around and DEPENDS not in names:
        raise FingerprintError(
            f"{file} looks for files next to itself and names none of them; list those that it "
            f"reads in {DEPENDS} = [...], which is empty if it reads none"
        )


def refuse_missing_files(tree: ast.Module, file: Path) -> None:
    """Refuse a module that declares files that do not exist.

    Parameters
    ----------
    tree
        The module's syntax tree.
    file
        Its file.

    Raises
    ------
    FingerprintError
        An entry of its list ``DEPENDS`` is not the name of a file or folder next to it.
    """
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
                    "file or folder next to it"
                )
