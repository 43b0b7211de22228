"""Count which published figures and tables were rebuilt, and how much evidence each is."""

from collections.abc import Iterable
from operator import attrgetter

import pandas as pd
from toolz import groupby

from study.report.contents import NO_PROFILE, SIMULATED, Artifact

COLUMNS = ("id", "profile", "file", "runs", "result_set", "state")
STATES = ("drawn", "learned", "comparable", "at published scale")
"""Evidence levels, cumulative.

- *drawn*: a notebook saved the artifact;
- *learned*: its networks do better than guessing, or it needs none;
- *comparable*: they learned the paper's task from the paper's data, or from real data of the same
  source. These may be a part of the paper's, and fewer training steps are allowed;
- *at published scale*: the data, the length of the sequences and the width of the networks are the
  paper's, and training took as many steps as the paper prints. If the paper prints none, the
  networks trained until they converged. A drawing of a formula, a count or a speed has the paper's
  scale if it is made at the paper's sizes.
"""


def evidence_level(item: Artifact) -> int:
    """Return the evidence level of an artifact.

    Parameters
    ----------
    item : Artifact

    Returns
    -------
    int
        Index into `STATES`, or -1 if it is not evidence.
    """
    if item.result_set == SIMULATED:
        return -1
    if not item.learned and item.profile != NO_PROFILE:
        return STATES.index("drawn")
    if item.stand_in:
        return STATES.index("learned")
    at_published_scale = item.published_scale or item.profile == "paper"
    if at_published_scale and not item.toy:
        return STATES.index("at published scale")
    return STATES.index("comparable")


def state(item: Artifact) -> str:
    """Return the name of an artifact's evidence level.

    Parameters
    ----------
    item : Artifact

    Returns
    -------
    str
        One of `STATES`, or `SIMULATED`.
    """
    level = evidence_level(item)
    if level < 0:
        return SIMULATED
    return STATES[level]


def main_files(items: Iterable[Artifact]) -> dict[str, list[Artifact]]:
    """Choose the main file of each artifact from each set of results.

    An artifact without a main file is represented by a companion.

    Parameters
    ----------
    items : iterable of Artifact

    Returns
    -------
    dict
        Items by the artifact's id, one per set of results.
    """
    ordered = sorted(items, key=lambda item: item.part != "")
    by_set = groupby(attrgetter("artifact", "result_set"), ordered)
    return groupby(attrgetter("artifact"), [parts[0] for parts in by_set.values()])


def count_coverage(items: Iterable[Artifact], published: pd.DataFrame) -> pd.DataFrame:
    """Return which published artifacts were rebuilt, from which results.

    Parameters
    ----------
    items : iterable of Artifact
    published : pandas.DataFrame
        `study.results.published.artifacts`.

    Returns
    -------
    pandas.DataFrame
        Columns `COLUMNS`; one row per artifact and set of results, in the order of `published`.
        An artifact that was not rebuilt has one row with empty text and no runs.
    """
    rows = []
    for name, mains in main_files(items).items():
        for item in mains:
            rows.append((name, item.profile, item.file, item.runs, item.result_set, state(item)))
    table = published[["id"]].merge(pd.DataFrame(rows, columns=list(COLUMNS)), how="left")
    return table.fillna({"runs": 0}).astype({"runs": int}).fillna("")


def summarize_coverage(coverage: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Count the artifacts of each publication by evidence level.

    An artifact that was only drawn from simulated data does not count as rebuilt. Artifacts that
    show the same data (column ``same_data``) count once, with the best level among them.

    Parameters
    ----------
    coverage : pandas.DataFrame
        As from `count_coverage`.
    published : pandas.DataFrame
        `study.results.published.artifacts`.

    Returns
    -------
    pandas.DataFrame
        A row per ``paper``; columns ``total`` and `STATES`.
    """
    levels = {name: level for level, name in enumerate(STATES, start=1)}
    best = coverage["state"].map(levels).fillna(0).groupby(coverage["id"]).max()
    listed = published.assign(level=published["id"].map(best), data=artifact_of_data(published))
    reached = listed.groupby(["paper", "data"], sort=False)["level"].max()
    counts = {}
    for least, name in enumerate(("total", *STATES)):
        counts[name] = (reached >= least).groupby("paper", sort=False).sum()
    return pd.DataFrame(counts)


def artifact_of_data(published: pd.DataFrame) -> pd.Series:
    """Return the artifact whose data each artifact shows.

    Parameters
    ----------
    published : pandas.DataFrame
        `study.results.published.artifacts`.

    Returns
    -------
    pandas.Series
        Ids: mostly an artifact's own.
    """
    return published["same_data"].fillna(published["id"])
