"""Outputs of notebooks that would read the builder's files or run in a reader's browser, as the report takes them."""

from html.parser import HTMLParser

import pytest
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from lib.report.safe import clean_html, to_read

pytestmark = pytest.mark.trials
KIND = "report"

FENCES = ("```", "~~~", ":::", "````", "::::", "~~~~~")
BEFORE = ("", "- ", "> ", "1. ", "   ", "* > ", "text\n", "\n", "- a\n\n  ", "$x$ ")
NAMES = (
    "include", "literalinclude", "raw", "csv-table", "eval-rst", "code-cell", "figure", "image", "download", "INCLUDE",
    "rst:include", "toctree", "math", "a+b", "doc", "ref", "substitution", "",
)  # fmt: skip
GAPS = ("", " ", "\t", "  ")
TAGS = (
    "script", "img", "iframe", "svg", "object", "style", "form", "link", "b", "td", "a", "ScRiPt", "math", "base", "meta", "table",
)  # fmt: skip
ATTRIBUTES = (
    "onerror=alert(1)", "src=//x.example/y", "href='javascript:alert(1)'", 'style="background:url(//x)"', "onload = 'a()'",
    "srcset=//x", "xlink:href=//x", "formaction=//x", "class=a", "colspan=2", "title='<script>'", "href=data:text/html,x", "/onclick=a()",
)  # fmt: skip
MYST = create_md_parser(
    MdParserConfig(enable_extensions={"colon_fence", "dollarmath"}), RendererHTML
)


def _carried_out(markdown):
    """Return what MyST, which builds the pages, would carry out."""
    flat = [one for token in MYST.parse(markdown) for one in (token, *(token.children or ()))]
    fences = [token.info for token in flat if "fence" in token.type and token.info.startswith("{")]
    return fences + [token.meta for token in flat if token.type == "myst_role"]


def test_displayed_markdown_asks_for_nothing(trials, draw):
    seen = 0
    for _ in trials.some(600):
        fence, name, file = draw.choice(FENCES), draw.choice(NAMES), "../../secret.txt"
        text = (
            f"{draw.choice(BEFORE)}{fence}{draw.choice(GAPS)}{{{name}}}{draw.choice(GAPS)}{file}\n"
        )
        text += draw.choice(("", ":file: ../../secret.txt\n", "x\n")) + fence
        if draw.random() < 0.4:
            text = f"{draw.choice(BEFORE)}{{{name}}}`x <{file}>` and {draw.choice(('', text))}"
        seen += bool(_carried_out(text))
        trials.accept(text, lambda text=text: _carried_out(to_read(text)), [].__eq__)
    assert seen > 10, "these would have been carried out"


class _Live(HTMLParser):
    """Collects what a browser would run or fetch."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag in {name.lower() for name in TAGS} - {"b", "td", "a", "table"}:
            self.found.append(tag)
        for name, value in attrs:
            target = (value or "").strip().lower()
            runs = name.startswith("on") or target.startswith(("javascript:", "data:"))
            if runs or name in {"src", "srcset", "style", "xlink:href", "formaction"}:
                self.found.append((tag, name))


def _live(html):
    parser = _Live()
    parser.feed(html)
    return parser.found


def test_displayed_html_runs_and_fetches_nothing(trials, draw):
    seen = 0
    for _ in trials.some(600):
        html = ""
        for _ in range(draw.randrange(1, 4)):
            tag = draw.choice(TAGS)
            said = " ".join(draw.sample(ATTRIBUTES, draw.randrange(4)))
            end = draw.choice((">", "/>", " >", "\n>", ">>", ""))
            html += f"<{tag} {said}{end}{draw.choice(('kept', '<', '&lt;script&gt;', '<!-- ', ''))}{draw.choice(('', f'</{tag}>'))}"
        seen += bool(_live(html))
        trials.accept(html, lambda html=html: _live(clean_html(html)), [].__eq__)
    assert seen > 100, "these would have run"
