"""Put an executed notebook into the site, under a title that says whose results it shows."""

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import nbformat

from study.report.inputs import Notebook
from study.report.safe import choose_outputs
from study.results.names import LOOKS, label

_IN_SIGHT = {"parameters", "injected-parameters"}
"""Cells that stay unfolded: what this page was made with."""
_ARCHITECTURES = re.compile(
    rf"(?<![a-z])({'|'.join(sorted(LOOKS, key=len, reverse=True))})(?![a-z])", re.I
)
"""Words of file names."""
_ANSWER = re.compile(r"^#+ .*\banswer.*$", re.IGNORECASE | re.MULTILINE)
_LONGEST = 300
"""Characters of an answer on the front page."""


def short_name(name: str) -> str:
    """Return a notebook's file name for menus: ``22_numerical_errors`` becomes ``22 · Numerical errors``."""
    number, _, words = name.partition("_")
    # An architecture keeps the name that the texts give it.
    named = _ARCHITECTURES.sub(lambda found: label(found[0].lower()), words[:1].upper() + words[1:])
    return f"{number} · {named.replace('_', ' ')}"


def answer(notebook: Notebook) -> str:
    """Return the first paragraph below the last heading that promises an answer, or an empty text.

    What the cells below the heading display comes before its own prose, which often only leads there; lists, such as that of
    judged claims, are no paragraph.
    """
    cells = nbformat.read(notebook.path, as_version=4).cells
    for place, cell in reversed([*enumerate(cells)]):
        if cell.cell_type == "markdown" and _ANSWER.search(cell.source):
            below = takewhile(lambda one: one.cell_type != "markdown", cells[place + 1 :])
            outputs = [output for code in below for output in code.get("outputs", [])]
            texts = [output.get("data", {}).get("text/markdown", "") for output in outputs]
            texts.append(_ANSWER.split(cell.source)[-1])
            paragraphs = (part.strip() for text in texts for part in text.split("\n\n"))
            return _shortened(next((part for part in paragraphs if part[:2] not in ("", "- ")), ""))
    return ""


def _shortened(text: str) -> str:
    plain = re.sub(r"\*+|^- |\[([^]]*)\]\([^)]*\)", r"\1", text, flags=re.MULTILINE)
    plain = " ".join(plain.split())
    if len(plain) <= _LONGEST:
        return plain
    sentences = plain[:_LONGEST].rpartition(". ")[0]
    return f"{sentences}." if sentences else f"{plain[:_LONGEST].rpartition(' ')[0]} …"


def write_notebook(
    notebook: Notebook, path: Path, *, described: str, others: Sequence[tuple[str, str]] = ()
) -> None:
    """Write `notebook` to `path` as a page whose code is folded.

    `described` is a reader's name for its results and joins the title; `others` are names and addresses of the same
    notebook with other results, linked below it.
    """
    content = nbformat.read(notebook.path, as_version=4)
    choose_outputs(content)
    first, new = content.cells[0], nbformat.v4.new_markdown_cell
    first.source = first.source.removeprefix(f"# {notebook.title}")
    content.cells.insert(0, new(f"# {notebook.title} — {described}", id="report-title"))
    if others:
        links = ", ".join(f"[{name}]({address})" for name, address in others)
        also = new(f"The same with other results: {links}.", id="report-others")
        content.cells.insert(2, also)
    for cell in content.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "code" and not _IN_SIGHT.intersection(tags):
            cell.metadata["tags"] = [*tags, "hide-input"]
    # What a stripped notebook does not say: how to colour its code.
    content.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(content, path)
