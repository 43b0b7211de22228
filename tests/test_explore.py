"""The page on which tables are sorted and filtered: whole without a script, and right with one, without a server."""

import numpy as np
import pandas as pd
import pytest
from fabricated_report import counts
from pages import Page, watched

from lib.report.tables import to_html

pytestmark = pytest.mark.xdist_group("site")

VISIBLE = "[...document.querySelectorAll('table.explore tbody tr')].filter((row) => !row.hidden)"
CELLS = f"{VISIBLE}.map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"


@pytest.fixture(scope="module")
def page(site):
    return site / "explore.html"


@pytest.fixture
def opened(browser, page):
    """The page, opened from the disk; whatever is done there, it asks for nothing and complains of nothing."""
    tab = browser.new_page()
    seen = watched(tab)
    tab.goto(page.as_uri())
    yield tab
    tab.close()
    assert seen["faults"] == []
    assert all(asked.startswith(("file:", "data:", "blob:")) for asked in seen["requests"])


def test_without_a_script_every_row_of_every_set_is_there(page):
    table = Page(page)
    head, *body = table.rows
    assert head == ["results", "noise", "architecture", "quartile", "ours", "published"]
    assert [cell.get("class") for cell in table.soup.select("th")] == [None] * 3 + [["number"]] * 3
    assert len(body) == 2 * len(counts())
    assert {row[0] for row in body} == {"this run (quick)", "stored reference (real)"}
    assert body[0][1:] == ["none", "Basic RNN", "1", "1,000", "2,000"]


def test_texts_are_escaped_and_values_are_kept_exactly():
    frame = pd.DataFrame({"what": ["a < b", "<script>"], "value": [0.1234567890123, np.nan]})
    html = to_html(frame, explore="A & B")
    assert "a &lt; b" in html and "&lt;script&gt;" in html and "A &amp; B" in html
    assert 'data-value="0.1234567890123"' in html and 'data-value=""' in html


def _sort(tab, heading):
    tab.locator("th .sort", has_text=heading).click()


def _set(tab, label, value):
    box = tab.locator(".filters label", has_text=label).locator("select, input").first
    choose = box.select_option if box.evaluate("box => box.tagName") == "SELECT" else box.fill
    choose(value)


def _status(browser):
    return browser.evaluate("document.querySelector('.filters output').textContent")


@pytest.mark.browser
def test_a_click_sorts_a_second_one_turns_around(opened):
    _sort(opened, "ours")
    values = [int(row[4].replace(",", "")) for row in opened.evaluate(CELLS)]
    assert values == sorted(values)
    _sort(opened, "ours")
    assert [int(row[4].replace(",", "")) for row in opened.evaluate(CELLS)] == values[::-1]
    sorts = "[...document.querySelectorAll('th')].map((h) => h.getAttribute('aria-sort'))"
    states = opened.evaluate(sorts)
    assert states == ["none"] * 4 + ["descending", "none"]
    _sort(opened, "architecture")
    assert [row[2] for row in opened.evaluate(CELLS)] == ["Basic RNN"] * 8 + ["GRU"] * 8


@pytest.mark.browser
def test_filters_join_and_are_counted(opened):
    assert _status(opened) == "16 of 16 rows"
    _set(opened, "results", "this run (quick)")
    _set(opened, "architecture", "GRU")
    rows = opened.evaluate(CELLS)
    assert _status(opened) == "4 of 16 rows" and len(rows) == 4
    assert {(row[0], row[2]) for row in rows} == {("this run (quick)", "GRU")}
    _set(opened, "at least", "1006.5")
    assert _status(opened) == "0 of 16 rows", "the first column of numbers is the quartile"
    _set(opened, "number", "1")
    assert [row[4] for row in opened.evaluate(CELLS)] == ["1,007"]
    opened.evaluate("document.querySelector('.filters').reset()")
    opened.evaluate("new Promise((done) => setTimeout(done, 20))")
    assert _status(opened) == "16 of 16 rows"


@pytest.mark.browser
def test_every_control_has_a_name_and_can_be_reached_by_keyboard(opened):
    for controls, bad in (
        (".filters input, .filters select", "!c.labels.length"),
        (".explorer button, .explorer select, .explorer input", "c.tabIndex < 0"),
    ):
        found = f"[...document.querySelectorAll('{controls}')].filter((c) => {bad}).length"
        assert opened.evaluate(found) == 0


@pytest.mark.browser
def test_saved_rows_are_the_filtered_ones_in_their_order(opened):
    _set(opened, "results", "this run (quick)")
    _set(opened, "noise", "post")
    _sort(opened, "published")
    _sort(opened, "published")
    text = opened.evaluate(
        """(() => {
          let saved = null;
          const create = URL.createObjectURL;
          URL.createObjectURL = (blob) => { saved = blob; return create(blob); };
          [...document.querySelectorAll('.filters button')].find((b) => b.textContent.includes('CSV')).click();
          return saved.text();
        })()"""
    )
    lines = text.splitlines()
    assert lines[0] == "results,noise,architecture,quartile,ours,published"
    assert [line.split(",")[-1] for line in lines[1:]] == ["2007", "2006", "2005", "2004"]
