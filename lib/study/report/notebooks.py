"""Put an executed notebook into the site as a page that can only be read.

Headings of the notebook's own Markdown cells become headings of the page, so that search and the
contents on the right know them. Everything else is HTML made by `study.report.restricted`. An
output that cannot be shown costs its own cell: the page says so there, and the builder reads which
notebook and which cell.
"""

import base64
import hashlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from markdown_it.token import Token
from markupsafe import escape
from nbformat import NotebookNode
from PIL import Image
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from study.report.inputs import Notebook
from study.report.restricted import (
    clean_html,
    markdown_html,
    parse_markdown,
    render_tokens,
)
from study.results.names import LOOKS, label

OUTPUTS = "files/outputs"
"""Folder of the notebooks' pictures inside the site."""
_IN_SIGHT = {"parameters", "injected-parameters"}
"""Tags of cells whose code stays unfolded: what this page was made with."""
_ARCHITECTURES = re.compile(
    rf"(?<![a-z])({'|'.join(sorted(LOOKS, key=len, reverse=True))})(?![a-z])", re.I
)
"""Architectures in file names."""
_FORMS = re.compile(r"<(input|svg|iframe|object|form)\b", re.IGNORECASE)
"""HTML that needs a browser's help, such as xarray's foldable view: its text says the same."""
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""Colour codes of terminals."""
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_FENCE = re.compile(r"`{3,}")
_PICTURES = ("image/png", "image/jpeg")
_SUFFIXES = {"PNG": "png", "JPEG": "jpg"}
_MOST_PIXELS = 50_000_000


class OutputError(ValueError):
    """One output of a notebook cannot be shown; the message says why."""


@dataclass
class Page:
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
    """

    folder: Path
    notebook: Notebook
    pages: Mapping[str, str]
    warn: Callable[[str], None]
    parts: list[str] = field(default_factory=list)
    cell: int = 0

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


def short_name(name: str) -> str:
    """Return a notebook's file name for lists.

    Parameters
    ----------
    name : str
        File name without suffix.

    Returns
    -------
    str
        Number and words.

    Examples
    --------
    >>> short_name("22_numerical_errors")
    '22 · Numerical errors'
    """
    number, _, words = name.partition("_")
    words = words[:1].upper() + words[1:]
    # An architecture keeps the name that the papers give it.
    words = _ARCHITECTURES.sub(lambda match: label(match[0].lower()), words)
    return f"{number} · {words.replace('_', ' ')}"


def write_notebook(
    notebook: Notebook,
    source: Path,
    files: Path,
    *,
    described: str,
    others: Sequence[tuple[str, str]] = (),
    pages: Mapping[str, str] | None = None,
    warn: Callable[[str], None] = lambda sentence: None,
    searchable: bool = True,
) -> None:
    """Write the page of `notebook`, with its code folded, and the pictures of its outputs.

    Parameters
    ----------
    notebook : Notebook
    source : Path
        Folder of Sphinx's sources; the page goes to ``<notebook.page>.md`` below it.
    files : Path
        Folder of files that the site gets as they are.
    described : str
        A reader's name for its results; it joins the title.
    others : sequence of (name, address)
        The same notebook with other results, linked below the title.
    pages : mapping, optional
        Addresses, relative to this page, by the path of their notebook in the repository.
    warn : callable, optional
        Receives one sentence for everything that could not be shown.
    searchable : bool
        Whether the site's search lists the page.
    """
    content = nbformat.read(notebook.path, as_version=4)
    page = Page(files, notebook, pages or {}, warn)
    search = "" if searchable else "nosearch: true\n"
    page.parts.append(f"---\n{search}notebook: {notebook.name}\n---\n")
    page.add_heading(1, f"{escape_markdown(notebook.title)} — {escape_markdown(described)}")
    for page.cell, cell in enumerate(content.cells):
        if page.cell == 0 and cell.cell_type == "markdown":
            cell.source = cell.source.partition("\n")[2]  # its title is the page's
        if cell.cell_type == "markdown":
            page.add_markdown(cell.source)
        elif cell.cell_type == "code":
            page.add_html(_code_cell(cell, page))
        if page.cell == 0 and others:
            links = [f'<a href="{escape(address)}">{escape(name)}</a>' for name, address in others]
            page.add_html(f'<p class="meta">The same with other results: {", ".join(links)}.</p>')
    path = source / f"{notebook.page}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(page.parts), encoding="utf-8")


