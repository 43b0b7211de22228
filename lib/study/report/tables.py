"""Data frames as HTML tables: aligned, grouped, our numbers next to the published ones.

Most of this module pairs our columns with the published ones, which table libraries such as pandas'
Styler or great_tables don't do. The template of all tables is ``templates/grid.html.jinja``.
"""

import itertools
import math
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

from study.report.contents import Artifact
from study.report.inputs import read_table
from study.report.numbers import DASH, formatter, percent, with_minus
from study.results.names import column_words
from study.results.number_format import number_text

PAGES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
MAX_ROWS = 1000
"""Rows of a table that a page shows; longer ones say that the CSV has the rest."""
_PAIRS = (("ours_share", "published_share"), ("ours", "published"))
_SPREADS = {"spread": "±", "mad": "MAD", "standard_error": "SE", "deviation": "SD"}
"""Columns with the spread of our numbers, and the word that stands before it."""
_COUNTS = ("n", "completed", "attempts")
"""Columns with the number of runs behind a number."""
_CHANCE = "guess"
"""Column with the score of guessing."""
_PANELS = ("task", "dataset")
"""Columns of a figure's data that say what its panels show."""
_MAX_PANELS = 12
_MOST_ACROSS = 6
"""Columns with pairs of numbers that fit on a screen."""
_VERDICT = "verdict"
_FIRST = 5
"""Columns that fit on most screens."""
_LONG = 36
"""Characters of the longest text of a column whose texts may have several lines."""
_EMPTY = Markup('<span class="again">{}</span>').format(DASH)


def to_html(table: pd.DataFrame) -> Markup:
    """Write all columns of a table as HTML.

    A verdict comes among the first columns, so that no screen is too narrow for it: a later one
    follows the leading columns of text, or the first column. Values in leading columns that repeat
    the row above are dimmed, so that groups stand out. Long texts, such as notes, have several
    lines.

    Parameters
    ----------
    table : pandas.DataFrame

    Returns
    -------
    Markup
    """
    numbers = set(table.select_dtypes(["number", "bool"]))
    texts = itertools.takewhile(lambda name: name not in {*numbers, _VERDICT}, table)
    leading = list(texts) or [table.columns[0]]
    if _VERDICT in table.columns[_FIRST:]:
        others = [name for name in table if name not in (*leading, _VERDICT)]
        table = table[[*leading, _VERDICT, *others]]
    shown = table.apply(_write_column)
    css = []
    for name in shown:
        kinds = []
        if name in numbers:
            kinds.append("number")
        elif shown[name].str.len().max() > _LONG:
            kinds.append("long")
        if name in _PAIRS[-1]:
            kinds.append(name)
        css.append(" ".join(kinds))
    return _grid(shown, css, groups=len(leading))


def prepare_table(path: Path) -> dict:
    """Prepare a table for a page.

    Parameters
    ----------
    path : Path
        A CSV file of the pipeline.

    Returns
    -------
    dict
        ``html``; whether it is ``cut`` after `MAX_ROWS` rows or ``compact`` (`paired_html`), shows
        ``shares`` or ``spread``, and has published numbers (``compared``); its number of ``rows``
        and the names of its ``columns``.
    """
    table = read_table(path)
    compact = paired_html(table)
    pair = pair_columns(table)
    return {
        "html": compact or to_html(table.head(MAX_ROWS)),
        "cut": compact is None and len(table) > MAX_ROWS,
        "compact": compact is not None,
        "shares": compact is not None and pair == _PAIRS[0],
        "compared": pair is not None and bool(table[pair[1]].notna().any()),
        "spread": compact is not None and not {*_SPREADS, *_COUNTS}.isdisjoint(table),
        "rows": len(table),
        "columns": [column_words(name) for name in table],
    }


def panels(item: Artifact) -> str:
    """Name what the panels of a figure show, from its data.

    Parameters
    ----------
    item : Artifact
        A figure.

    Returns
    -------
    str
        The levels of its tasks or data sets; empty if there is one alone, or too many, or if the
        caption names them all.
    """
    columns = pd.read_csv(item.path(".csv"), nrows=0).columns
    column = next((name for name in _PANELS if name in columns), None)
    if column is None:
        return ""
    values = read_table(item.path(".csv"))[column]
    levels = values.dropna().drop_duplicates()
    if not 1 < len(levels) <= _MAX_PANELS:
        return ""
    write = formatter(values)
    names = [write(level) for level in levels]
    if all(name in item.caption for name in names):
        return ""
    return ", ".join(names)


