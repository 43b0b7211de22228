"""Put an executed notebook into the site, under a title that says whose results it shows."""

import re
from pathlib import Path

import nbformat

from lib.report.inputs import Notebook
from lib.results.names import label

_IN_SIGHT = ("parameters", "injected-parameters")
"""Cells that stay unfolded: what this page was made with."""
_ARCHITECTURES = "lu_rnn|unicornn"
"""Of the words in file names."""


def page_name(notebook: Notebook) -> str:
    """Return the path of the notebook's page inside the site, without suffix."""
    return f"notebooks/{notebook.result_set or 'run'}/{notebook.name}"


def short_name(name: str) -> str:
    """Return a notebook's file name for menus: ``22_numerical_errors`` becomes ``22 · Numerical errors``."""
    number, _, words = name.partition("_")
    if not number.isdigit() or not words:
        return name.replace("_", " ").capitalize()
    words = words[0].upper() + words[1:]
    # An architecture keeps the name that the texts give it.
    named = re.sub(
        _ARCHITECTURES, lambda found: label(found[0].lower()), words, flags=re.IGNORECASE
    )
    return f"{number} · {named.replace('_', ' ')}"


def write_notebook(notebook: Notebook, source: Path, *, described: str) -> None:
    """Copy `notebook` below the folder `source` as a page whose code is folded.

    Parameters
    ----------
    described
        A reader's name for its results, such as ``stored reference (real)``; it joins the title.
    """
    content = nbformat.read(notebook.path, as_version=4)
    for cell in content.cells:
        if cell.cell_type == "markdown" and f"# {notebook.title}" in cell.source.splitlines():
            cell.source = cell.source.replace(
                f"# {notebook.title}", f"# {notebook.title} — {described}", 1
            )
            break
    else:
        content.cells.insert(
            0,
            nbformat.v4.new_markdown_cell(f"# {notebook.title} — {described}", id="report-title"),
        )
    for cell in content.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "code" and not set(tags) & set(_IN_SIGHT):
            cell.metadata["tags"] = [*tags, "hide-input"]
    # What a stripped notebook does not say: how to colour its code.
    content.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    path = source / f"{page_name(notebook)}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(content, path)
