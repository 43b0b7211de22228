"""Data frames as HTML tables for reading: aligned, grouped, ours beside theirs.

Not pandas' Styler, great_tables (looked at in 0.18) or itables (2.9): each brings its own style with every table or a bundle of
scripts, and none knows pairs of ours and theirs, which is most of this file. `templates/grid.html.jinja` is the one form of all
tables.
"""

from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup

from study.report.inputs import read_table
from study.report.numbers import DASH, formatter, percent

PAGES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
LONGEST = 1000
"""Rows of a table that a page shows; longer ones say that the CSV has the rest."""
_PAIRS = (("ours_share", "published_share"), ("ours", "published"))
_EMPTY = Markup('<span class="again">{}</span>').format(DASH)


def to_html(table: pd.DataFrame) -> Markup:
    """Return all columns of `table` as an HTML table, the verdict after the first, so that no screen is too narrow for it.

    Leading text columns that repeat the row above are dimmed, so that groups stand out.
    """
    first, *rest = table
    table = table[[first, *sorted(rest, key=lambda name: name != "verdict")]]
    numbers = list(table.select_dtypes(["number", "bool"]))
    css = ["number" * (name in numbers) + f" {name}" * (name in _PAIRS[-1]) for name in table]
    words = [*css, "number"].index("number")
    return _grid(table.apply(_written), css, groups=words)


def show(path: Path) -> dict:
    """Return a table for a page: its ``html``, and how ours and theirs are set in it."""
    table = read_table(path)
    compact, pair = beside_html(table), pair_columns(table)
    return {
        "html": compact or to_html(table.head(LONGEST)),
        "cut": compact is None and len(table) > LONGEST,
        "compact": compact is not None,
        "shares": compact is not None and pair == _PAIRS[0],
        "compared": pair is not None and bool(table[pair[1]].notna().any()),
        "rows": len(table),
        "columns": [name.replace("_", " ") for name in table],
    }


def pair_columns(table: pd.DataFrame) -> tuple[str, str] | None:
    """Return the names of the columns to set side by side, or None where nothing is compared.

    Counts from experiments of different size do not compare; where a table carries shares too, those do.
    """
    return next((pair for pair in _PAIRS if set(pair) <= set(table)), None)


def key_columns(table: pd.DataFrame) -> list[str]:
    """Return the first columns left of ``ours`` that tell rows apart: they say what a row is about, others what was found.

    All of them where they do not tell rows apart.
    """
    names = list(table)
    left = names[: names.index("ours")] if "ours" in names else []
    enough = (count for count in range(1, len(left)) if not table.duplicated(left[:count]).any())
    return left[: next(enough, len(left))]


def beside_html(table: pd.DataFrame) -> Markup | None:
    """Return a compact table whose cells hold our number and the published one; the last key column runs across.

    None where that is no reading aid: `table` compares nothing, has a single key, keys that do not tell its rows
    apart, or so few rows that most cells would be empty. `to_html` shows those.
    """
    pair, keys = pair_columns(table), key_columns(table)
    if pair is None or len(keys) < 2 or table.duplicated(keys).any():
        return None
    # Each side with its own decimals: a published 97.2 is not 97.200.
    write = (lambda column: column.map(percent)) if pair == _PAIRS[0] else _written
    ours, theirs = (write(table[name]) for name in pair)
    theirs = theirs if table[pair[1]].notna().any() else theirs.map(lambda _: "")
    cells = pd.Series([*map(_pair, ours, theirs)], pd.MultiIndex.from_frame(table[keys]))
    cells = cells.unstack(sort=False, fill_value=_EMPTY)
    if 2 * len(table) < cells.size:
        return None
    lines, across = cells.index.to_frame(index=False), cells.columns.to_series()
    # A number needs to be told of what; words speak for themselves.
    prefix = f"{keys[-1]} " if pd.api.types.is_numeric_dtype(across) else ""
    cells.columns = prefix + _written(across)
    shown = pd.concat([lines.apply(_written), cells.reset_index(drop=True)], axis="columns")
    return _grid(
        shown, [""] * len(lines.columns) + ["pair"] * len(across), groups=len(lines.columns)
    )


def _pair(ours: str, theirs: str) -> Markup:
    if ours == DASH and theirs in ("", DASH):
        return _EMPTY
    both = Markup('<span class="ours">{}</span>').format(ours)
    return both + Markup('<span class="theirs">{}</span>').format(theirs) if theirs else both


def _written(column: pd.Series) -> pd.Series:
    return column.map(formatter(column)).astype(object)


def _grid(shown: pd.DataFrame, css: list[str], groups: int) -> Markup:
    """Return texts as a table; of the first `groups` columns those that repeat the row above are dimmed."""
    again = shown.eq(shown.shift()).cummin(axis=1)
    again.iloc[:, groups:] = False
    columns = list(zip(shown, css, strict=True))
    rows = list(zip(shown.to_numpy(), again.to_numpy(), strict=True))
    grid = PAGES.get_template("grid.html.jinja")
    return Markup(grid.render(columns=columns, rows=rows))
