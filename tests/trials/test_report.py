"""Outputs of notebooks that would read the builder's files or run in a reader's browser, as the report takes them."""

import pytest
from bs4 import BeautifulSoup
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from lib.report.safe import clean_html, to_read

pytestmark = pytest.mark.trials

FENCES = ("```", "~~~", ":::", "````", "::::", "~~~~~")
BEFORE = ("", "- ", "> ", "1. ", "   ", "* > ", "text\n", "\n", "- a\n\n  ", "$x$ ")
NAMES = (
    "include", "literalinclude", "raw", "csv-table", "eval-rst", "code-cell", "figure", "image", "download", "INCLUDE",
    "rst:include", "toctree", "math", "a+b", "doc", "ref", "substitution", "",
)  # fmt: skip
GAPS = ("", " ", "\t", "  ")
HARMLESS = ("b", "td", "a", "table")
TAGS = (
    *HARMLESS, "script", "img", "iframe", "svg", "object", "style", "form", "link", "ScRiPt", "math", "base", "meta",
)  # fmt: skip
ATTRIBUTES = (
    "onerror=alert(1)", "src=//x.example/y", "href='javascript:alert(1)'", 'style="background:url(//x)"', "onload = 'a()'",
    "srcset=//x", "xlink:href=//x", "formaction=//x", "class=a", "colspan=2", "title='<script>'", "href=data:text/html,x", "/onclick=a()",
)  # fmt: skip
FETCHES = {"src", "srcset", "style", "xlink:href", "formaction"}
MYST = create_md_parser(
    MdParserConfig(enable_extensions={"colon_fence", "dollarmath"}), RendererHTML
)


def _markdown(draw):
    fence, name, file = draw.choice(FENCES), draw.choice(NAMES), "../../secret.txt"
    text = f"{draw.choice(BEFORE)}{fence}{draw.choice(GAPS)}{{{name}}}{draw.choice(GAPS)}{file}\n"
    text += draw.choice(("", ":file: ../../secret.txt\n", "x\n")) + fence
    if draw.random() < 0.4:
        text = f"{draw.choice(BEFORE)}{{{name}}}`x <{file}>` and {draw.choice(('', text))}"
    return text


def _carried_out(markdown):
    """Return what MyST, which builds the pages, would carry out."""
    flat = [one for token in MYST.parse(markdown) for one in (token, *(token.children or ()))]
    fences = [token.info for token in flat if "fence" in token.type and token.info.startswith("{")]
    return fences + [token.meta for token in flat if token.type == "myst_role"]


def _html(draw):
    html = ""
    for _ in range(draw.randrange(1, 4)):
        tag, said = draw.choice(TAGS), " ".join(draw.sample(ATTRIBUTES, draw.randrange(4)))
        html += f"<{tag} {said}" + draw.choice((">", "/>", " >", "\n>", ">>", ""))
        html += draw.choice(("kept", "<", "&lt;script&gt;", "<!-- ", ""))
        html += draw.choice(("", f"</{tag}>"))
    return html


def _live(html):
    """Return what a browser would run or fetch."""
    return [
        (tag.name, name, value)
        for tag in BeautifulSoup(html, "html.parser").find_all(True)
        for name, value in {"": "", **tag.attrs}.items()
        if tag.name not in HARMLESS
        or name.startswith("on")
        or name in FETCHES
        or f"{value}".strip().lower().startswith(("javascript:", "data:"))
    ]


@pytest.mark.parametrize(
    ("make", "found", "clean"),
    [(_markdown, _carried_out, to_read), (_html, _live, clean_html)],
    ids=["markdown", "html"],
)
def test_what_is_displayed_runs_and_fetches_nothing(trials, draw, make, found, clean):
    seen = 0
    for _ in trials.some(600):
        text = make(draw)
        seen += bool(found(text))
        trials.accept(text, lambda: found(clean(text)), [].__eq__)
    assert seen, "these would have been carried out"
