"""Count which of the published figures and tables were rebuilt, how much weight each has, and which are missing."""

from collections.abc import Iterable
from operator import attrgetter

import pandas as pd
from toolz import groupby

from study.report.inputs import NO_PROFILE, SIMULATED, Artefact

COLUMNS = ("id", "profile", "file", "runs", "result_set", "state")
STATES = ("drawn", "learned", "comparable", "at published scale")
"""How far an artefact is evidence, each state including those before it: it exists; its networks learned, or it needs
none; and nothing stands in for the text's data; and it has the size that the text prints."""


def weight(item: Artefact) -> int:
    """Return how much weight an artefact has: a place in `STATES`, or -1 where it is never evidence."""
    if item.result_set == SIMULATED:
        return -1
    if not item.learned and item.profile != NO_PROFILE:
        return 0
    if item.stand_in:
        return 1
    at_scale = item.published_scale or item.profile == "paper"
    return 3 if at_scale and not item.toy else 2


def state(item: Artefact) -> str:
    """Return the name of an artefact's weight: one of `STATES`, or `SIMULATED`."""
    return (*STATES, SIMULATED)[weight(item)]


def main_files(found: Iterable[Artefact]) -> dict[str, list[Artefact]]:
    """Return for each id what stands for it, one for each set of results: its main file, a companion where it has parts alone."""
    ordered = sorted(found, key=lambda item: item.part != "")
    by_set = groupby(attrgetter("artefact", "result_set"), ordered)
    return groupby(attrgetter("artefact"), (items[0] for items in by_set.values()))


def count_coverage(found: Iterable[Artefact], published: pd.DataFrame) -> pd.DataFrame:
    """Return one row (`COLUMNS`) per artefact of `published` and set of results it was rebuilt from, in its order.

    An artefact that was not rebuilt has one row with empty text and no runs.
    """
    rows = [
        (name, item.profile, item.file, item.runs, item.result_set, state(item))
        for name, items in main_files(found).items()
        for item in items
    ]
    table = published[["id"]].merge(pd.DataFrame(rows, columns=list(COLUMNS)), how="left")
    return table.fillna({"runs": 0}).astype({"runs": int}).fillna("")


def summarise(coverage: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return per ``text`` of `published` the ``total`` of its artefacts and how many reached each of `STATES`.

    What was drawn from simulated data alone is not rebuilt, and a picture of data that another artefact shows (column
    ``same_data`` of `published`) counts with that one.
    """
    rank = coverage["state"].map({name: place for place, name in enumerate(STATES, start=1)})
    best = rank.fillna(0).groupby(coverage["id"]).max()
    listed = published.assign(rank=published["id"].map(best), data=own_data(published))
    counted = listed.groupby(["text", "data"], sort=False)["rank"].max()
    columns = {
        name: (counted >= least).groupby("text", sort=False).sum()
        for least, name in enumerate(("total", *STATES))
    }
    return pd.DataFrame(columns)


def own_data(published: pd.DataFrame) -> pd.Series:
    """Return for each artefact the one whose data it shows: itself, mostly."""
    return published["same_data"].fillna(published["id"])