def pair_columns(table: pd.DataFrame) -> tuple[str, str] | None:
    """Return the columns to set side by side.

    Counts from experiments of different size do not compare; if a table has shares too, those do.

    Parameters
    ----------
    table : pandas.DataFrame
        A table with our numbers, and perhaps the paper's.

    Returns
    -------
    tuple of str or None
        Our column and the paper's; None if the table compares nothing.
    """
    return next((pair for pair in _PAIRS if set(pair) <= set(table)), None)


def key_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns that identify a row: as few as possible, from the left.

    Parameters
    ----------
    table : pandas.DataFrame
        A table with our numbers, and perhaps the paper's.

    Returns
    -------
    list of str
        Columns to the left of ``ours``; all of them if no smaller number of them identifies a row.
    """
    names = list(table)
    if "ours" not in names:
        return []
    left = names[: names.index("ours")]
    for count in range(1, len(left)):
        if not table.duplicated(left[:count]).any():
            return left[:count]
    return left


def paired_html(table: pd.DataFrame) -> Markup | None:
    """Return a compact table whose cells hold our number and the published one.

    The last key column runs across, or down if it has too many levels. Spread and number of runs
    stand below our number, and the score of guessing has a column or a row of its own, if `table`
    has them.

    Parameters
    ----------
    table : pandas.DataFrame
        A table with our numbers, and perhaps the paper's.

    Returns
    -------
    Markup or None
        None if this layout helps nobody: `table` compares nothing, has a single key, has keys that
        are not unique, or so few rows that most cells would be empty. `to_html` shows those.
    """
    pair = pair_columns(table)
    keys = key_columns(table)
    if pair is None or len(keys) < 2 or table.duplicated(keys).any():
        return None
    cells = pd.Series(_paired_cells(table, pair), pd.MultiIndex.from_frame(table[keys]))
    cells = cells.unstack(sort=False, fill_value=_EMPTY)
    if 2 * len(table) < cells.size:
        return None
    chance = _chance(table, keys[:-1])
    if chance is not None:
        chance = _write_column(chance, _meaningful_decimals(table, pair))
    if len(keys) == 2 and cells.shape[1] > max(_MOST_ACROSS, len(cells)):
        return _upright_grid(cells, chance)
    lines = cells.index.to_frame(index=False)
    shown = lines.apply(_write_column)
    css = [""] * len(lines.columns)
    if chance is not None:
        shown["chance"] = chance.to_numpy()
        css.append("number")
    css += ["pair"] * len(cells.columns)
    cells.columns = _headers(cells.columns)
    shown = pd.concat([shown, cells.reset_index(drop=True)], axis="columns")
    return _grid(shown, css, groups=len(lines.columns))


def _upright_grid(cells: pd.DataFrame, chance: pd.Series | None) -> Markup:
    """Return a table with a row for each column of `cells`, below a row of scores of guessing."""
    cells = cells.T
    first = pd.DataFrame({cells.index.name: _write_column(cells.index.to_series())})
    if chance is not None:
        cells = pd.concat([chance.to_frame("chance").T, cells])
        first = pd.concat([pd.DataFrame({first.columns[0]: ["chance"]}), first])
    cells.columns = _headers(cells.columns)
    shown = pd.concat([first.reset_index(drop=True), cells.reset_index(drop=True)], axis="columns")
    return _grid(shown, ["", *["pair"] * len(cells.columns)], groups=1)


def _headers(names: pd.Index) -> pd.Series:
    """Return the headers of columns: a number needs the name of what it counts, a word does not."""
    levels = names.to_series()
    written = _write_column(levels)
    if pd.api.types.is_numeric_dtype(levels):
        written = f"{names.name} " + written
    return written


def _paired_cells(table: pd.DataFrame, pair: tuple[str, str]) -> list[Markup]:
    """Return our number, its spread and the published number of each row as one cell."""
    ours = table[pair[0]]
    theirs = table[pair[1]]
    if pair == _PAIRS[0]:
        decimals = _decimals_of_shares(pd.concat([ours, theirs]).dropna())
        written_ours = ours.map(lambda share: percent(share, decimals))
        written_theirs = theirs.map(lambda share: percent(share, decimals))
    else:  # each side with its own decimals: a published 97.2 is not 97.200
        written_ours = _write_column(ours, _meaningful_decimals(table, pair))
        written_theirs = _write_column(theirs)
    written_theirs = written_theirs.where(theirs.notna(), "")
    texts = zip(written_ours, _spreads(table, pair, written_ours), written_theirs, strict=True)
    return [_pair(*row) for row in texts]


def _decimals_of_shares(shares: pd.Series) -> int:
    """Return how many decimals percentages get: none if all are whole."""
    return int(not np.allclose(100 * shares, (100 * shares).round()))


def _spread_column(table: pd.DataFrame) -> str | None:
    """Return the column with the spread of our numbers, or None if there is none."""
    return next((name for name in _SPREADS if name in table), None)


def _meaningful_decimals(table: pd.DataFrame, pair: tuple[str, str]) -> int | None:
    """Return how many decimals of our numbers mean anything, or None without a spread.

    These show two significant digits of the median spread and of the smallest number.
    """
    spread = _spread_column(table)
    if spread is None or not pd.api.types.is_numeric_dtype(table[pair[0]]):
        return None
    spreads = table[spread].abs()
    ours = table[pair[0]].abs()
    typical = spreads[spreads > 0].median()
    smallest = ours[ours > 0].min()
    if pd.isna(typical) or pd.isna(smallest):
        return None
    return max(0, 1 - math.floor(math.log10(min(typical, smallest))))


def _spreads(table: pd.DataFrame, pair: tuple[str, str], written_ours: pd.Series) -> list[str]:
    """Return the spread and the number of runs behind each row's number, in words."""
    if pair == _PAIRS[0]:
        return [""] * len(table)
    spread = _spread_column(table)
    count = next((name for name in _COUNTS if name in table), None)
    words = []
    written = [""] * len(table)
    if spread:
        written = _write_column(table[spread])
        decimals = _meaningful_decimals(table, pair)
        of_ours = {len(text.partition(".")[2]) for text in written_ours if text != DASH}
        if decimals is not None and len(of_ours) == 1:  # whole numbers leave it its own
            decimals = max(of_ours) or decimals
            written = table[spread].map(lambda value: number_text(value, decimals))
    for position, text in enumerate(written):
        parts = []
        if spread and pd.notna(table[spread].iloc[position]):
            parts.append(f"{_SPREADS[spread]} {text}")
        if count and pd.notna(table[count].iloc[position]):
            parts.append(f"n = {int(table[count].iloc[position]):,}")
        words.append(", ".join(parts))
    return words


