"""Data frames as HTML tables for reading: aligned, grouped, ours beside theirs; and those that a reader sorts and filters.

Not pandas' Styler, great_tables (looked at in 0.18) or itables (2.9): each brings its own style with every table or a bundle of
scripts, and none knows pairs of ours and theirs, which is most of this file. `static/explore.js` adds the controls to a table of
`explore_html`, from the attributes written here; without a script it shows all rows.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

import pandas as pd
from markupsafe import Markup, escape

from lib.report.numbers import DASH, formatter, percent

_PAIRS = (("ours_share", "published_share"), ("ours", "published"))
_HALF = 0.5
_HEAD = 'th scope="col"'
_VERDICTS = ("verdict", "agree", "agrees", "holds_ours", "answer")
"""Columns that readers look for: they follow the first one, so that no screen is too narrow for them."""


def read_table(path: Path) -> pd.DataFrame:
    """Read a table of the pipeline; levels such as the noise ``none`` stay text."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def to_html(table: pd.DataFrame) -> Markup:
    """Return all columns of `table` as an HTML table, verdicts after the first.

    Rows whose ``at_chance`` is true are shaded, as in `explore_html`. Leading text columns that repeat the row above are dimmed, so that groups stand out.
    """
    first, *rest = table
    table = table[[first, *sorted(rest, key=lambda name: name not in _VERDICTS)]]
    numeric = [pd.api.types.is_numeric_dtype(table[name]) for name in table]
    css = [
        "number" * number + f" {name}" * (name in _PAIRS[-1])
        for name, number in zip(table, numeric, strict=True)
    ]
    groups = numeric.index(True) if True in numeric else len(numeric)
    text = [formatter(table[name]) for name in table]
    body = [
        [
            _cell(write(value), f"{names}{' again' * again}")
            for value, write, names, again in zip(row, text, css, repeats, strict=True)
        ]
        for row, repeats in _rows(table, groups)
    ]
    return _table(map(_heading, table, css), body, shaded=_at_chance(table))


def explore_html(name: str, title: str, table: pd.DataFrame) -> Markup:
    """Return a table whose cells carry what sorting needs: the kind of each column, and the value behind each number."""
    numeric = [pd.api.types.is_numeric_dtype(table[column]) for column in table]
    text = [formatter(table[column]) for column in table]
    head = [
        _heading(column, "number" * number, kind="number" if number else "text")
        for column, number in zip(table, numeric, strict=True)
    ]
    body = [
        [
            _cell(write(value), "number", value="" if pd.isna(value) else repr(float(value)))
            if number
            else _cell(write(value))
            for value, write, number in zip(row, text, numeric, strict=True)
        ]
        for row in table.itertuples(index=False, name=None)
    ]
    shown = _table(head, body, shaded=_at_chance(table), title=title)
    return Markup('<div class="explorer" id="{}">\n{}\n</div>').format(name, shown)


def _at_chance(table: pd.DataFrame) -> Iterable[bool]:
    return table["at_chance"].eq(True) if "at_chance" in table else ()


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
    down, across = keys[:-1], keys[-1]
    lines = table[down].drop_duplicates()
    levels = table[across].drop_duplicates()
    if len(table) < _HALF * len(lines) * len(levels):
        return None
    shares = pair[0].endswith("_share")
    write = percent if shares else formatter(pd.concat([table[name] for name in pair]))
    compared = table[pair[1]].notna().any()
    cells = {
        tuple(row[:-2]): _pair(write(row[-2]), write(row[-1]) if compared else "")
        for row in table[[*keys, *pair]].itertuples(index=False, name=None)
    }
    names = [formatter(table[key]) for key in down]
    body = [
        [
            *(
                _cell(write_key(value), "again" * again)
                for write_key, value, again in zip(names, row, repeats, strict=True)
            ),
            *(cells.get((*row, level), _pair(DASH)) for level in levels),
        ]
        for row, repeats in _rows(lines, len(down))
    ]
    # A number needs to be told of what; words speak for themselves.
    prefix = f"{escape(across.replace('_', ' '))} " if pd.api.types.is_numeric_dtype(levels) else ""
    head = [*map(_heading, down)]
    head += [_cell(prefix + formatter(levels)(level), "number", _HEAD) for level in levels]
    return _table(head, body)


def _pair(ours: str, theirs: str = "") -> str:
    if theirs in ("", DASH) and ours == DASH:
        return _cell(DASH, "pair again")
    beside = f'<span class="theirs">{theirs}</span>' if theirs else ""
    return _cell(f'<span class="ours">{ours}</span>{beside}', "pair")


def _rows(table: pd.DataFrame, groups: int) -> Iterable[tuple[tuple, list[bool]]]:
    """Yield each row with what repeats the row above: of the first `groups` columns, as far as they are equal."""
    above: Sequence | None = None
    for row in table.itertuples(index=False, name=None):
        same = above is not None
        repeats = []
        for position, value in enumerate(row):
            same = same and position < groups and above[position] == value
            repeats.append(same)
        yield row, repeats
        above = row


def _table(
    head: Iterable[str],
    body: Iterable[Sequence[str]],
    *,
    shaded: Iterable[bool] = (),
    title: str = "",
) -> Markup:
    pairs = zip_longest(body, shaded)
    rows = "\n".join(f"<tr{' class=chance' * bool(one)}>{''.join(row)}</tr>" for row, one in pairs)
    caption = f'<caption class="hidden">{escape(title)}</caption>' if title else ""
    return Markup(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title or "table")}">\n'
        f'<table class="data{" explore" * bool(title)}">{caption}\n'
        f"<thead><tr>{''.join(head)}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def _cell(content: str, css: str = "", tag: str = "td", **data: str) -> str:
    style = f' class="{css.strip()}"' if css.strip() else ""
    known = "".join(f' data-{name}="{value}"' for name, value in data.items())
    return f"<{tag}{style}{known}>{content}</{tag.split()[0]}>"


def _heading(name: str, css: str = "", **data: str) -> str:
    return _cell(str(escape(str(name).replace("_", " "))), css, _HEAD, **data)
