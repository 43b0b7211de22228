"""Note which inputs made the outputs of each stage, and discard wrong records of DVC.

DVC hashes the inputs of a stage after its command has ended. If a notebook is saved shortly before
that, after the last check of `study.pipeline.inputs`, DVC records the new notebook with the outputs
of the old one, and considers the stage up to date.

So each stage notes the hashes of the inputs that it read and of the outputs that it made. The stage
`code` runs first at every `dvc repro` and compares these notes with `dvc.lock`. If a record is
wrong, the outputs of its stage are deleted from the repository and from DVC's cache. DVC then runs
the stage again.

The notes are not part of the outputs. Otherwise every change of an input would change the outputs,
and all stages that need them would run again even if nothing else in them has changed.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from study.paths import ROOT
from study.pipeline.files import write_text

FOLDER = Path("data/cache/inputs")
"""Folder of the notes, relative to the root of the repository; one file per stage."""
KEPT = 50
"""Number of notes that are kept per stage.

DVC can restore the outputs of earlier runs from its cache, so more than the last one is needed.
"""


class Note(NamedTuple):
    """The inputs and outputs of one run of a stage: hashes as in `dvc.lock`, by path."""

    inputs: dict[str, str]
    outputs: dict[str, str]


def dvc_hash(path: Path, by_file: Mapping[Path, str]) -> str | None:
    """Return the hash that DVC gives to a file or folder.

    Parameters
    ----------
    path
        The file or folder.
    by_file
        MD5 digests, in hexadecimal digits, of this file or of all files in this folder, such as
        `study.pipeline.inputs.digests` returns.

    Returns
    -------
    str or None
        The hash as `dvc.lock` has it; None if `by_file` has no file there.
    """
    if path in by_file:
        return by_file[path]
    files = {}
    for file, digest in by_file.items():
        if file.is_relative_to(path):
            files[file.relative_to(path).as_posix()] = digest
    if not files:
        return None
    entries = [{"md5": files[name], "relpath": name} for name in sorted(files)]
    listing = json.dumps(entries, sort_keys=True)
    return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def add_note(stage: str, note: Note, root: Path = ROOT) -> None:
    """Add a note of the inputs and outputs of one run of a stage.

    Parameters
    ----------
    stage
        Name of the stage as DVC gives it, such as ``analyze@46_latching``.
    note
        Hashes of its inputs and outputs.
    root
        Root of the repository.
    """
    notes = [other for other in read_notes(stage, root) if other != note]
    notes = [*notes, note][-KEPT:]
    text = "".join(json.dumps(kept._asdict(), sort_keys=True) + "\n" for kept in notes)
    path = root / FOLDER / f"{stage}.jsonl"
    write_text(path, text)


def read_notes(stage: str, root: Path = ROOT) -> list[Note]:
    """Return the notes of a stage, oldest first.

    Parameters
    ----------
    stage
        Name of the stage as DVC gives it.
    root
        Root of the repository.

    Returns
    -------
    list of Note
        Empty if the stage has not run in this folder.
    """
    path = root / FOLDER / f"{stage}.jsonl"
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Note(**json.loads(line)) for line in lines]


def wrong_records(root: Path = ROOT) -> dict[str, Note]:
    """Find the stages whose outputs were made from other inputs than `dvc.lock` records.

    Parameters
    ----------
    root
        Root of the repository.

    Returns
    -------
    dict of str to Note
        The wrong record in `dvc.lock`, by stage. If no note has the recorded outputs of a stage,
        the stage ran elsewhere, and its record is trusted.
    """
    if not (root / FOLDER).is_dir() or not (root / "dvc.lock").is_file():
        return {}
    from ruamel.yaml import YAML  # imported here, because only folders with notes need it

    locked = YAML(typ="safe").load((root / "dvc.lock").read_text(encoding="utf-8"))
    wrong = {}
    for stage, entry in locked["stages"].items():
        recorded = Note(_hashes(entry.get("deps", [])), _hashes(entry.get("outs", [])))
        makers = [note for note in read_notes(stage, root) if note.outputs == recorded.outputs]
        if makers and recorded not in makers:
            wrong[stage] = recorded
    return wrong


def _hashes(entries: list[dict[str, Any]]) -> dict[str, str]:
    return {entry["path"]: entry["md5"] for entry in entries}


def discard_wrong_records(root: Path = ROOT) -> list[str]:
    """Delete the outputs of all `wrong_records`, so that DVC runs these stages again.

    They are also deleted from DVC's cache, because DVC would restore them.

    Parameters
    ----------
    root
        Root of the repository.

    Returns
    -------
    list of str
        One sentence per stage.
    """
    wrong = wrong_records(root)
    if not wrong:
        return []
    from dvc.repo import Repo  # imported here, because it takes most of a second

    with Repo(root) as repo:
        cache = Path(repo.cache.local.path)
    messages = []
    for stage, recorded in wrong.items():
        for path, digest in recorded.outputs.items():
            _delete(root / path)
            _delete(cache / digest[:2] / digest[2:])
        messages.append(f"an input of the stage {stage} was saved as it ended, so it runs again")
    return messages


def _delete(path: Path) -> None:
    """Delete a file, or a folder with all it holds, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
