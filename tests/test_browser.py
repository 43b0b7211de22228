"""The report in a real browser: pages load, pictures and formulas are drawn, links lead somewhere.

Needs Chromium (Debian: ``apt-get install chromium``). Without one the tests skip with that reason; with
``LTD_NO_SKIP=1`` in the environment, as in CI, they fail instead.
"""

import functools
import http.server
import threading
import urllib.request
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import pytest
from fabricated_report import fabricate

from lib.paths import DATA
from lib.report.build import build

pytestmark = pytest.mark.browser

BUILT = DATA / "report"
SITES = ["fabricated", *(["built"] if (BUILT / "index.html").exists() else [])]
"""The report of fabricated results and, where the pipeline has run, the real one."""
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}

# Pictures load when they come into view; all of them are wanted now.
PICTURES = """
Promise.all([...document.images].map(async (image) => {
  image.loading = "eager";
  await image.decode().catch(() => null);
  return [image.currentSrc, image.naturalWidth];
}))
"""
FORMULAS = """({
  written: document.querySelectorAll("article .math").length,
  drawn: [...document.querySelectorAll("article .math mjx-container")].filter((box) => box.offsetWidth > 0).length,
  failed: document.querySelectorAll("mjx-merror").length,
})"""
LINKS = "[...document.querySelectorAll('a[href]')].map((link) => link.href)"
ANCHORS = "[...document.querySelectorAll('[id]')].map((element) => element.id)"


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
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def pages(self) -> list[str]:
        """Return the address of every page."""
        names = sorted(
            path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*.html")
        )
        return [self.root + name for name in names]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(scope="module", params=SITES)
def site(request, browser, tmp_path_factory):
    folder = BUILT
    if request.param == "fabricated":
        folder = tmp_path_factory.mktemp("browser")
        build(fabricate(folder / "data"), folder / "report")
        folder /= "report"
    served = Site(folder)
    yield served
    served.close()


@pytest.fixture(scope="module")
def visits(site, browser):
    """Every page once, with what it asked for, what it drew and where it leads."""
    found = {}
    for page in site.pages():
        visit = browser.open(page)
        found[page] = {
            "visit": visit,
            "pictures": browser.evaluate(PICTURES),
            "formulas": browser.evaluate(FORMULAS),
            "links": browser.evaluate(LINKS),
            "anchors": browser.evaluate(ANCHORS),
            "title": browser.evaluate("document.title"),
        }
    return found


def test_there_are_pages(site, visits):
    assert {site.root + name for name in ("index.html", "figures.html", "coverage.html")} <= set(
        visits
    )


def test_no_page_complains(visits):
    complaints = {
        page: (seen["visit"].console, seen["visit"].failures)
        for page, seen in visits.items()
        if seen["visit"].console or seen["visit"].failures
    }
    assert complaints == {}


def test_no_request_leaves_loopback(site, visits):
    elsewhere = {
        request
        for seen in visits.values()
        for request in seen["visit"].requests
        if not request.startswith((site.root, "data:"))
    }
    assert elsewhere == set()


def test_every_picture_has_pixels(visits):
    pictures = [(page, *picture) for page, seen in visits.items() for picture in seen["pictures"]]
    assert any("/figures/" in page for page, *_ in pictures)
    assert any("/notebooks/" in page for page, *_ in pictures)
    assert [picture for picture in pictures if not picture[-1] > 0] == []


def test_every_formula_is_drawn(visits):
    assert any(seen["formulas"]["written"] for seen in visits.values())
    wrong = {
        page: seen["formulas"]
        for page, seen in visits.items()
        if seen["formulas"]["failed"] or seen["formulas"]["drawn"] != seen["formulas"]["written"]
    }
    assert wrong == {}


def test_every_internal_link_resolves(site, visits):
    links = {
        link for seen in visits.values() for link in seen["links"] if link.startswith(site.root)
    }
    broken = []
    for page, anchor in sorted({tuple(urldefrag(link)) for link in links}):
        with urllib.request.urlopen(page) as answer:  # raises on 400 and above
            assert answer.status == 200
        name = page if urlsplit(page).path.endswith(".html") else f"{page}index.html"
        if anchor and name in visits and anchor not in visits[name]["anchors"]:
            broken.append(f"{page}#{anchor}")
    assert broken == []


def test_nothing_that_others_wrote_is_run(visits):
    assert [page for page, seen in visits.items() if seen["title"] == "taken"] == []


def test_a_link_leads_to_its_figure(site, visits, browser):
    """Pictures keep their place while they load, so that what is linked stays in sight."""
    figures = site.root + "figures/dissertation.html"
    anchor = [name for name in visits[figures]["anchors"] if "-fig-" in name][-1]
    browser.open(f"{figures}#{anchor}")
    browser.evaluate(PICTURES)
    # The page scrolls smoothly: wait until it rests, for as long as pages may take at all.
    rests = f"""(async () => {{
      const top = () => document.getElementById("{anchor}").getBoundingClientRect().top;
      for (let before = null, same = 0; same < 5; before = top()) {{
        await new Promise((wake) => setTimeout(wake, 100));
        same = top() === before ? same + 1 : 0;
      }}
      return top();
    }})()"""
    assert 0 <= browser.evaluate(rests) < 120


def test_pages_fit_a_phone(site, browser):
    browser.call("Emulation.setDeviceMetricsOverride", **PHONE)
    try:
        wide = []
        for page in site.pages():
            browser.open(page)
            width = browser.evaluate("document.documentElement.scrollWidth")
            if width > PHONE["width"]:
                wide.append((page, width))
        assert wide == []
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_faults_of_a_page_are_seen(browser, tmp_path):
    """The checks above can fail: a broken page is noticed in every way they rely on."""
    (tmp_path / "index.html").write_text(
        "<!doctype html><link rel=icon href=data:,><article><img src=none.png><p class=math>x</p></article>"
        "<script>console.error('told'); undefinedName</script><script src=//example.org/x.js></script>"
    )
    served = Site(tmp_path)
    try:
        visit = browser.open(served.root)
        assert any("told" in line for line in visit.console)
        assert any("undefinedName" in line for line in visit.console)
        assert any("none.png" in line for line in visit.failures)
        assert "http://example.org/x.js" in visit.requests
        assert browser.evaluate(PICTURES) == [[f"{served.root}none.png", 0]]
        assert browser.evaluate(FORMULAS) == {"written": 1, "drawn": 0, "failed": 0}
    finally:
        served.close()
