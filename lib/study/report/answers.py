"""Find the answer in a notebook, to show it in lists of questions."""

import re

import nbformat
from nbformat import NotebookNode

from study.report.contents import Notebook

_ANSWER = re.compile(r"^#+ (?!.*\bnot answer).*\banswer.*$", re.IGNORECASE | re.MULTILINE)
"""The heading of an answer, unlike “What this does not answer”."""
_HEADING = re.compile(r"^#+ ", re.MULTILINE)
_MAX_LENGTH = 300
"""Maximum number of characters of an answer on a list of questions."""
_VERBATIM = re.compile(r"(\$[^$]+\$|`[^`]+`)")
"""Formulas and code, where an asterisk is not markup."""
_MARKUP = re.compile(r"\*+|\[([^]]*)\]\([^)]*\)")
"""Asterisks of emphasis, and links."""


def answer(notebook: Notebook) -> str:
    """Find the answer of a notebook: the first paragraph below its last heading with that word.

    Outputs of the cells up to the next heading come before the heading's own prose, which often
    only introduces them. Lists, such as that of judged claims, are not paragraphs.

    Parameters
    ----------
    notebook : Notebook

    Returns
    -------
    str
        Without markup, cut after a sentence if it is long; empty if there is none.
    """
    cells = nbformat.read(notebook.path, as_version=4).cells
    headings = []
    for position, cell in enumerate(cells):
        if cell.cell_type == "markdown" and _ANSWER.search(cell.source):
            headings.append(position)
    if not headings:
        return ""
    for text in _texts_below(cells, headings[-1]):
        for paragraph in text.split("\n\n"):
            if paragraph.strip()[:2] not in ("", "- "):
                return _shorten(paragraph)
    return ""


def _texts_below(cells: list[NotebookNode], heading: int) -> list[str]:
    """Return the Markdown of the outputs up to the next heading, then the heading's own prose."""
    texts = []
    for cell in cells[heading + 1 :]:
        if cell.cell_type == "markdown" and _HEADING.search(cell.source):
            break
        for output in cell.get("outputs", []):
            texts.append(output.get("data", {}).get("text/markdown", ""))
    texts.append(_ANSWER.split(cells[heading].source)[-1])
    return texts


def _shorten(text: str) -> str:
    """Return a paragraph without markup, cut after a sentence if it is long."""
    pieces = _VERBATIM.split(re.sub(r"^- ", "", text, flags=re.MULTILINE))
    for position in range(0, len(pieces), 2):  # every other piece is a formula or code
        pieces[position] = _MARKUP.sub(r"\1", pieces[position])
    plain = " ".join("".join(pieces).split())
    if len(plain) <= _MAX_LENGTH:
        return plain
    sentences = plain[:_MAX_LENGTH].rpartition(". ")[0]
    if sentences:
        return f"{sentences}."
    return f"{plain[:_MAX_LENGTH].rpartition(' ')[0]} …"
