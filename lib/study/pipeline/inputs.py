"""Refuse to finish a stage whose inputs were saved while it ran.

DVC hashes the dependencies of a stage after its command has ended. If a notebook is saved while it
runs, DVC would record the saved version as the one that made the outputs, and would not run the
stage again. So the command compares its inputs before and after, and fails if one has changed. DVC
does not record a command that fails, so it runs the stage again. If a notebook is saved after this
comparison, the next `dvc repro` notices it, see `study.pipeline.dvc_records`.
"""

import contextlib
import fnmatch
import functools
import hashlib
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from study.paths import ROOT
from study.pipeline.dvc_records import Note, add_note, dvc_hash

STAGE = "DVC_STAGE"
"""Environment variable in which DVC gives the name of the stage to its command."""


class InputsChanged(RuntimeError):
    """An input was saved during a run; the message says which and what to do."""


@contextlib.contextmanager
def unchanged_inputs(root: Path = ROOT) -> Iterator[None]:
    """Check in a ``with`` block that the inputs of DVC's stage don't change.

    If DVC did not start this process, nothing is checked.

    Parameters
    ----------
    root
        Root of the repository.

    Yields
    ------
    None
        The block runs the stage's work.

    Raises
    ------
    InputsChanged
        The block ended without an error, but an input has changed.
    """
    stage = os.environ.get(STAGE)
    if not stage:
        yield
        return
    paths = dependencies(stage, root)
    before = digests(paths, root)
    yield
    after = digests(paths, root)
    changed = sorted(path for path in before.keys() | after if before.get(path) != after.get(path))
    if changed:
        names = ", ".join(_display_path(path, root) for path in changed[:3])
        if len(changed) > 3:
            names += f" and {len(changed) - 3} more"
        raise InputsChanged(
            f"{names} changed while the stage {stage} ran, so its results are not recorded; "
            "run `make repro` or `dvc repro` again"
        )
    made = outputs(stage, root)
    note = Note(_hashes(paths, before, root), _hashes(made, digests(made, root), root))
    add_note(stage, note, root)


def _hashes(paths: list[Path], by_file: dict[Path, str], root: Path) -> dict[str, str]:
    """Return DVC's hash of each path that exists, by its name relative to `root`."""
    hashes = {}
    for path in paths:
        digest = dvc_hash(path, by_file)
        if digest is not None:
            hashes[path.relative_to(root).as_posix()] = digest
    return hashes


def dependencies(stage: str, root: Path = ROOT) -> list[Path]:
    """Return the dependencies that `dvc.yaml` lists for a stage.

    Parameters
    ----------
    stage
        Name of the stage as DVC gives it, such as ``analyze@46_latching``.
    root
        Root of the repository.

    Returns
    -------
    list of Path
        Empty if `dvc.yaml` has no such stage.
    """
    return _listed_paths(stage, "deps", root)


def outputs(stage: str, root: Path = ROOT) -> list[Path]:
    """Return the outputs that `dvc.yaml` lists for a stage.

    Parameters
    ----------
    stage
        Name of the stage as DVC gives it.
    root
        Root of the repository.

    Returns
    -------
    list of Path
        Empty if `dvc.yaml` has no such stage.
    """
    return _listed_paths(stage, "outs", root)


def _listed_paths(stage: str, section: str, root: Path) -> list[Path]:
    """Return the paths in the section ``deps`` or ``outs`` of a stage in `dvc.yaml`."""
    stages = _parse_stages((root / "dvc.yaml").read_text(encoding="utf-8"))
    name, _, key = stage.partition("@")
    definition = stages.get(name, {})
    values: dict[str, Any] = {}
    if "foreach" in definition:
        items = definition["foreach"]
        item: Any = key
        if isinstance(items, dict):
            item = items.get(key)
        values = {"key": key, "item": item}
        if isinstance(item, dict):
            for field, value in item.items():
                values[f"item.{field}"] = value
        definition = definition["do"]
    paths = []
    for entry in definition.get(section, []):
        path = entry
        if isinstance(entry, dict):  # a path with options
            (path,) = entry
        paths.append(root / _filled(path, values))
    return paths


@functools.lru_cache(maxsize=1)
def _parse_stages(text: str) -> dict[str, Any]:
    """Return the stages in the text of a `dvc.yaml`."""
    from ruamel.yaml import YAML  # imported here, so that an invalid command is refused at once

    return YAML(typ="safe").load(text)["stages"]


def _filled(template: str, values: dict[str, Any]) -> str:
    """Replace each ``${name}`` in `template` by its value."""
    return re.sub(r"\$\{([^}]+)\}", lambda match: str(values.get(match[1], match[0])), template)


def digests(paths: list[Path], root: Path = ROOT) -> dict[Path, str]:
    """Return the digest of every file at some paths and below that DVC does not ignore.

    Parameters
    ----------
    paths
        Files and folders.
    root
        Root of the repository, with the file ``.dvcignore``.

    Returns
    -------
    dict of Path to str
        MD5 digests, as DVC uses them, in hexadecimal digits; paths that don't exist are left out.
    """
    ignored = _ignored_names(root)
    by_file = {}
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(path.rglob("*"))
        for file in files:
            if _is_ignored(file.relative_to(path), ignored):
                continue
            with contextlib.suppress(FileNotFoundError):
                if file.is_file():
                    with file.open("rb") as content:
                        by_file[file] = hashlib.file_digest(content, _md5).hexdigest()
    return by_file


def _is_ignored(path: Path, patterns: list[str]) -> bool:
    """Return whether a file or one of the folders in its relative path matches a pattern."""
    pairs = itertools.product(path.parts, patterns)
    return any(fnmatch.fnmatch(part, pattern) for part, pattern in pairs)


def _md5() -> Any:
    """Return an MD5 hash that is not for security. Some systems forbid MD5 for security."""
    return hashlib.md5(usedforsecurity=False)


def _ignored_names(root: Path) -> list[str]:
    """Return the patterns of names in ``.dvcignore``."""
    path = root / ".dvcignore"
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _display_path(path: Path, root: Path) -> str:
    """Return a path relative to `root` if it is inside, else as it is."""
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return str(path)
