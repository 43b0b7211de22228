"""Write the page of an executed notebook piece by piece: headings, Markdown and HTML."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it.token import Token

from study.report.contents import Notebook
from study.report.restricted import parse_markdown, render_tokens

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_FENCE = re.compile(r"`{3,}")


@dataclass
class NotebookPage:
    """The page of one notebook while it is written.

    Attributes
    ----------
    folder : Path
        Root of the site's own files; pictures go to ``files/outputs`` below it.
    notebook : Notebook
    pages : mapping
        Addresses of other pages, relative to this one, by the path of their notebook.
    warn : callable
        Receives a sentence that names the notebook and the cell.
    parts : list of str
        Finished pieces of MyST Markdown.
    cell : int
        The present cell, for warnings.
    heading : str
        Words of the last heading, for descriptions of pictures.
    """

    folder: Path
    notebook: Notebook
    pages: Mapping[str, str]
    warn: Callable[[str], None]
    parts: list[str] = field(default_factory=list)
    cell: int = 0
    heading: str = ""

    def report(self, reason: str) -> None:
        """Tell the builder that part of the present cell is not shown.

        Parameters
        ----------
        reason : str
            What is not shown, and why.
        """
        self.warn(f"{self.notebook.path}, cell {self.cell}: {reason}")

    def add_html(self, html: str) -> None:
        """Append HTML that reaches the page as it is.

        Parameters
        ----------
        html : str
            Whole elements, safe to show.
        """
        longest = max((len(fence) for fence in _FENCE.findall(html)), default=2)
        fence = "`" * (longest + 1)
        self.parts.append(f"{fence}{{raw}} html\n{html.strip()}\n{fence}\n")

    def add_markdown(self, source: str) -> None:
        """Append a Markdown cell: its headings as headings, the rest as HTML.

        Parameters
        ----------
        source : str
            The cell as written in the notebook.
        """
        tokens = parse_markdown(source)
        prose = []
        position = 0
        while position < len(tokens):
            token = tokens[position]
            if token.type == "heading_open" and token.level == 0:
                self._add_prose(prose)
                prose = []
                self.add_heading(int(token.tag[1:]), _plain_heading(tokens[position + 1]))
                self.heading = tokens[position + 1].content
                position += 3  # the opening tag, the words and the closing tag
            else:
                prose.append(token)
                position += 1
        self._add_prose(prose)

    def _add_prose(self, tokens: list[Token]) -> None:
        if tokens:
            html = render_tokens(tokens, self.pages, self.report)
            self.add_html(f'<div class="prose">{html}</div>')

    def add_heading(self, level: int, words: str) -> None:
        """Append a heading.

        Parameters
        ----------
        level : int
            1 for the title of the page.
        words : str
            Safe MyST Markdown on one line.
        """
        self.parts.append(f"{'#' * level} {words or '–'}\n")


def _plain_heading(inline: Token) -> str:
    """Return the words and formulas of a heading as Markdown without other markup."""
    words = []
    for child in inline.children or ():
        if child.type == "math_inline":
            words.append(f"${child.content}$")
        elif child.type in ("softbreak", "hardbreak"):
            words.append(" ")
        else:
            words.append(escape_markdown(child.content))
    return "".join(words).strip()


def escape_markdown(text: str) -> str:
    """Escape a text so that Markdown shows exactly its characters, on one line.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        Markdown.
    """
    return _PUNCTUATION.sub(r"\\\1", re.sub(r"\s*\n\s*", " ", text))
