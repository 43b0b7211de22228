"""Remove or rename everything in an executed notebook that varies between runs.

Cells, their outputs and their execution counts are kept. Papermill's and Jupyter's records of the
run (times, paths, versions of the kernel) are removed. Stderr, which is for progress, times and
warnings, is shown while the notebook runs and is then removed as well. Stdout is kept, so it must
not vary.
"""

import os
import re
from typing import Any

from nbformat import NotebookNode

from study.paths import ROOT
from study.pipeline.notebooks import INJECTED

# A UUID, or the id of a styled pandas table, which prefixes the ids of all its cells.
_RANDOM = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<![A-Za-z0-9])T_[0-9a-f]{5}(?![0-9a-f])"
)
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_ROOT = re.compile(rf"(?<![\w./-]){re.escape(str(ROOT) + os.sep)}")


def clean(notebook: NotebookNode) -> NotebookNode:
    """Remove what differs between two runs of a notebook with the same inputs.

    Parameters
    ----------
    notebook
        An executed notebook, which is changed in place.

    Returns
    -------
    nbformat.NotebookNode
        The same notebook.
    """
    metadata = {"language_info": {"name": "python"}}
    if "kernelspec" in notebook.metadata:
        metadata["kernelspec"] = notebook.metadata["kernelspec"]
    notebook.metadata = NotebookNode(metadata)
    ids: dict[str, str] = {}
    for cell in notebook.cells:
        if INJECTED in cell.metadata.get("tags", []):
            cell.id = INJECTED  # instead of a random one
        if not cell.metadata.get("tags"):
            cell.metadata.pop("tags", None)
        for name in ("papermill", "execution", "ExecuteTime"):
            cell.metadata.pop(name, None)
        if cell.cell_type == "code":
            cell.outputs = _renamed(_merge(cell.outputs), ids)
    return notebook


def _merge(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Drop stderr, and join consecutive chunks of stdout, whose sizes depend on timing."""
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


def _renamed(content: Any, ids: dict[str, str]) -> Any:
    """Return the content of outputs without random ids, addresses and the path of the repository.

    Random ids are replaced by numbers in order of appearance. `ids` has the replacements so far.
    """
    match content:
        case dict():
            return type(content)({key: _renamed(part, ids) for key, part in content.items()})
        case list():
            return [_renamed(part, ids) for part in content]
        case str():
            content = _RANDOM.sub(
                lambda match: ids.setdefault(match[0], f"T_{len(ids):05x}"), content
            )
            return _ROOT.sub("", _ADDRESS.sub("at 0x0", content))
    return content
