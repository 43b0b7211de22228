"""Data frames as HTML tables for reading: aligned, grouped, ours beside theirs; and those that a reader sorts and filters.

Not pandas' Styler, great_tables (looked at in 0.18) or itables (2.9): each brings its own style with every table or a bundle of
scripts, and none knows pairs of ours and theirs, which is most of this file. `static/explore.js` adds the controls to a table of
`to_html`, from the attributes written here; without a script it shows all rows.
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


def to_html(table: pd.DataFrame, *, explore: str = "") -> Markup:
    """Return all columns of `table` as an HTML table, verdicts after the first.

    Rows whose ``at_chance`` is true are shaded. Leading text columns that repeat the row above are dimmed, so that groups stand out.
    With a title under which readers `explore` the table its columns keep their order, none is dimmed, and cells carry what
    sorting needs: the kind of each column, and the value behind each number.
    """
    first, *rest = table
    if not explore:
        table = table[[first, *sorted(rest, key=lambda name: name not in _VERDICTS)]]
    numeric = [pd.api.types.is_numeric_dtype(table[name]) for name in table]
    css = ["number" if number else "" for number in numeric]
    kinds: list[dict] = [{"kind": "number" if number else "text"} for number in numeric]
    groups = 0
    if not explore:
        css = [
            f"{kind} {name}" if name in _PAIRS[-1] else kind
            for kind, name in zip(css, table, strict=True)
        ]
        kinds = [{}] * len(css)
        groups = numeric.index(True) if True in numeric else len(numeric)
    columns = list(zip((formatter(table[name]) for name in table), css, numeric, strict=True))
    body = [
        [
            _cell(
                write(value),
                f"{names}{' again' * again}",
                **(
                    {"value": "" if pd.isna(value) else repr(float(value))}
                    if explore and number
                    else {}
                ),
            )
            for value, (write, names, number), again in zip(row, columns, repeats, strict=True)
        ]
        for row, repeats in _rows(table, groups)
    ]
    head = [
        _heading(name, names, **kind) for name, names, kind in zip(table, css, kinds, strict=True)
    ]
    chance = table["at_chance"].eq(True) if "at_chance" in table else ()
    return _table(head, body, shaded=chance, title=explore)


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
    # Each side with its own decimals: a published 97.2 is not 97.200.
    write, write_theirs = (percent if shares else formatter(table[name]) for name in pair)
    compared = table[pair[1]].notna().any()
    cells = {
        tuple(row[:-2]): _pair(write(row[-2]), write_theirs(row[-1]) if compared else "")
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
