"""Data frames as HTML tables for reading: few digits, aligned, ours beside theirs."""

import math
from collections.abc import Callable

import pandas as pd
from markupsafe import Markup, escape

from lib.plotting import label

DASH = "–"
_NAMES = ("architecture", "dataset")
"""Columns whose values the texts write in their own way."""


def read_table(path) -> pd.DataFrame:
    """Read a table of the pipeline; levels such as the noise ``none`` stay text."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def to_html(table: pd.DataFrame) -> Markup:
    """Return all columns of `table` as an HTML table.

    Numbers share their decimals within a column. Leading columns that repeat the row above are dimmed, so that
    groups stand out.
    """
    shown = {name: _formatter(table[name]) for name in table}
    numeric = {name: pd.api.types.is_numeric_dtype(table[name]) for name in table}
    head = "".join(
        f'<th scope="col"{_css("number" if numeric[name] else "", _role(name))}>{_heading(name)}</th>'
        for name in table
    )
    body = []
    above: tuple = ()
    for row in table.itertuples(index=False, name=None):
        cells = []
        repeats = True
        for position, (name, value) in enumerate(zip(table, row, strict=True)):
            repeats = repeats and bool(above) and above[position] == value and not numeric[name]
            css = _css(
                "number" if numeric[name] else "",
                _role(name),
                "again" if repeats else "",
            )
            cells.append(f"<td{css}>{shown[name](value)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
        above = row
    return _table(f"<tr>{head}</tr>", body)


def pair_columns(table: pd.DataFrame) -> tuple[str, str] | None:
    """Return the names of the columns to set side by side, or None where nothing is compared.

    Counts from experiments of different size do not compare; where a table carries shares too, those do.
    """
    for pair in (("ours_share", "published_share"), ("ours", "published")):
        if set(pair) <= set(table):
            return pair
    return None


def key_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns left of ``ours``: they say what a row is about."""
    names = list(table)
    return names[: names.index("ours")] if "ours" in names else []


def beside_html(table: pd.DataFrame) -> Markup | None:
    """Return a compact table whose cells hold our number and the published one.

    The last key column runs across. None where `table` compares nothing, has a single key, or keys that do not
    tell its rows apart; `to_html` shows those.
    """
    pair, keys = pair_columns(table), key_columns(table)
    if pair is None or len(keys) < 2 or table.duplicated(keys).any():
        return None
    down, across = keys[:-1], keys[-1]
    both = pd.concat([table[name] for name in pair])
    text = _percent if pair[0].endswith("_share") else _formatter(both)
    ours, theirs = (dict(zip(_rows(table, keys), table[name], strict=True)) for name in pair)
    levels = list(dict.fromkeys(table[across]))
    column = _formatter(table[across])
    name_of = {key: _formatter(table[key]) for key in down}
    compared = table[pair[1]].notna().any()

    head = "".join(f'<th scope="col">{_heading(key)}</th>' for key in down)
    head += "".join(
        f'<th scope="col" class="number">{_heading(across)} {column(level)}</th>'
        for level in levels
    )
    body = []
    above: tuple = ()
    for row in dict.fromkeys(_rows(table, down)):
        cells = []
        repeats = True
        for position, (key, value) in enumerate(zip(down, row, strict=True)):
            repeats = repeats and bool(above) and above[position] == value
            cells.append(f"<td{_css('again' if repeats else '')}>{name_of[key](value)}</td>")
        for level in levels:
            left = text(ours.get((*row, level), math.nan))
            right = text(theirs.get((*row, level), math.nan))
            theirs_cell = f'<span class="theirs">{right}</span>' if compared else ""
            cells.append(f'<td class="pair"><span class="ours">{left}</span>{theirs_cell}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
        above = row
    return _table(f"<tr>{head}</tr>", body)


def _rows(table: pd.DataFrame, columns: list[str]) -> list[tuple]:
    return list(table[columns].itertuples(index=False, name=None))


def _table(head: str, body: list[str]) -> Markup:
    rows = "\n".join(body)
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="table">\n'
        f'<table class="data">\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>'
    )


def _heading(name: str) -> str:
    return str(escape(str(name).replace("_", " ")))


def _role(name: str) -> str:
    return str(name) if name in ("ours", "published") else ""


def _css(*names: str) -> str:
    found = " ".join(name for name in names if name)
    return f' class="{found}"' if found else ""


def _percent(value: float) -> str:
    return DASH if pd.isna(value) else f"{100 * value:.1f}%"


def _formatter(column: pd.Series) -> Callable[[object], str]:
    """Return how to write the values of `column`: the same decimals for all, enough for about four digits."""
    if pd.api.types.is_bool_dtype(column):
        return lambda value: "yes" if value else "no"
    if not pd.api.types.is_numeric_dtype(column):
        name = label if column.name in _NAMES else str
        return lambda value: DASH if pd.isna(value) else str(escape(" ".join(name(value).split())))
    finite = column[column.map(lambda value: math.isfinite(value) if pd.notna(value) else False)]
    size = finite.abs()
    if (finite % 1 == 0).all():
        return lambda value: _special(value) or f"{value:,.0f}"
    if size[size > 0].min() < 1e-3:
        # Learning rates and the like: fixed decimals would print zeros.
        return lambda value: _special(value) or f"{value:.4g}"
    decimals = min(3, max(1, 3 - math.floor(math.log10(size.max()))))
    return lambda value: _special(value) or f"{value:,.{decimals}f}"


def _special(value: float) -> str:
    if pd.isna(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return ""
