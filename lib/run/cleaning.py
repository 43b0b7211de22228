"""Make an executed notebook a function of its inputs: what varies from run to run is removed or renamed.

Kept are the cells, their outputs and their execution counts. Removed are papermill's and Jupyter's records of the
run (times, paths, versions of the kernel) and everything written to stderr, the channel for progress, times and
warnings: those are shown live while the notebook runs. What is printed to stdout is kept and must not vary.
"""

import os
import re
from collections.abc import Callable

from nbformat import NotebookNode

from lib.paths import ROOT
from lib.run.notebooks import INJECTED

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I)
# The id of a styled pandas table, which prefixes the ids of all its cells.
_STYLER = re.compile(r"(?<![A-Za-z0-9])T_[0-9a-f]{5}(?![0-9a-f])")
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_ROOT = re.compile(rf"(?<![\w./-]){re.escape(str(ROOT) + os.sep)}")

_TEXT = re.compile(r"text/|application/(javascript|json)|image/svg")


def clean(notebook: NotebookNode) -> NotebookNode:
    """Return `notebook`, changed in place, without what differs between two runs of the same inputs."""
    notebook.metadata = _keep(notebook.metadata, "kernelspec", "language_info")
    notebook.metadata["language_info"] = {"name": "python"}
    rename = _renamer()
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if INJECTED in tags:
            cell.id = INJECTED  # instead of a random one
        for name in ("papermill", "execution", "ExecuteTime"):
            cell.metadata.pop(name, None)
        if not tags:
            cell.metadata.pop("tags", None)
        if cell.cell_type == "code":
            cell.outputs = _merge(cell.outputs)
            for output in cell.outputs:
                _clean_output(output, rename)
    return notebook


def _keep(metadata: NotebookNode, *names: str) -> NotebookNode:
    return NotebookNode({name: metadata[name] for name in names if name in metadata})


def _merge(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Drop stderr and join chunks of stdout: where a stream is cut depends on the clock."""
    merged: list[NotebookNode] = []
    for output in outputs:
        if output.output_type != "stream":
            merged.append(output)
        elif output.name == "stdout":
            if merged and merged[-1].output_type == "stream":
                merged[-1].text += output.text
            else:
                merged.append(output)
    return merged


def _clean_output(output: NotebookNode, rename: Callable[[str], str]) -> None:
    if output.output_type == "stream":
        output.text = rename(output.text)
    elif output.output_type == "error":
        output.evalue = rename(output.evalue)
        output.traceback = [rename(line) for line in output.traceback]
    else:
        for kind, content in output.data.items():
            if _TEXT.match(kind) and isinstance(content, str):
                output.data[kind] = rename(content)


def _renamer() -> Callable[[str], str]:
    """Return a function that replaces random ids by numbered ones, the same id by the same number."""
    uuids: dict[str, str] = {}
    stylers: dict[str, str] = {}

    def rename(text: str) -> str:
        text = _UUID.sub(
            lambda match: uuids.setdefault(
                match[0].lower(), f"00000000-0000-4000-8000-{len(uuids):012x}"
            ),
            text,
        )
        text = _STYLER.sub(
            lambda match: stylers.setdefault(match[0], f"T_{len(stylers):05x}"), text
        )
        return _ROOT.sub("", _ADDRESS.sub("at 0x0", text))

    return rename
