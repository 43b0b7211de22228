"""Tables that a reader sorts and filters in the browser: those whose manifest says ``explore``.

Not itables (looked at in 2.9): bytes that differ from run to run, a bundle of scripts where 130 lines do, and no limits on the
numbers of a column. The page is whole without a script: a table of all rows. `static/explore.js` adds the controls, from the attributes
written here: the kind of each column, and the value behind each number as it is written.
"""

from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup, escape

from lib.report.inputs import Artefact
from lib.report.numbers import formatter
from lib.report.tables import read_table

RESULTS = "results"
"""Column that says whose results a row shows."""


@dataclass(frozen=True)
class Explorer:
    """One table over all sets of results."""

    id: str
    title: str
    items: tuple[Artefact, ...]
    html: Markup


def make_explorer(name: str, title: str, items: list[tuple[Artefact, str]]) -> Explorer:
    """Return the table of one artefact, the rows of all sets of results below each other.

    Parameters
    ----------
    name
        Id of the table in the page.
    title
        Its heading.
    items
        Each set's table, and what a reader calls the set.
    """
    frames = []
    for item, described in items:
        frame = read_table(item.path(".csv"))
        frame.insert(0, RESULTS, described)
        frames.append(frame)
    whole = pd.concat(frames, ignore_index=True)
    return Explorer(name, title, tuple(item for item, _ in items), _html(name, title, whole))


def _html(name: str, title: str, table: pd.DataFrame) -> Markup:
    numbers = [pd.api.types.is_numeric_dtype(table[column]) for column in table]
    write = [formatter(table[column]) for column in table]
    head = "".join(
        f'<th scope="col" data-kind="{"number" if number else "text"}"'
        f"{' class=number' if number else ''}>{escape(str(column).replace('_', ' '))}</th>"
        for column, number in zip(table, numbers, strict=True)
    )
    chance = table["at_chance"].eq(True) if "at_chance" in table else [False] * len(table)
    body = "\n".join(
        f"<tr{' class=chance' if shaded else ''}>"
        + "".join(
            _number(value, text) if number else f"<td>{text(value)}</td>"
            for value, text, number in zip(row, write, numbers, strict=True)
        )
        + "</tr>"
        for row, shaded in zip(table.itertuples(index=False, name=None), chance, strict=True)
    )
    return Markup(
        f'<div class="explorer" id="{escape(name)}">\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}">\n'
        f'<table class="data explore"><caption class="hidden">{escape(title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n</div>"
    )


def _number(value: float, text: object) -> str:
    known = "" if pd.isna(value) else repr(float(value))
    return f'<td class="number" data-value="{known}">{text(value)}</td>'
