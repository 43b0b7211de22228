"""Outputs of notebooks that would read the builder's files or run in a reader's browser, as the report takes them."""

import pytest
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from study.report.safe import clean_html, to_read

pytestmark = pytest.mark.trials

FENCES = ("```", "~~~", ":::", "````", "::::", "~~~~~")
BEFORE = ("", "- ", "> ", "1. ", "   ", "* > ", "text\n", "\n", "- a\n\n  ", "$x$ ")
NAMES = (
    "include", "literalinclude", "raw", "csv-table", "eval-rst", "code-cell", "figure", "image", "download", "INCLUDE",
    "rst:include", "toctree", "math", "a+b", "doc", "ref", "substitution", "",
)  # fmt: skip
GAPS = ("", " ", "\t", "  ")
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


def test_displayed_markdown_asks_for_no_file(trials, draw):
    seen = 0
    for _ in trials.some(600):
        text = _markdown(draw)
        seen += bool(_carried_out(text))
        trials.accept(text, lambda: _carried_out(to_read(text)), [].__eq__)
    assert seen, "these would have been carried out"


HTML = """<table style="background:url(//x)" class="a"><tr><td colspan="2" onclick="a()">kept</td></tr></table>
<a href="javascript:a()">b</a><a href="data:text/html,x" xlink:href="//x">c</a><p title="<script>" srcset="//x">d</p>
<script>a()</script><ScRiPt>a()</ScRiPt><style>*{}</style><img src="//x" onerror=a()><svg onload=a()></svg><math></math><link href="//x">
<iframe src="//x"></iframe><object data="//x"></object><form action="//x"></form><base href="//x"><meta http-equiv="refresh">"""


def test_displayed_html_runs_and_fetches_nothing(trials):
    clean = '<table class="a"><tbody><tr><td colspan="2">kept</td></tr></tbody></table> <a>b</a><a>c</a><p title="&lt;script&gt;">d</p>'
    trials.accept("html", lambda: " ".join(clean_html(HTML).split()), clean.__eq__)
