"""The report in a real browser, opened from the disk.

Needs Chromium (Debian: ``apt-get install chromium``). Without one the tests skip with that reason;
with ``LTD_NO_SKIP=1`` in the environment, as in CI, they fail instead.
"""

import itertools
from operator import attrgetter

import pytest

pytestmark = pytest.mark.browser

MOST = 4
"""Pages of a folder that are visited, the largest: the others are made of the same parts.

`make exhaustive` visits more.
"""
WIDTHS = (420, 1200, 1400)
"""Widths of windows in pixels: a phone, a small screen, and a larger one.

The next page opens in the last one.
"""

# Once formulas are drawn; pictures that load when they come into view are told to load now.
SEEN = """async () => {
  await window.MathJax?.startup?.promise;
  await document.fonts.ready;
  const all = (what) => [...document.querySelectorAll(what)];
  const pictures = await Promise.all([...document.images].map(async (image) => {
    image.loading = "eager";
    await image.decode().catch(() => null);
    return [image.currentSrc, image.naturalWidth];
  }));
  return {
    pictures, title: document.title,
    running: all("a").map((link) => link.href?.baseVal ?? link.href)
      .filter((address) => address.startsWith("javascript")),
    written: all("article .math").length,
    refused: all("mjx-merror").map((box) => box.textContent),
    undrawn: all("article .math")
      .filter((formula) => !(formula.querySelector("mjx-container")?.offsetWidth > 0))
      .map((formula) => formula.textContent),
  };
}"""

# Tables of numbers scroll in their box; those of words are to be read whole.
CUT = """[...document.querySelectorAll("table.words, table.tally, .forest")]
  .filter((table) => table.offsetWidth > table.parentElement.clientWidth)
  .map((table) => `${innerWidth}: ${table.className} ${table.offsetWidth}`)"""


def visit(tab, path):
    """Open a page in a tab, in windows of all widths.

    Parameters
    ----------
    tab
        A page of Playwright's, which later pages may use again.
    path
        The file.

    Returns
    -------
    dict
        What the page shows, and what happened while it was open.
    """
    seen = {name: [] for name in ("requests", "faults", "cut", "wide")}
    heard = {
        "request": lambda request: seen["requests"].append(request.url),
        "requestfailed": lambda request: seen["faults"].append(f"{request.failure} {request.url}"),
        "pageerror": lambda error: seen["faults"].append(str(error)),
        "console": lambda message: seen["faults"].append(message.text),
    }
    for event, hear in heard.items():
        tab.on(event, hear)
    tab.goto(path.as_uri())
    seen |= tab.evaluate(SEEN)
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        seen["wide"] += [width] * (tab.evaluate("document.documentElement.scrollWidth") > width)
        seen["cut"] += tab.evaluate(CUT)
    tab.goto("about:blank")  # what the page still does is its own
    for event, hear in heard.items():
        tab.remove_listener(event, hear)
    return seen


ENTRIES = {"index.html", "claims.html", "tables.html", "figures.html", "coverage.html"}
"""Pages that the navigation begins with: visited however small they are."""


def visit_largest(site, browser, most):
    """Visit the entries of a site and the largest pages of each of its folders, each once.

    Parameters
    ----------
    site
        Its folder.
    browser
        Of Playwright's.
    most
        Number of pages of a folder.

    Returns
    -------
    dict
        What `visit` returns, by the page's path in the site.
    """
    pages = sorted(site.rglob("*.html"), key=lambda page: (page.parent, -page.stat().st_size))
    tab = browser.new_page()  # one for all: a new one takes as long as a page
    seen = {}
    for _, folder in itertools.groupby(pages, attrgetter("parent")):
        for position, page in enumerate(folder):
            name = page.relative_to(site).as_posix()
            if position < most or name in ENTRIES:
                seen[name] = visit(tab, page)
    return seen


def faults_by_page(fault, visits):
    """Return the pages that have a fault, with what is wrong.

    Parameters
    ----------
    fault
        One of `FAULTS`.
    visits
        What `visit_largest` returns.

    Returns
    -------
    dict
        By page; empty if no page has the fault.
    """
    faulty = {name: FAULTS[fault](seen) for name, seen in visits.items()}
    return {name: faults for name, faults in faulty.items() if faults}


@pytest.fixture(scope="module")
def visits(each_site, browser):
    """Return what the largest pages of every folder loaded and drew, each visited once."""
    return visit_largest(each_site, browser, MOST)


FAULTS = {
    "complaint in the console, or a request that failed": lambda seen: [
        fault  # leaving a page cancels the request for its icon, which nothing waits for
        for fault in seen["faults"]
        if not (fault.startswith("net::ERR_ABORTED") and fault.endswith("/favicon.svg"))
    ],
    "request of another host": lambda seen: [
        asked for asked in seen["requests"] if not asked.startswith(("file:", "data:", "blob:"))
    ],
    "picture without pixels": lambda seen: [name for name, width in seen["pictures"] if not width],
    "formula that MathJax refuses": lambda seen: seen["refused"],
    "formula that is not drawn": lambda seen: seen["undrawn"],
    "script of others that was run": lambda seen: (
        [seen["title"]] if seen["title"] == "taken" else []
    ),
    "link that runs a script": lambda seen: seen["running"],
    "table of words that is cut": lambda seen: seen["cut"],
    "width beyond the window's": lambda seen: seen["wide"],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_page_has_this_fault(fault, visits):
    assert faults_by_page(fault, visits) == {}


def test_pages_contain_pictures_and_formulas(visits):
    assert {"index.html", "figures.html", "coverage.html"} <= set(visits)
    for folder in ("figures/", "notebooks/"):
        assert any(seen["pictures"] for name, seen in visits.items() if name.startswith(folder))
    assert any(seen["written"] for seen in visits.values())


SHOWN = """[...document.querySelectorAll("table.claims tbody tr:not(.group)")]
  .filter((row) => row.offsetHeight > 0)"""


def test_claims_are_filtered_by_paper_and_verdict(site, browser):
    tab = browser.new_page()
    tab.goto(f"{(site / 'claims.html').as_uri()}?paper=dissertation&verdict=differ")
    assert tab.evaluate(f"{SHOWN}.map((row) => row.id)") == ["diss-3.6-longer"]
    assert tab.inner_text("form.filter output").startswith("1 of ")
    tab.select_option("select[name=verdict]", "")
    tab.select_option("select[name=paper]", "lem")
    papers = tab.evaluate(f"{SHOWN}.map((row) => row.dataset.paper)")
    assert len(papers) > 20 and set(papers) == {"lem"}
    tab.close()


def test_a_phone_shows_a_card_per_claim(site, browser):
    tab = browser.new_page()
    tab.set_viewport_size({"width": 420, "height": 900})
    tab.goto((site / "claims.html").as_uri())
    styles = tab.evaluate(f"{SHOWN}.map((row) => getComputedStyle(row).display)")
    assert set(styles) == {"block"}
    tab.close()
