"""The questions of notebooks, and the results that answer them."""

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter

import pandas as pd
from toolz import groupby

from study.report.contents import NO_PROFILE, Artifact, Inputs, Notebook
from study.report.coverage import evidence_level
from study.report.groups import Group
from study.report.titles import OURS, SHARED


@dataclass(frozen=True)
class Question:
    """A notebook's question, and what answers it.

    Attributes
    ----------
    copies : tuple of Notebook
        Its executed copies, the one with the weightiest results first.
    groups : tuple of Group
        The artifacts it makes. Those that it makes only in part count if it makes no others.
    runs : int
        Runs behind the answer.
    publication : str
        A key of `PUBLICATIONS`, `OURS` or `SHARED`.
    claims : tuple of str
        Ids of the claims that it judges.
    """

    copies: tuple[Notebook, ...]
    groups: tuple[Group, ...]
    runs: int
    publication: str
    claims: tuple[str, ...]

    @property
    def first(self) -> Notebook:
        """The copy that answers."""
        return self.copies[0]

    @property
    def title(self) -> str:
        """The question itself."""
        return self.first.title


def questions(inputs: Inputs, groups: list[Group], judged: pd.DataFrame) -> list[Question]:
    """Collect each notebook's question and what answers it.

    Parameters
    ----------
    inputs : Inputs
    groups : list of Group
        As from `group_artifacts`.
    judged : pandas.DataFrame
        The claims with their verdicts.

    Returns
    -------
    list of Question
        In the order of the notebooks' numbers.
    """
    made_by = groupby(attrgetter("notebook", "result_set"), inputs.artifacts)
    judging = judged["judged_by"].map(attrgetter("notebook"), na_action="ignore")
    listed = []
    for name, notebooks in groupby(attrgetter("name"), inputs.notebooks).items():
        evidence = {copy: _evidence(_results(made_by, copy)) for copy in notebooks}
        copies = sorted(notebooks, key=evidence.__getitem__, reverse=True)
        artifacts = _made_by(name, groups)
        runs = max((item.runs for item in _results(made_by, copies[0])), default=0)
        claims = judged[judging == name]
        publication = _publication(artifacts, claims, runs)
        listed.append(Question(tuple(copies), artifacts, runs, publication, tuple(claims["id"])))
    return listed


_ByNotebook = dict[tuple[str, str], list[Artifact]]


def _results(made_by: _ByNotebook, notebook: Notebook) -> list[Artifact]:
    """Return what an executed copy of a notebook made."""
    return made_by.get((notebook.name, notebook.result_set), [])


def _evidence(items: list[Artifact]) -> int:
    """Return the highest evidence level among artifacts; -1 if none of them is evidence."""
    levels = []
    for item in items:
        if not item.toy and item.profile != NO_PROFILE:
            levels.append(evidence_level(item))
    return max(levels, default=-1)


def _made_by(notebook: str, groups: list[Group]) -> tuple[Group, ...]:
    """Return the groups that a notebook makes, or if there are none, those it makes a part of."""
    whole = []
    parts = []
    for group in groups:
        items = [item for item in group.items if item.notebook == notebook]
        if any(not item.part for item in items):
            whole.append(group)
        elif items:
            parts.append(group)
    return tuple(whole or parts)


def _publication(made: tuple[Group, ...], claims: pd.DataFrame, runs: int) -> str:
    """Return the publication of most artifacts that a notebook makes, or of its claims.

    Without one the notebook is about an experiment of our own if it analyzes runs.
    """
    papers = [group.paper for group in made if group.paper]
    if not papers:
        papers = list(claims["paper"])
    if papers:
        return Counter(papers).most_common(1)[0][0]
    if runs:
        return OURS
    return SHARED


def tables_by_question(questions: list[Question]) -> dict[str, list[Group]]:
    """Return the tables that no paper publishes by the question of the notebook that makes them.

    Parameters
    ----------
    questions : list of Question

    Returns
    -------
    dict
        Title of a question: its tables. A table is listed once, with the first question.
    """
    by_question = {}
    listed = set()
    for question in questions:
        tables = []
        for group in question.groups:
            if group.kind == "table" and not group.paper and group.id not in listed:
                tables.append(group)
                listed.add(group.id)
        if tables:
            by_question[question.title] = tables
    return by_question
