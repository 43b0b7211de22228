"""What others wrote, as text that can only be read: captions, and the outputs of notebooks.

A caption is text with `code` and formulas between dollars, nothing else. Of a notebook's HTML the tables and words
stay; scripts, styles, forms and whatever else a browser would run or fetch do not. `conf.py` calls `clean_html` on every
piece of raw HTML of a notebook's page, however it came there.
"""

import re

import nbformat
import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from mdit_py_plugins.dollarmath import dollarmath_plugin

_CAPTION = MarkdownIt("zero").enable("backticks")
_CAPTION.use(dollarmath_plugin, renderer=lambda formula, _: rf"\({escape(formula)}\)")
_SHOWN = {"text/plain", "text/html", "text/markdown", "text/latex", "image/png", "image/jpeg"}
_TAGS = nh3.ALLOWED_TAGS - {"area", "img", "map"}  # pictures come as files of a notebook's outputs
_FORMS = re.compile(r"<(input|svg|iframe|object|form)\b", re.IGNORECASE)
# What MyST would carry out: a fence that names a directive, and a role before its text.
_DIRECTIVE = re.compile(r"^([ \t>*+\d.-]*(?:`{3,}|~{3,}|:{3,}))[ \t]*\{([^}\n]*)\}", re.MULTILINE)
_ROLE = re.compile(r"\{([\w:.+-]+)\}(?=`)")


def caption_html(text: str) -> Markup:
    """Return a caption as HTML: escaped, with its code and formulas set as such."""
    return Markup(_CAPTION.renderInline(" ".join(text.split())))


def choose_outputs(notebook: nbformat.NotebookNode) -> None:
    """Keep of a notebook's outputs, in place, the kinds that are read; `clean_html` sees to what they hold."""
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type != "raw"]
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "data" in output:
                shown = {kind: text for kind, text in output["data"].items() if kind in _SHOWN}
                if "text/plain" in shown and _FORMS.search(shown.get("text/html", "")):
                    del shown["text/html"]  # such as xarray's foldable view: its text says the same
                if "text/markdown" in shown:
                    shown["text/markdown"] = to_read(shown["text/markdown"])
                output["data"] = shown


def to_read(markdown: str) -> str:
    """Return displayed Markdown whose directives and roles are text: an output is data, and asks for no file."""
    return _ROLE.sub(r"\1 ", _DIRECTIVE.sub(r"\1 \2", markdown))


def clean_html(html: str) -> str:
    """Return `html` with the tags of tables and prose alone, without attributes that run or fetch anything."""
    attributes = nh3.ALLOWED_ATTRIBUTES | {"*": {"class", "title"}}
    return nh3.clean(html, tags=_TAGS, attributes=attributes, link_rel=None)
