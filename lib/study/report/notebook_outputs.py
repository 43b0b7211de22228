"""Render code cells of a notebook and their outputs as static HTML.

An output that cannot be shown does not stop the build. The page has a note instead of the output,
and a warning names the notebook and the cell.
"""

import base64
import hashlib
import io
import re
from collections.abc import Mapping

from markupsafe import escape
from nbformat import NotebookNode
from PIL import Image
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from study.report.notebook_page import NotebookPage
from study.report.restricted import clean_html, markdown_html

OUTPUTS = "files/outputs"
"""Folder of the notebooks' pictures inside the site."""
_UNFOLDED = {"parameters", "injected-parameters"}
"""Tags of cells whose code is not folded: the parameters that this page was made with."""
_FORMS = re.compile(r"<(input|svg|iframe|object|form)\b", re.IGNORECASE)
"""HTML that needs a browser's help, such as xarray's foldable view: its text says the same."""
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""Color codes of terminals."""
_PICTURES = ("image/png", "image/jpeg")
_SUFFIXES = {"PNG": "png", "JPEG": "jpg"}
_MAX_PIXELS = 50_000_000


class OutputError(ValueError):
    """One output of a notebook cannot be shown; the message says why."""


def code_cell_html(cell: NotebookNode, page: NotebookPage) -> str:
    """Return a code cell and its outputs as HTML, and store its pictures.

    Parameters
    ----------
    cell : NotebookNode
        An executed code cell.
    page : NotebookPage
        The page; an output that cannot be shown is reported to it.

    Returns
    -------
    str
        Static HTML.
    """
    pieces = []
    if cell.source.strip():
        code = highlight(cell.source, PythonLexer(), HtmlFormatter(cssclass="highlight"))
        if _UNFOLDED.intersection(cell.metadata.get("tags", [])):
            pieces.append(code)
        else:
            pieces.append(f'<details class="code"><summary>code</summary>{code}</details>')
    for output in cell.get("outputs", []):
        try:
            pieces.append(_output(output, page))
        except (OutputError, AttributeError, KeyError, TypeError) as error:
            reason = "it is malformed"
            if isinstance(error, OutputError):
                reason = str(error)
            page.report(f"an output cannot be shown: {reason}")
            pieces.append(f'<p class="lost">This output cannot be shown: {escape(reason)}.</p>')
    return f'<div class="cell">{"".join(pieces)}</div>'


def _output(output: NotebookNode, page: NotebookPage) -> str:
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


def _picture(encoded: str, size: Mapping, page: NotebookPage) -> str:
    """Store a picture and return its tag, with its size, so that nothing moves as it loads."""
    try:
        content = base64.b64decode("".join(encoded.split()), validate=True)
        with Image.open(io.BytesIO(content)) as picture:
            width = picture.width
            height = picture.height
            kind = picture.format
            if width * height > _MAX_PIXELS:
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
    shown = (size.get("width"), size.get("height"))
    if all(isinstance(side, int) and side > 0 for side in shown):
        width, height = shown
    up = "../" * page.notebook.page.count("/")
    alt = f"figure: {page.heading or page.notebook.title}"
    return (
        f'<img class="output" src="{escape(up + address)}" width="{width}" height="{height}" '
        f'alt="{escape(alt)}" loading="lazy">'
    )