def _chance(table: pd.DataFrame, lines: list[str]) -> pd.Series | None:
    """Return the score of guessing of each line, or None if it is unknown or differs within one."""
    if _CHANCE not in table or table[_CHANCE].isna().all():
        return None
    by_line = table.groupby(lines, sort=False, dropna=False)[_CHANCE]
    if (by_line.nunique() > 1).any():
        return None
    return by_line.first()


def _pair(ours: str, spread: str, theirs: str) -> Markup:
    if ours == DASH and not theirs:
        return _EMPTY
    cell = Markup('<span class="ours">{}</span>').format(ours)
    if theirs:
        cell += Markup('<span class="theirs">{}</span>').format(theirs)
    if spread and ours != DASH:
        cell += Markup('<span class="spread">{}</span>').format(spread)
    return cell


def _write_column(column: pd.Series, most_decimals: int | None = None) -> pd.Series:
    write = formatter(column, most_decimals)
    return column.map(lambda value: with_minus(write(value))).astype(object)


PAGES.globals["column_words"] = column_words


def _grid(shown: pd.DataFrame, css: list[str], groups: int) -> Markup:
    """Return texts as a table; of the first `groups` columns repetitions of a row are dimmed."""
    again = shown.eq(shown.shift()).cummin(axis=1)
    again.iloc[:, groups:] = False
    columns = list(zip(shown, css, strict=True))
    rows = list(zip(shown.to_numpy(), again.to_numpy(), strict=True))
    grid = PAGES.get_template("grid.html.jinja")
    return Markup(grid.render(columns=columns, rows=rows))
