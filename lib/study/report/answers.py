"""Answers of notebooks, for lists of questions."""

import re
from itertools import takewhile

import nbformat

from study.report.inputs import Notebook

_ANSWER = re.compile(r"^#+ .*\banswer.*$", re.IGNORECASE | re.MULTILINE)
_LONGEST_ANSWER = 300
"""Characters of an answer on a list of questions."""


def answer(notebook: Notebook) -> str:
    """Find the answer of a notebook: the first paragraph below its last heading with that word.

    Outputs of the cells below the heading come before the heading's own prose, which often only
    leads there. Lists, such as that of judged claims, are not paragraphs.

    Parameters
    ----------
    notebook : Notebook

    Returns
    -------
    str
        Without markup, cut after a sentence if it is long; empty if there is none.
    """
    cells = nbformat.read(notebook.path, as_version=4).cells
    for position in range(len(cells) - 1, -1, -1):
        cell = cells[position]
        if cell.cell_type == "markdown" and _ANSWER.search(cell.source):
            below = takewhile(lambda cell: cell.cell_type != "markdown", cells[position + 1 :])
            outputs = [output for code in below for output in code.get("outputs", [])]
            texts = [output.get("data", {}).get("text/markdown", "") for output in outputs]
            texts.append(_ANSWER.split(cell.source)[-1])
            for text in texts:
                for paragraph in text.split("\n\n"):
                    if paragraph.strip()[:2] not in ("", "- "):
                        return _shorten(paragraph)
            return ""
    return ""


def _shorten(text: str) -> str:
    """Return a paragraph without markup, cut after a sentence if it is long."""
    plain = re.sub(r"\*+|^- |\[([^]]*)\]\([^)]*\)", r"\1", text, flags=re.MULTILINE)
    plain = " ".join(plain.split())
    if len(plain) <= _LONGEST_ANSWER:
        return plain
    sentences = plain[:_LONGEST_ANSWER].rpartition(". ")[0]
    if sentences:
        return f"{sentences}."
    return f"{plain[:_LONGEST_ANSWER].rpartition(' ')[0]} …"
