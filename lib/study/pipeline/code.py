"""Describe the code and the settings that each stage of `dvc.yaml` depends on, in small files.

- ``data/code/<notebook>`` has a line for every module below `lib/` that the notebook reaches
  (`study.pipeline.fingerprint`), and a line for every package whose version can change its numbers
  (`study.pipeline.versions`). The difference between two versions of the file shows why a stage
  runs again.
- ``data/code/report`` is the same for the pages of the report.
- ``data/code/settings/<section>`` is a section of the chosen profile of `params.yaml`, merged with
  the base.

The stage `code` runs at every `dvc repro`, and writes a file only if its content has changed. It
also discards records that DVC made wrongly (`study.pipeline.dvc_records`).
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from study.config.datasets import datasets
from study.config.file import read_params, select_profile
from study.config.section import ParameterError
from study.paths import DATA, ROOT
from study.pipeline.dvc_records import discard_wrong_records
from study.pipeline.files import write_text
from study.pipeline.fingerprint import Reached, as_lines, module_code, notebook_code
from study.pipeline.instructions import says_reproducible
from study.pipeline.notebooks import NotebookError
from study.pipeline.refusals import FingerprintError
from study.pipeline.versions import result_versions

_PACKAGE = re.compile(r"cmd: python -m (study\.(\w+))$", re.M)
"""The command of a stage that runs a package instead of a notebook."""
_NO_STAGE = "8"
"""First digit of benchmark notebooks. They are not stages, because times never repeat."""
_NO_INPUT = {"jobs"}
"""Sections that do not change results. ``jobs`` has the settings for where jobs run."""


def notebooks(root: Path = ROOT) -> list[Path]:
    """Return the notebooks that are stages.

    Parameters
    ----------
    root
        Root of the repository.

    Returns
    -------
    list of Path
        Sorted by name.
    """
    paths = sorted((root / "notebooks").glob("*.ipynb"))
    return [path for path in paths if not path.name.startswith(_NO_STAGE)]


def write_code(folder: Path = DATA / "code", root: Path = ROOT) -> list[str]:
    """Bring every file in `folder` up to date.

    Parameters
    ----------
    folder
        Folder of the files. Files that no stage needs any more are removed.
    root
        Root of the repository.

    Returns
    -------
    list of str
        Names of the files whose content changed.

    Raises
    ------
    FingerprintError
        It cannot be determined which code a notebook or the report reaches.
    NotebookError
        A notebook is damaged.
    ParameterError
        `params.yaml` cannot be read. The contents of its sections are not checked here.
    """
    parameters = read_params(root / "params.yaml")
    pinned = says_reproducible(parameters)
    contents = {}
    for path in notebooks(root):
        contents[path.stem] = _describe(notebook_code(path, root=root), pinned)
    pipeline = (root / "dvc.yaml").read_text(encoding="utf-8")
    for package, name in _PACKAGE.findall(pipeline):
        reached = module_code([f"{package}.__main__"], whole=True, root=root)
        contents[name] = _describe(reached, pinned)
    for name, section in _sections(parameters).items():
        contents[f"settings/{name}"] = json.dumps(section, indent=2, sort_keys=True) + "\n"
    changed = []
    for name, text in contents.items():
        if _write_if_changed(folder / name, text):
            changed.append(name)
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in contents:
            path.unlink()
    return changed


def _describe(code: Reached, pinned: bool) -> str:
    """Return the modules and package versions of `code` as text, one per line.

    If instructions are pinned, another line says so, because results then differ in their last
    digits.
    """
    lines = [f"{name} {version}\n" for name, version in result_versions(code.packages).items()]
    if pinned and lines:
        lines.append("instructions AVX2\n")
    return as_lines(code.digests) + "".join(lines)


def _sections(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the sections of the chosen profile, and under ``data`` the data sets it reads."""
    sections = select_profile(parameters)
    inputs = {name: section for name, section in sections.items() if name not in _NO_INPUT}
    return {**inputs, "data": datasets(sections)}


def _write_if_changed(path: Path, text: str) -> bool:
    """Write a text unless the file already has it; return whether it was written."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    write_text(path, text)
    return True


def prune(root: Path = ROOT) -> list[Path]:
    """Remove the outputs of notebooks that no longer exist.

    DVC does not delete the outputs of a stage that was removed, and the report would show them.

    Parameters
    ----------
    root
        Root of the repository.

    Returns
    -------
    list of Path
        What was removed, relative to `root`.
    """
    known = [path.stem for path in notebooks(root)]
    outputs = [*root.glob("data/made/[!.]*/"), *root.glob("data/executed/[!.]*.ipynb")]
    removed = []
    for path in outputs:
        if path.name.partition(".")[0] in known:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        removed.append(path.relative_to(root))
    return removed


def main() -> int:
    """Write the files, and remove outputs that no stage makes any more or that are out of date.

    Returns
    -------
    int
        Exit status: 0, or 2 if a file is invalid or cannot be written.
    """
    try:
        write_code()
        removed = prune()
        discarded = discard_wrong_records()
    except (FingerprintError, NotebookError, ParameterError, OSError) as error:
        _print(error)
        return 2
    for path in removed:
        _print(f"removed {path}, which no stage makes any more")
    for message in discarded:
        _print(message)
    return 0


def _print(message: object) -> None:
    print(f"study.pipeline code: {message}", file=sys.stderr)
