"""Render the text of notebooks and captions as static HTML.

MyST's own parser finds the tokens, and `RestrictedRenderer` decides what becomes of each:

* a directive or role is shown as its source; it is never executed, so no file is read;
* a link is kept if it leads to a page of this site or to another host by http(s);
  any other link becomes its text;
* a picture in Markdown becomes its description; only outputs of notebooks can show pictures;
* HTML in Markdown is shown as text.

HTML outputs keep the tags of tables and prose (`clean_html`). They lose their classes, and MathJax
looks only at elements of class ``math``, so a formula in an HTML output stays text.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from urllib.parse import unquote, urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape
from mdit_py_plugins.dollarmath import dollarmath_plugin
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from study.report.numbers import with_minuses

NOTEBOOK_FOLDER = "notebooks"
"""Folder from which relative links in a notebook count."""

Report = Callable[[str], None]
"""Receives one sentence about something that could not be shown."""

_SYNTAX = MdParserConfig(enable_extensions={"dollarmath", "amsmath", "colon_fence"})
_PLAIN = ["footnote_def", "footnote_ref", "reference"]
"""Syntax that stays text: definitions far from where they are used."""
_TAGS = nh3.ALLOWED_TAGS - {"area", "img", "map"}
_ATTRIBUTES = {
    name: allowed - {"class", "id"} for name, allowed in nh3.ALLOWED_ATTRIBUTES.items()
} | {"*": {"title"}}

_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(t[dh])\b([^>]*)>(.*?)</\1>", re.DOTALL)
_WORD = re.compile(r"(?!(?:nan|inf)$)[a-z]{3,}", re.IGNORECASE)
"""The beginning of a text that is no number."""
_HEADER = re.compile(r"<(thead|tbody)>(.*?)(?=</\1>)", re.DOTALL)
_UNSCOPED = re.compile(r"<th((?![^>]* scope=)[^>]*)>")


class RestrictedRenderer(RendererHTML):
    """Markdown tokens as HTML, without anything that a browser or Sphinx would act on.

    `env` of a rendering call holds ``pages``, a mapping from a path in the repository, such as
    ``notebooks/30_tenet.ipynb``, to the address of its page, and ``report``, a `Report`.

    Every method renders the token ``tokens[idx]`` as HTML; markdown-it calls the method that has
    the name of the token's type.
    """

    def link_open(self, tokens: Sequence[Token], idx: int, options: object, env: dict) -> str:
        """Return the opening tag of a link that may be followed, or nothing."""
        address = str(tokens[idx].attrGet("href") or "")
        target = resolve_link(address, env["pages"])
        env["links"].append(target is not None)
        if target is None:
            env["report"](f"the link to {address[:80]!r} leads to no page of the report")
            return ""
        return f'<a href="{escape(target)}">'

    def link_close(self, tokens: Sequence[Token], idx: int, options: object, env: dict) -> str:
        """Return the closing tag that belongs to the last opened link."""
        is_link = env["links"].pop()
        if is_link:
            return "</a>"
        return ""

    def image(self, tokens: Sequence[Token], idx: int, options: object, env: dict) -> str:
        """Return the description of a picture; pictures in Markdown are left out."""
        env["report"]("a picture in Markdown is left out; display it as an output instead")
        return f"<em>{escape(tokens[idx].content)}</em>"

    def fence(self, tokens: Sequence[Token], idx: int, options: object, env: dict) -> str:
        """Return a block of code; a directive shows its name, too."""
        token = tokens[idx]
        info = token.info.strip()
        code = token.content
        if info.startswith("{"):
            code = f"{info}\n{code}"
        return f"<pre><code>{escape(code)}</code></pre>\n"

    colon_fence = fence

    def myst_role(self, tokens: Sequence[Token], idx: int, options: object, env: dict) -> str:
        """Return a role as its source."""
        token = tokens[idx]
        source = f"{{{token.meta['name']}}}{token.content}"
        return f"<code>{escape(source)}</code>"

    def math_inline(self, tokens: Sequence[Token], idx: int, options: object, env: dict) -> str:
        """Return an inline formula for MathJax."""
        return inline_formula(tokens[idx].content)

    def math_block(self, tokens: Sequence[Token], idx: int, options: object, env: dict) -> str:
        """Return a displayed formula for MathJax."""
        return displayed_formula(tokens[idx].content)

    math_inline_double = math_block
    math_block_label = math_block

    def amsmath(self, tokens: Sequence[Token], idx: int, options: object, env: dict) -> str:
        """Return an environment of amsmath, which MathJax finds by itself."""
        return f'<div class="math">{escape(tokens[idx].content.strip())}</div>\n'

    def nothing(self, tokens: Sequence[Token], idx: int, options: object, env: dict) -> str:
        """Return nothing, for tokens that carry no text for readers."""
        return ""

    myst_target = myst_line_comment = myst_block_break = front_matter = nothing


def _create_parser() -> MarkdownIt:
    """Return MyST's parser with our renderer; HTML and footnotes are text to it."""
    parser = create_md_parser(_SYNTAX, RestrictedRenderer)
    parser.disable(_PLAIN)
    parser.options["html"] = False
    # Plugins replace the renderer's rules by their own; put ours back.
    for name in [*parser.renderer.rules, "link_open", "link_close", "colon_fence"]:
        if name in vars(RestrictedRenderer):
            parser.renderer.rules[name] = getattr(parser.renderer, name)
    return parser


