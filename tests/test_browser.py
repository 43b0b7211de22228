"""The report in a real browser, opened from the disk: pages load, formulas are drawn, nothing is too wide, tables sort and filter.

Needs Chromium (Debian: ``apt-get install chromium``). Without one the tests skip with that reason; with
``LTD_NO_SKIP=1`` in the environment, as in CI, they fail instead.
"""

import pytest
from pages import watched

from lib.paths import DATA

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

BUILT = DATA / "report"
SITES = ["fabricated", *(["built"] if (BUILT / "index.html").exists() else [])]
"""The report of fabricated results and, where the pipeline has run, the real one."""
WIDTHS = (1400, 1200, 420)
"""Of windows, in pixels: a screen, a smaller one, a telephone."""

# Once formulas are drawn, and pictures that load when they come into view have been told to load now.
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
    written: all("article .math").length, failed: all("mjx-merror").length,
    drawn: all("article .math mjx-container").filter((box) => box.offsetWidth > 0).length,
    anchors: all("[id]").map((element) => element.id),
  };
}"""

# Tables of numbers scroll in their box; those of words are to be read whole.
CUT = """[...document.querySelectorAll("table.words, table.verdicts")]
  .filter((table) => table.offsetWidth > table.parentElement.clientWidth)
  .map((table) => `${innerWidth}: ${table.className} ${table.offsetWidth}`)"""


def _visit(browser, path):
    """Return what happened while a page was open, and what it shows."""
    page = browser.new_page()
    seen = watched(page) | {"cut": [], "wide": []}
    page.goto(path.as_uri())
    seen |= page.evaluate(SEEN)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        seen["wide"] += [width] * (page.evaluate("document.documentElement.scrollWidth") > width)
        seen["cut"] += page.evaluate(CUT)
    page.close()
    return seen


@pytest.fixture(scope="module", params=SITES)
def folder(request):
    return BUILT if request.param == "built" else request.getfixturevalue("site")


@pytest.fixture(scope="module")
def visits(folder, browser):
    """Every page once, with what it asked for, what it drew and where it leads."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.html")}
    return {name: _visit(browser, path) for name, path in sorted(paths.items())}


FAULTS = {
    "complaint in the console, or a request that failed": lambda seen: seen["faults"],
    "request of another host": lambda seen: [
        asked for asked in seen["requests"] if not asked.startswith(("file:", "data:", "blob:"))
    ],
    "picture without pixels": lambda seen: [name for name, width in seen["pictures"] if not width],
    "formula that is not drawn": lambda seen: (
        [seen["written"]] * bool(seen["failed"] or seen["written"] != seen["drawn"])
    ),
    "script of others that was run": lambda seen: [seen["title"]] * (seen["title"] == "taken"),
    "table of words that is cut": lambda seen: seen["cut"],
    "width beyond the window's": lambda seen: seen["wide"],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_page_has_a(fault, visits):
    found = {name: FAULTS[fault](seen) for name, seen in visits.items()}
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_there_is_something_to_see(visits):
    assert {"index.html", "figures.html", "coverage.html"} <= set(visits)
    for folder in ("figures/", "notebooks/"):
        assert any(seen["pictures"] for name, seen in visits.items() if name.startswith(folder))
    assert any(seen["written"] for seen in visits.values())


def test_a_link_leads_to_its_figure(folder, visits, browser):
    """Pictures keep their place while they load, so that what is linked stays in sight."""
    name = "figures/dissertation.html"
    anchor = [name for name in visits[name]["anchors"] if "-fig-" in name][-1]
    page = browser.new_page()
    page.goto(f"{(folder / name).as_uri()}#{anchor}")
    page.evaluate(SEEN)
    # The page scrolls smoothly: wait until it rests, for as long as pages may take at all.
    rests = f"""async () => {{
      const top = () => document.getElementById("{anchor}").getBoundingClientRect().top;
      for (let before = null, same = 0; same < 5; before = top()) {{
        await new Promise((wake) => setTimeout(wake, 100));
        same = top() === before ? same + 1 : 0;
      }}
      return top();
    }}"""
    assert 0 <= page.evaluate(rests) < 120
    page.close()


VISIBLE = "[...document.querySelectorAll('table.explore tbody tr')].filter((row) => !row.hidden)"
CELLS = f"{VISIBLE}.map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"


@pytest.fixture
def explorer(browser, site):
    """The page of tables to sort and filter; whatever is done there, it asks for nothing and complains of nothing."""
    tab = browser.new_page()
    seen = watched(tab)
    tab.goto((site / "explore.html").as_uri())
    yield tab
    tab.close()
    assert [fault for name in list(FAULTS)[:2] for fault in FAULTS[name](seen)] == []


def _sort(tab, heading):
    tab.locator("th .sort", has_text=heading).click()


def _set(tab, label, value):
    box = tab.locator(".filters label", has_text=label).locator("select, input").first
    choose = box.select_option if box.evaluate("box => box.tagName") == "SELECT" else box.fill
    choose(value)


def _status(tab):
    return tab.evaluate("document.querySelector('.filters output').textContent")


def test_a_click_sorts_a_second_one_turns_around(explorer):
    _sort(explorer, "ours")
    values = [int(row[4].replace(",", "")) for row in explorer.evaluate(CELLS)]
    assert values == sorted(values)
    _sort(explorer, "ours")
    assert [int(row[4].replace(",", "")) for row in explorer.evaluate(CELLS)] == values[::-1]
    sorts = "[...document.querySelectorAll('th')].map((h) => h.getAttribute('aria-sort'))"
    assert explorer.evaluate(sorts) == ["none"] * 4 + ["descending", "none"]
    _sort(explorer, "architecture")
    assert [row[2] for row in explorer.evaluate(CELLS)] == ["Basic RNN"] * 8 + ["GRU"] * 8


def test_filters_join_and_are_counted_and_controls_have_names_and_keys(explorer):
    assert _status(explorer) == "16 of 16 rows"
    _set(explorer, "results", "this run (quick)")
    _set(explorer, "architecture", "GRU")
    rows = explorer.evaluate(CELLS)
    assert _status(explorer) == "4 of 16 rows" and len(rows) == 4
    assert {(row[0], row[2]) for row in rows} == {("this run (quick)", "GRU")}
    _set(explorer, "at least", "1006.5")
    assert _status(explorer) == "0 of 16 rows", "the first column of numbers is the quartile"
    _set(explorer, "number", "1")
    assert [row[4] for row in explorer.evaluate(CELLS)] == ["1,007"]
    explorer.evaluate("document.querySelector('.filters').reset()")
    explorer.evaluate("new Promise((done) => setTimeout(done, 20))")
    assert _status(explorer) == "16 of 16 rows"
    for controls, bad in (
        (".filters input, .filters select", "!c.labels.length"),
        (".explorer button, .explorer select, .explorer input", "c.tabIndex < 0"),
    ):
        found = f"[...document.querySelectorAll('{controls}')].filter((c) => {bad}).length"
        assert explorer.evaluate(found) == 0


def test_saved_rows_are_the_filtered_ones_in_their_order(explorer):
    _set(explorer, "results", "this run (quick)")
    _set(explorer, "noise", "post")
    _sort(explorer, "published")
    _sort(explorer, "published")
    with explorer.expect_download() as download:
        explorer.locator(".filters button", has_text="CSV").click()
    lines = download.value.path().read_text("utf-8").splitlines()
    assert lines[0] == "results,noise,architecture,quartile,ours,published"
    assert [line.split(",")[-1] for line in lines[1:]] == ["2007", "2006", "2005", "2004"]