def _code_cell(cell: NotebookNode, page: Page) -> str:
    """Return a code cell and its outputs as HTML."""
    pieces = []
    if cell.source.strip():
        code = highlight(cell.source, PythonLexer(), HtmlFormatter(cssclass="highlight"))
        if _IN_SIGHT.intersection(cell.metadata.get("tags", [])):
            pieces.append(code)
        else:
            pieces.append(f'<details class="code"><summary>code</summary>{code}</details>')
    for output in cell.get("outputs", []):
        try:
            pieces.append(_output(output, page))
        except (OutputError, AttributeError, KeyError, TypeError) as error:
            reason = str(error) if isinstance(error, OutputError) else "it is malformed"
            page.report(f"an output cannot be shown: {reason}")
            pieces.append(f'<p class="lost">This output cannot be shown: {escape(reason)}.</p>')
    return f'<div class="cell">{"".join(pieces)}</div>'


def _output(output: NotebookNode, page: Page) -> str:
    """Return one output as HTML; an OutputError says why it cannot be shown."""
    if output.output_type == "stream":
        return _preformatted(output.text)
    if output.output_type == "error":
        return _preformatted("\n".join(output.traceback) or output.evalue)
    data = output.get("data", {})
    html = data.get("text/html", "")
    if html and not ("text/plain" in data and _FORMS.search(html)):
        return f'<div class="scroll output">{clean_html(html)}</div>'
    for kind in _PICTURES:
        if kind in data:
            return _picture(data[kind], output.get("metadata", {}).get(kind, {}), page)
    for kind in ("text/markdown", "text/latex"):
        if kind in data:
            return f'<div class="prose">{markdown_html(data[kind], page.pages, page.report)}</div>'
    if "text/plain" in data:
        return _preformatted(data["text/plain"])
    return ""


def _preformatted(text: str) -> str:
    return f'<pre class="output">{escape(_TERMINAL.sub("", text))}</pre>'


def _picture(encoded: str, size: Mapping, page: Page) -> str:
    """Store a picture and return its tag, with its size, so that nothing moves as it loads."""
    try:
        content = base64.b64decode("".join(encoded.split()), validate=True)
        with Image.open(io.BytesIO(content)) as picture:
            width, height, kind = picture.width, picture.height, picture.format
            if width * height > _MOST_PIXELS:
                raise OutputError(f"its picture has {width} x {height} pixels")
            picture.load()
    except OutputError:
        raise
    except Exception as error:  # decoders raise all sorts of errors on malformed files
        raise OutputError(f"its picture cannot be decoded ({type(error).__name__})") from None
    if kind not in _SUFFIXES:
        raise OutputError(f"its picture is {kind}, expected PNG or JPEG")
    digest = hashlib.sha256(content).hexdigest()[:16]
    address = f"{OUTPUTS}/{page.notebook.result_set}/{page.notebook.name}/{digest}"
    address = f"{address}.{_SUFFIXES[kind]}"
    path = page.folder / address
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    shown = size.get("width"), size.get("height")
    if all(isinstance(side, int) and side > 0 for side in shown):
        width, height = shown
    up = "../" * page.notebook.page.count("/")
    return (
        f'<img class="output" src="{escape(up + address)}" width="{width}" height="{height}" '
        'alt="figure of this notebook" loading="lazy">'
    )
