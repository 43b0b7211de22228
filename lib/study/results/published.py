"""The papers' numbers as data, and ours beside them.

`data/published/` holds one tidy CSV per transcribed table, named by the artefact it belongs to, and
`sources.csv` says from which text, table and page each was taken. Nothing in the project types a
published number anywhere else.
"""

from collections.abc import Sequence

import pandas as pd

from study.paths import PUBLISHED


class PublishedError(LookupError):
    """A published table was asked for that the project does not have."""


def artefacts() -> pd.DataFrame:
    """Return every figure and table of results in the five texts: ``id, text, label, what,
    data`` (what it needs), ``same_data``.
    """
    return pd.read_csv(PUBLISHED / "artefacts.csv", dtype=str)


def sources() -> pd.DataFrame:
    """Return where each transcribed file comes from: ``file``, ``text``, ``table``, ``page``,
    ``note``.
    """
    return pd.read_csv(PUBLISHED / "sources.csv", dtype=str, keep_default_na=False)


def load_published(artefact: str) -> pd.DataFrame:
    """Return the published numbers of one artefact, by its id in `artefacts`, as a tidy table.

    A PublishedError says that its numbers are not transcribed.
    """
    path = PUBLISHED / f"{artefact}.csv"
    if not path.exists():
        raise PublishedError(
            f"no numbers of {artefact!r} are transcribed; data/published/sources.csv lists what "
            "is, "
            f"add {path.name} beside it and its line there"
        )
    # Levels such as the noise "none" are text, not missing numbers.
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def beside(
    ours: pd.DataFrame, theirs: pd.DataFrame | None, *, on: Sequence[str], value: str
) -> pd.DataFrame:
    """Return the table `ours` with its column `value` renamed ``ours``, then ``published`` and
    ``difference`` (ours less published).

    Every row of `ours` is kept, in its order; the columns `on` say what a row is about. Where the
    texts publish nothing, because the data set or the architecture is not theirs, both stay empty;
    `theirs` is None where they publish nothing at all. A ValueError says that rows of `theirs` are
    not unique in `on`.
    """
    on = list(on)
    if theirs is None:
        theirs = pd.DataFrame(columns=[*on, value], dtype=object)
    published = theirs[[*on, value]].rename(columns={value: "published"})
    if published.duplicated(on).any():
        raise ValueError(f"the published table has several rows for one value of {', '.join(on)}")
    table = ours.rename(columns={value: "ours"}).merge(published, on=on, how="left")
    table["published"] = pd.to_numeric(table["published"])
    table["difference"] = table["ours"] - table["published"]
    return table


def layout(table: pd.DataFrame, *, rows: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Arrange a table made by `beside` for the eye: each cell reads ``ours | published``, with a
    dash where nothing is published.

    `rows` run down and `columns` across, in the order of appearance; there is one line of `table`
    for each combination.
    """
    text = table["ours"].map(_number) + " | " + table["published"].map(_number)
    cells = table.assign(text=text).set_index([*rows, *columns])["text"]
    return cells.unstack(list(columns), sort=False)


def _number(value: float) -> str:
    if pd.isna(value):
        return "–"
    return f"{value:,.3f}".rstrip("0").rstrip(".")
