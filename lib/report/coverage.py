"""Count which of the published figures and tables were rebuilt, from what, and which are missing."""

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lib.report.inputs import Artefact, ReportError

COLUMNS = ("id", "profile", "file", "runs")


def count_coverage(found: Sequence[Artefact], published: pd.DataFrame) -> pd.DataFrame:
    """Return one row per published artefact and set of results it was rebuilt from.

    Parameters
    ----------
    found
        The artefacts that notebooks made. Companions (``part``) do not count beside their main file, and
        artefacts that no text publishes do not count at all.
    published
        `lib.results.published.artefacts()`: one row per artefact, column ``id``.

    Returns
    -------
    pandas.DataFrame
        Columns `COLUMNS`, in the order of `published`. An artefact that was not rebuilt has one row with
        empty ``profile`` and ``file`` and no runs.
    """
    rows = []
    for name in published["id"]:
        results: dict[str, Artefact] = {}
        # The main file first: a companion stands for its artefact only where that was made of parts alone.
        for item in sorted(found, key=lambda item: item.part != ""):
            if item.artefact == name:
                results.setdefault(item.result_set, item)
        rows += [(name, item.profile, item.file, item.runs) for item in results.values()]
        if not results:
            rows.append((name, "", "", 0))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def summarise(coverage: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return per text how many artefacts there are, how many were rebuilt, and from which profiles.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``text`` in the order of `published`, columns ``total``, ``rebuilt`` and one per profile that
        occurs. An artefact rebuilt from two profiles counts once in ``rebuilt`` and once in each.

    Raises
    ------
    ReportError
        The coverage table is of another list of artefacts.
    """
    if missing := set(published["id"]) ^ set(coverage["id"]):
        raise ReportError(
            f"the coverage table and the list of artefacts differ in {min(missing)!r}; "
            "run notebook 90 again"
        )
    texts = published.set_index("id")["text"]
    rebuilt = coverage[coverage["profile"] != ""]
    order = texts.drop_duplicates()

    def count(rows: pd.DataFrame) -> pd.Series:
        return rows.drop_duplicates("id")["id"].map(texts).value_counts()

    table = pd.DataFrame({"total": texts.value_counts(), "rebuilt": count(rebuilt)})
    for profile in rebuilt["profile"].drop_duplicates():
        table[profile] = count(rebuilt[rebuilt["profile"] == profile])
    return table.reindex(order).fillna(0).astype(int).rename_axis("text")


def save_coverage(coverage: pd.DataFrame, path: Path) -> Path:
    """Write the coverage table as CSV, whole or not at all, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial{os.getpid()}")
    try:
        coverage.to_csv(partial, index=False, lineterminator="\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path
