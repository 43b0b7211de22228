"""Refuse to finish a stage whose inputs were saved while it ran.

DVC hashes the dependencies of a stage after its command has ended. So it would record a notebook
that is saved while it runs as the one that made the outputs, and would never run the stage again.
DVC does not record a command that fails, so it runs such a stage again.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from study.paths import ROOT

STAGE = "DVC_STAGE"
"""Environment variable in which DVC gives the name of the stage to its command."""


class InputsChanged(RuntimeError):
    """An input was saved during a run; the message says which and what to do."""


@contextlib.contextmanager
def unchanged_inputs(root: Path = ROOT) -> Iterator[None]:
    """Watch the inputs of the stage that DVC runs, in a ``with`` block; outside of DVC do nothing.

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
        The block ends without another error, but an input has changed.
    """
    stage = os.environ.get(STAGE)
    if not stage:
        yield
        return
    paths = dependencies(stage, root)
    before = digests(paths)
    yield
    after = digests(paths)
    changed = sorted(path for path in before.keys() | after if before.get(path) != after.get(path))
    if changed:
        names = ", ".join(_display_path(path, root) for path in changed[:3])
        if len(changed) > 3:
            names += f" and {len(changed) - 3} more"
        raise InputsChanged(
            f"{names} changed while the stage {stage} ran, so its results are not recorded; "
            "run `make repro` or `dvc repro` again"
        )


def dependencies(stage: str, root: Path = ROOT) -> list[Path]:
    """Return the dependencies that `dvc.yaml` lists for a stage.

    Parameters
    ----------
    stage
        Name of the stage as DVC gives it, such as ``analyse@46_latching``.
    root
        Root of the repository.

    Returns
    -------
    list of Path
        Empty if `dvc.yaml` has no such stage.
    """
    from ruamel.yaml import YAML  # late: a wrong call is refused at once

    stages = YAML(typ="safe").load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
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
            values |= {f"item.{name}": value for name, value in item.items()}
        definition = definition["do"]
    return [root / _filled(path, values) for path in definition.get("deps", [])]


def _filled(template: str, values: dict[str, Any]) -> str:
    """Replace each ``${name}`` in `template` by its value."""
    return re.sub(r"\$\{([^}]+)\}", lambda match: str(values.get(match[1], match[0])), template)


def digests(paths: list[Path]) -> dict[Path, str]:
    """Return the digest of every file at some paths and below.

    Parameters
    ----------
    paths
        Files and folders.

    Returns
    -------
    dict of Path to str
        BLAKE2 digests in hexadecimal digits; paths that don't exist are left out.
    """
    by_file = {}
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(path.rglob("*"))
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                if file.is_file():
                    with file.open("rb") as content:
                        by_file[file] = hashlib.file_digest(content, "blake2b").hexdigest()
    return by_file


def _display_path(path: Path, root: Path) -> str:
    """Return a path relative to `root` if it is inside, else as it is."""
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return str(path)
