"""Outputs of notebooks that would read the builder's files or run in a reader's browser."""

import re
from functools import partial

import pytest
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from study.report.restricted import clean_html, markdown_html

pytestmark = pytest.mark.trials

FENCES = ("```", "~~~", ":::", "````", "::::", "~~~~~")
BEFORE = (
    *("", "- ", "> ", "1. ", "1) ", "   ", "* > ", "text\n", "\n", "- a\n\n  ", "$x$ ", "[^n]: "),
    *("\u00a0", "\x0b", "\r", "text\r"),
)
NAMES = (
    *("include", "literalinclude", "raw", "csv-table", "eval-rst", "code-cell", "figure", "image"),
    *("download", "INCLUDE", "rst:include", "toctree", "math", "a+b", "doc", "ref", ""),
)
GAPS = ("", " ", "\t", "  ", "\u00a0", "\x0b")
SECRET = "../../secret.txt"
LINKS = (
    f"[x]({SECRET})",
    f"[x](<{SECRET}>)",
    f"[x](path:{SECRET})",
    f"[x][r]\n\n[r]: {SECRET}",
    f"![x]({SECRET})",
    "[x](jupyter_execute/../../../secret.txt)",
    "[x](%2e%2e/secret.txt)",
    f"<{SECRET}>",
    "[x](javascript:alert)",
    "[x](//secret.txt/x)",
    "[x](file:///secret.txt)",
    "[x](data:text/html,secret.txt)",
)
MYST = create_md_parser(
    MdParserConfig(enable_extensions={"colon_fence", "dollarmath"}), RendererHTML
)


def _markdown(draw):
    """Return Markdown with a directive, a role or a link."""
    kind = draw.random()
    if kind < 0.3:
        return f"{draw.choice(BEFORE)}{draw.choice(LINKS)} and {draw.choice(LINKS)}"
    fence = draw.choice(FENCES)
    name = draw.choice(NAMES)
    if kind < 0.6:
        return f"{draw.choice(BEFORE)}{{{name}}}`x <{SECRET}>`"
    text = f"{draw.choice(BEFORE)}{fence}{draw.choice(GAPS)}{{{name}}}{draw.choice(GAPS)}{SECRET}\n"
    return text + draw.choice(("", f":file: {SECRET}\n", "x\n")) + fence


def _myst_actions(markdown):
    """Return the directives, roles and links that plain MyST would carry out."""
    tokens = []
    for token in MYST.parse(markdown):
        tokens += [token, *(token.children or ())]
    fences = [token.info for token in tokens if "fence" in token.type and "{" in token.info]
    links = [token.attrs for token in tokens if token.type in ("link_open", "image")]
    return fences + links + [token.meta for token in tokens if token.type == "myst_role"]


def _ignore(reason):
    """Drop the reason for which an output was restricted."""


def _active_html(markdown):
    """Return tags and addresses, in the page we make of some Markdown, that a browser acts on."""
    html = markdown_html(markdown, {}, _ignore)
    return re.findall(r"<(?:img|script|iframe)|(?:href|src)=", html)


def test_displayed_markdown_asks_for_no_file(trials, draw):
    hostile = 0
    for _ in trials.some(600):
        text = _markdown(draw)
        if _myst_actions(text):
            hostile += 1
        trials.accept(text, partial(_active_html, text), [].__eq__)
    assert hostile > 0, "plain MyST would have carried out none of these"


HTML = """<table style="background:url(//x)" class="math">
<tr><td colspan="2" onclick="a()">kept</td></tr></table>
<a href="javascript:a()">b</a><a href="data:text/html,x" xlink:href="//x">c</a>
<a href="../../secret.txt">e</a>
<p title="<script>" srcset="//x">d</p><script>a()</script><ScRiPt>a()</ScRiPt><style>*{}</style>
<img src="//x" onerror=a()><svg onload=a()></svg><math></math><link href="//x">
<iframe src="//x"></iframe><object data="//x"></object><form action="//x"></form><base href="//x">
<meta http-equiv="refresh">"""


def test_displayed_html_runs_and_fetches_nothing(trials):
    clean = (  # the class is ours
        '<table> <tbody><tr><td colspan="2" class="words">kept</td></tr></tbody></table> '
        '<a>b</a><a>c</a> <a>e</a> <p title="&lt;script&gt;">d</p>'
    )
    trials.accept("html", lambda: " ".join(clean_html(HTML).split()), clean.__eq__)
