"""Make an executed notebook a function of its inputs: what varies from run to run is removed or renamed.

Kept are the cells, their outputs and their execution counts. Removed are papermill's and Jupyter's records of the
run (times, paths, versions of the kernel) and everything written to stderr, the channel for progress, times and
warnings: those are shown live while the notebook runs. What is printed to stdout is kept and must not vary.
"""

import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from nbformat import NotebookNode

from lib.paths import ROOT
from lib.run.notebooks import INJECTED

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I)
# The id of a styled pandas table, which prefixes the ids of all its cells.
_STYLER = re.compile(r"(?<![A-Za-z0-9])T_[0-9a-f]{5}(?![0-9a-f])")
_NUMBERED = {_UUID: "00000000-0000-4000-8000-{:012x}", _STYLER: "T_{:05x}"}
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_ROOT = re.compile(rf"(?<![\w./-]){re.escape(str(ROOT) + os.sep)}")


def clean(notebook: NotebookNode) -> NotebookNode:
    """Return `notebook`, changed in place, without what differs between two runs of the same inputs."""
    kept = {name: notebook.metadata[name] for name in {"kernelspec"} & set(notebook.metadata)}
    notebook.metadata = NotebookNode(kept, language_info={"name": "python"})
    rename = _renamer()
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if INJECTED in tags:
            cell.id = INJECTED  # instead of a random one
        for name in ("papermill", "execution", "ExecuteTime", *([] if tags else ["tags"])):
            cell.metadata.pop(name, None)
        if cell.cell_type == "code":
            cell.outputs = rename(_merge(cell.outputs))
    return notebook


def _merge(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Drop stderr and join chunks of stdout: where a stream is cut depends on the clock."""
    merged: list[NotebookNode] = []
    for output in outputs:
        stream = output.output_type == "stream"
        if stream and output.name == "stdout" and merged and merged[-1].output_type == "stream":
            merged[-1].text += output.text
        elif not stream or output.name == "stdout":
            merged.append(output)
    return merged


def _renamer() -> Callable[[Any], Any]:
    """Return a function that, in all texts of what it is given, numbers random ids, equal ones alike, and drops addresses and the root's path."""
    known: dict[re.Pattern, dict[str, int]] = {pattern: {} for pattern in _NUMBERED}

    def rename(content: Any) -> Any:
        match content:
            case dict():
                return type(content)({key: rename(part) for key, part in content.items()})
            case list():
                return [rename(part) for part in content]
            case str():
                for pattern, ids in known.items():
                    content = pattern.sub(partial(number, pattern, ids), content)
                return _ROOT.sub("", _ADDRESS.sub("at 0x0", content))
        return content

    def number(pattern: re.Pattern, ids: dict[str, int], found: re.Match) -> str:
        return _NUMBERED[pattern].format(ids.setdefault(found[0].lower(), len(ids)))

    return rename
