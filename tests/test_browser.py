"""The report in a real browser: pages load, pictures and formulas are drawn, nothing is too wide.

Needs Chromium (Debian: ``apt-get install chromium``). Without one the tests skip with that reason; with
``LTD_NO_SKIP=1`` in the environment, as in CI, they fail instead.
"""

import functools
import http.server
import threading
from pathlib import Path

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


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site:
    """A folder served on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        handler = functools.partial(_Quiet, directory=folder)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.root = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever).start()

    def visit(self, browser, name):
        """Return what happened while a page was open, and what it shows."""
        page = browser.new_page()
        seen = watched(page) | {"cut": []}
        page.goto(self.root + name)
        seen |= page.evaluate(SEEN)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            seen[width] = page.evaluate("document.documentElement.scrollWidth")
            seen["cut"] += page.evaluate(CUT)
        page.close()
        return seen

    def pages(self, browser):
        names = [path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*.html")]
        return {name: self.visit(browser, name) for name in sorted(names)}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module", params=SITES)
def served(request, browser):
    folder = BUILT if request.param == "built" else request.getfixturevalue("site")
    served = Site(folder)
    yield served
    served.close()


@pytest.fixture(scope="module")
def visits(served, browser):
    """Every page once, with what it asked for, what it drew and where it leads."""
    return served.pages(browser)


FAULTS = {
    "complaint in the console, or a request that failed": lambda site, _, seen: seen["faults"],
    "request that leaves loopback": lambda site, _, seen: [
        asked for asked in seen["requests"] if not asked.startswith((site.root, "data:"))
    ],
    "picture without pixels": lambda site, _, seen: [
        source for source, width in seen["pictures"] if not width > 0
    ],
    "formula that is not drawn": lambda site, _, seen: (
        [seen["written"], seen["drawn"]]
        if seen["failed"] or seen["written"] != seen["drawn"]
        else []
    ),
    "script of others that was run": lambda site, _, seen: (
        [seen["title"]] * (seen["title"] == "taken")
    ),
    "table of words that is cut": lambda site, _, seen: seen["cut"],
    "width beyond the window's": lambda site, _, seen: [w for w in WIDTHS if seen[w] > w],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_page_has_a(fault, served, visits):
    found = {name: list(FAULTS[fault](served, visits, seen)) for name, seen in visits.items()}
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_there_is_something_to_see(visits):
    assert {"index.html", "figures.html", "coverage.html"} <= set(visits)
    for folder in ("figures/", "notebooks/"):
        assert any(seen["pictures"] for name, seen in visits.items() if name.startswith(folder))
    assert any(seen["written"] for seen in visits.values())


def test_a_link_leads_to_its_figure(served, visits, browser):
    """Pictures keep their place while they load, so that what is linked stays in sight."""
    name = "figures/dissertation.html"
    anchor = [name for name in visits[name]["anchors"] if "-fig-" in name][-1]
    page = browser.new_page()
    page.goto(f"{served.root}{name}#{anchor}")
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


def test_each_fault_of_a_page_is_seen(browser, tmp_path):
    """The checks above can fail: a page that has every fault is noticed for each."""
    (tmp_path / "index.html").write_text(
        "<!doctype html><link rel=icon href=data:,><title>taken</title><div style='width: 1500px'>wide</div>"
        "<div style='width: 9px'><table class=words><td>wide</table></div>"
        "<article><img src=none.png><p class=math>x</p></article>"
        "<script>console.error('told'); undefinedName</script><script src=//example.org/x.js></script>"
    )
    served = Site(tmp_path)
    try:
        visits = served.pages(browser)
    finally:
        served.close()
    seen = visits["index.html"]
    found = {fault: list(check(served, visits, seen)) for fault, check in FAULTS.items()}
    assert all(found.values()), found
    for part in ("told", "undefinedName", "404", "example.org"):
        assert any(part in fault for fault in seen["faults"]), (part, seen["faults"])
    assert found["width beyond the window's"] == list(WIDTHS)