_MARKDOWN = _create_parser()
_CAPTION = MarkdownIt("zero").enable("backticks")
_CAPTION.use(dollarmath_plugin, renderer=lambda formula, _: rf"\({escape(formula)}\)")


def inline_formula(formula: str) -> str:
    """Return a formula inside a sentence as an element that MathJax draws.

    Parameters
    ----------
    formula : str
        LaTeX, without delimiters.

    Returns
    -------
    str
        HTML.
    """
    return rf'<span class="math inline">\({escape(formula)}\)</span>'


def displayed_formula(formula: str) -> str:
    """Return a formula on a line of its own as an element that MathJax draws.

    Parameters
    ----------
    formula : str
        LaTeX, without delimiters.

    Returns
    -------
    str
        HTML.
    """
    return rf'<div class="math">\[{escape(formula.strip())}\]</div>' + "\n"


def resolve_link(address: str, pages: Mapping[str, str]) -> str | None:
    """Return where a link leads, or None if it may not be followed.

    Parameters
    ----------
    address : str
        The link as written in a notebook.
    pages : mapping
        Addresses of the site's pages by the path of their notebook in the repository.

    Returns
    -------
    str or None
        An http(s) address unchanged, or the address of a page. The path is resolved first, so
        that neither ``..`` nor a percent sign leads elsewhere.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme in ("http", "https") and parts.netloc:
        return address
    if parts.scheme or parts.netloc:
        return None
    path = posixpath.normpath(posixpath.join(NOTEBOOK_FOLDER, unquote(parts.path)))
    return pages.get(path)


def parse_markdown(text: str) -> list[Token]:
    """Return the tokens of Markdown, as MyST's parser sees them.

    Parameters
    ----------
    text : str
        Markdown; its HTML and footnotes are text.

    Returns
    -------
    list of Token
    """
    return _MARKDOWN.parse(text, {})


def render_tokens(tokens: Sequence[Token], pages: Mapping[str, str], report: Report) -> str:
    """Render tokens of `parse_markdown`.

    Parameters
    ----------
    tokens : sequence of Token
    pages : mapping
        See `resolve_link`.
    report : callable
        Called with one sentence for each link or picture that is left out.

    Returns
    -------
    str
        Static HTML.
    """
    env = {"pages": pages, "report": report, "links": []}
    return _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, env)


def markdown_html(text: str, pages: Mapping[str, str], report: Report) -> str:
    """Render Markdown.

    Parameters
    ----------
    text : str
    pages, report
        As of `render_tokens`.

    Returns
    -------
    str
        Static HTML.
    """
    return render_tokens(parse_markdown(text), pages, report)


def caption_html(text: str) -> Markup:
    """Render a caption: text with code and formulas, and nothing else.

    Parameters
    ----------
    text : str
        Text with `code` in backticks and formulas between dollar signs.

    Returns
    -------
    Markup
        Static HTML.

    Examples
    --------
    >>> caption_html("a < b in `x`")
    Markup('a &lt; b in <code>x</code>')
    """
    return Markup(_CAPTION.renderInline(with_minuses(" ".join(text.split()))))


def clean_html(html: str) -> str:
    """Keep the tables and prose of HTML, and nothing that a browser would run, fetch or style.

    Headers of tables get a scope, which screen readers need: pandas writes none.

    Links keep http(s) addresses alone: a relative address would lead to a file next to the page.

    Parameters
    ----------
    html : str
        An output of a notebook.

    Returns
    -------
    str
        Whole elements, even if `html` leaves some open.
    """
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_filter_attribute,
        link_rel=None,
        url_schemes={"http", "https"},
    )
    scoped = _HEADER.sub(_with_scope, clean)
    return _TABLE.sub(_mark_words, scoped)


def _mark_words(match: re.Match) -> str:
    """Return a table whose columns of words have the class ``words``: numbers align otherwise.

    Columns are counted from the right, because row headers may span several rows.
    """
    table = match.group()
    of_words = set()
    for row in _ROW.findall(table):
        for position, (tag, _, content) in enumerate(reversed(_CELL.findall(row))):
            if tag == "td" and _WORD.match(content.strip()):
                of_words.add(position)

    def mark_row(row: re.Match) -> str:
        positions = count(len(_CELL.findall(row.group())) - 1, -1)

        def mark_cell(cell: re.Match) -> str:
            if next(positions) not in of_words:
                return cell.group()
            tag, attributes, content = cell.groups()
            return f'<{tag}{attributes} class="words">{content}</{tag}>'

        return _CELL.sub(mark_cell, row.group())

    return _ROW.sub(mark_row, table)


def _with_scope(match: re.Match) -> str:
    """Return the beginning of a table's head with columns' headers, or of its body with rows'."""
    part, cells = match.groups()
    scope = "col" if part == "thead" else "row"
    return f"<{part}>" + _UNSCOPED.sub(rf'<th scope="{scope}"\1>', cells)


def _filter_attribute(tag: str, attribute: str, value: str) -> str | None:
    """Return the value of an attribute, or None to drop the attribute."""
    if attribute in ("href", "cite"):
        return resolve_link(value, {})
    return value
