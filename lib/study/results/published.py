"""Read the papers' numbers, and put ours next to them.

`data/published/` has one tidy CSV file for each transcribed table, named by the id of its artifact.
`sources.csv` gives the paper, table and page of each. No published number is typed anywhere else in
the project.
"""

from collections.abc import Sequence

import pandas as pd

from study.paths import PUBLISHED


class PublishedError(LookupError):
    """The project does not have the numbers of a published table."""


def artifacts() -> pd.DataFrame:
    """Return every figure and table of results in the five papers.

    Returns
    -------
    pandas.DataFrame
        ``id``, ``paper``, ``label``, ``what``, ``data`` (the data sets it needs) and
        ``same_data``.
    """
    return pd.read_csv(PUBLISHED / "artifacts.csv", dtype=str)


def sources() -> pd.DataFrame:
    """Return where each transcribed file comes from.

    Returns
    -------
    pandas.DataFrame
        ``file``, ``paper``, ``table``, ``page`` and ``note``.
    """
    return pd.read_csv(PUBLISHED / "sources.csv", dtype=str, keep_default_na=False)


def load_published(artifact: str) -> pd.DataFrame:
    """Return the published numbers of one artifact.

    Parameters
    ----------
    artifact
        Its id in `artifacts`.

    Returns
    -------
    pandas.DataFrame
        A tidy table; its columns depend on the artifact.

    Raises
    ------
    PublishedError
        The numbers are not transcribed.
    """
    path = PUBLISHED / f"{artifact}.csv"
    if not path.exists():
        raise PublishedError(
            f"the numbers of {artifact!r} are not transcribed; expected them in "
            f"data/published/{path.name}, so add this file and its line in sources.csv"
        )
    # Levels such as the noise "none" are text, not missing numbers.
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def join_published(
    ours: pd.DataFrame, theirs: pd.DataFrame | None, *, on: Sequence[str], value: str
) -> pd.DataFrame:
    """Return our table with the published numbers next to ours.

    Parameters
    ----------
    ours
        Our table; every row is kept, in its order.
    theirs
        The published table; None if nothing is published.
    on
        Columns that identify a row in both tables.
    value
        Column to compare.

    Returns
    -------
    pandas.DataFrame
        `ours` with `value` renamed ``ours``, then ``published`` and ``difference`` (ours less
        published). The last two are nan if the papers have no such row.

    Raises
    ------
    ValueError
        Several rows of `theirs` have the same values in `on`.
    """
    on = list(on)
    if theirs is None:
        theirs = pd.DataFrame(columns=[*on, value], dtype=object)
    published = theirs[[*on, value]].rename(columns={value: "published"})
    if published.duplicated(on).any():
        raise ValueError(
            f"the published table has several rows with the same {', '.join(on)}; expected one, so "
            "add a column that distinguishes them"
        )
    table = ours.rename(columns={value: "ours"}).merge(published, on=on, how="left")
    table["published"] = pd.to_numeric(table["published"])
    table["difference"] = table["ours"] - table["published"]
    return table


def layout(table: pd.DataFrame, *, rows: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Arrange a comparison for display: each cell reads ``ours | published``.

    Parameters
    ----------
    table
        Our numbers and the published ones (`join_published`), one row for each combination of
        `rows` and `columns`.
    rows
        Columns of `table` that become rows, in order of appearance.
    columns
        Columns of `table` that become columns, in order of appearance.

    Returns
    -------
    pandas.DataFrame
        Texts, with a dash for a number that is not published.
    """
    text = table["ours"].map(_format_number) + " | " + table["published"].map(_format_number)
    cells = table.assign(text=text).set_index([*rows, *columns])["text"]
    return cells.unstack(list(columns), sort=False)


def _format_number(value: float) -> str:
    if pd.isna(value):
        return "–"
    return f"{value:,.3f}".rstrip("0").rstrip(".")
