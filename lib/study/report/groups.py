"""Figures and tables, grouped by the artifact that they belong to."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

import pandas as pd
from toolz import groupby

from study.report.contents import Artifact
from study.report.coverage import evidence_level
from study.report.titles import OURS, natural_order, own_name


@dataclass(frozen=True)
class Group:
    """All files of one kind that belong to one artifact, with what the papers say about it.

    Attributes
    ----------
    id, kind : str
        The artifact, and ``figure`` or ``table``.
    paper : str
        The publication, a key of `PUBLICATIONS`; empty if it is our own.
    name : str
        What readers call it: the publication and its label there.
    what : str
        What the paper shows there.
    items : tuple of Artifact
    """

    id: str
    kind: str
    paper: str
    name: str
    what: str
    items: tuple[Artifact, ...]

    @property
    def title(self) -> str:
        """Heading, such as ``Dissertation, Table 1.7 · error rate by architecture``."""
        if self.what:
            return f"{self.name} · {self.what}"
        return self.name

    @property
    def page(self) -> str:
        """Address of the page that shows it."""
        if self.kind == "table":
            return f"tables/{self.id}.html"
        return f"figures/{self.paper or OURS}.html#{self.id}"

    def by_result_set(self) -> dict[str, list[Artifact]]:
        """Return the items by set of results.

        Returns
        -------
        dict of str to list of Artifact
            The weightiest set first and quick runs last; within a set the main file comes before
            its companions.
        """
        ordered = sorted(self.items, key=lambda item: (item.toy, -evidence_level(item)))
        in_set = groupby(attrgetter("result_set"), sorted(self.items, key=attrgetter("part")))
        return {item.result_set: in_set[item.result_set] for item in ordered}


def choose_evidence(
    groups: Iterable[Group], judged_by: Artifact | None
) -> tuple[Group, Artifact] | None:
    """Return the figure or table to show next to a claim: one of the runs that judge the claim.

    An artifact may have several experiments behind it, such as a table with a column per data set.

    Parameters
    ----------
    groups : iterable of Group
        The groups of the claim's artifact; the first is shown if several would do.
    judged_by : Artifact or None
        The table of claims with the verdict; None if no results judge the claim.

    Returns
    -------
    tuple of Group and Artifact, or None
        None if all figures and tables of the artifact show other runs.
    """
    weightiest = []
    everything = []
    for group in groups:
        by_set = group.by_result_set()
        weightiest += [(group, item) for item in next(iter(by_set.values()))]
        for items in by_set.values():
            everything += [(group, item) for item in items]
    if judged_by is None:
        return next(iter(weightiest), None)
    for group, item in everything:
        if (item.notebook, item.result_set) == (judged_by.notebook, judged_by.result_set):
            return group, item
    for group, item in weightiest:
        if (item.runs, item.trained_on) == (judged_by.runs, judged_by.trained_on):
            return group, item
    return None


def group_artifacts(artifacts: Iterable[Artifact], listed: pd.DataFrame) -> list[Group]:
    """Return the figures and tables by kind and id.

    Parameters
    ----------
    artifacts : iterable of Artifact
    listed : pandas.DataFrame
        `study.results.published.artifacts` with a column ``name``.

    Returns
    -------
    list of Group
        In the order of `listed`; those that no paper publishes come last.
    """
    shown = [item for item in artifacts if item.kind != "claims"]
    by_id = groupby(attrgetter("artifact", "kind"), shown)
    printed = {row.id: (row.paper, row.name, row.what) for row in listed.itertuples()}
    names = {name for name, _ in by_id}
    unpublished = sorted(names.difference(printed), key=natural_order)
    groups = []
    for name in [*printed, *unpublished]:
        words = printed.get(name, ("", own_name(name), ""))
        for kind in ("figure", "table"):
            if (name, kind) in by_id:
                groups.append(Group(name, kind, *words, tuple(by_id[name, kind])))
    return groups
