"""Fingerprints of code: the digests of all modules below `lib/` that some code reaches.

A module reaches the modules that it imports (inside functions, too) and those below `lib/` that a
string names in full, such as ``"study.report"`` for ``python -m``. `study.pipeline.modules` defines
the digest of one module.

The fingerprint does not cover files elsewhere in the repository; a stage must list these among its
dependencies in `dvc.yaml`. Nor does it cover a module that replaces methods at run time, if nothing
reaches that module.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from study.paths import ROOT
from study.pipeline.modules import parse_module, read_module, resolve
from study.pipeline.notebooks import read_cells
from study.pipeline.refusals import FingerprintError


class Reached(NamedTuple):
    """The modules and packages that some code reaches."""

    digests: dict[str, str]
    """Digest of each module, by its path from the root."""
    packages: frozenset[str]
    """Top-level modules outside `lib/` that these modules import."""


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
        Whether all members of a package count if it imports every file of its folder
        (`longrnn.registry.import_files`). Otherwise only members that something names count, such
        as the cells and engines of one job.
    root
        Root of the repository.

    Returns
    -------
    dict
        Path from the root: digest, sorted by path.

    Raises
    ------
    FingerprintError
        A module does not exist, is not Python, or uses code that cannot be determined.
    """
    return module_code(modules, whole=whole, root=root).digests


def module_code(modules: Iterable[str], *, whole: bool = False, root: Path = ROOT) -> Reached:
    """Return the modules and the outside packages that modules reach.

    Parameters
    ----------
    modules
        Dotted names of modules in `lib/`.
    whole
        As in `reached`.
    root
        Root of the repository.

    Returns
    -------
    Reached

    Raises
    ------
    FingerprintError
        As in `reached`.
    """
    files = []
    for name in modules:
        file = resolve(name, root)
        if file is None:
            raise FingerprintError(
                f"no module {name!r} in {root}; expected a dotted name such as "
                "longrnn.cells.lstm, as only code in lib/ has a fingerprint"
            )
        files.append(file)
    return _follow(files, whole, root)


def notebook_code(path: Path, *, root: Path = ROOT) -> Reached:
    """Return the modules and the outside packages that a notebook's code cells reach.

    The cells themselves do not count.

    Parameters
    ----------
    path
        The notebook.
    root
        Root of the repository.

    Returns
    -------
    Reached

    Raises
    ------
    FingerprintError
        As in `reached`.
    NotebookError
        The file is not a notebook.
    """
    code = "\n".join(cell.source for cell in read_cells(path) if cell.kind == "code")
    # Remove IPython's magics, which are not Python. They don't import our code.
    code = re.sub(r"^[%!].*", "", code, flags=re.MULTILINE)
    notebook = parse_module(code, path, root)
    modules = _follow(notebook.uses, True, root)
    return Reached(modules.digests, modules.packages | notebook.packages)


def as_lines(digests: dict[str, str]) -> str:
    """Return digests as text.

    Parameters
    ----------
    digests
        As from `reached`.

    Returns
    -------
    str
        One line per module: its digest, a blank, its path.
    """
    return "".join(f"{digest} {path}\n" for path, digest in digests.items())


def _follow(files: Iterable[Path], whole: bool, root: Path) -> Reached:
    """Return the code that files reach, including the files themselves."""
    digests: dict[str, str] = {}
    packages: set[str] = set()
    seen: set[Path] = set()
    todo = list(files)
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        module = read_module(file, root)
        digests[file.relative_to(root).as_posix()] = module.digest
        packages |= module.packages
        todo += module.uses
        if whole:
            todo += module.members
    return Reached(dict(sorted(digests.items())), frozenset(packages))
