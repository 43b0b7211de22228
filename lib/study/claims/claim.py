"""A claim of a paper: its words, the quantity that decides it, and the region in which it is true.

``data/published/claims/`` has one YAML file per paper. A key that is not a field below is refused.
"""

import math
from functools import cache
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from study.claims.region import Frozen, Region, Threshold
from study.paths import PUBLISHED

PAPERS = ("dissertation", "irnn", "lem", "unicornn")
"""The papers, in the order in which reports list their claims."""
NOT_PRINTED = "not printed"
"""Training length of a paper that does not give it."""


class ClaimError(LookupError):
    """The list of claims is damaged, or it holds no claim about what was asked."""


class NetworkName(Frozen):
    """Which runs a claim is about.

    Attributes
    ----------
    label
        Label of the network in the dataset.
    best
        A factor: of the network's levels of it, the one that validates best.
    task
        Task on which it was trained, if that is not the claim's.
    length
        Whether it is the one on the longest or the shortest of the claim's tasks.
    pooled
        Further networks whose runs count as well.
    """

    label: str
    best: str = ""
    task: str = ""
    length: Literal["", "longest", "shortest"] = ""
    pooled: tuple["NetworkName", ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_label(cls, value: object) -> object:
        return {"label": value} if isinstance(value, str) else value

    def __str__(self) -> str:
        name = self.label
        if self.best:
            name += f", best {self.best}"
        place = self.task or self.length
        if place:
            name += f" @ {place}"
        return " & ".join([name, *map(str, self.pooled)])


class TaskCondition(Frozen):
    """A condition on a number that every task has, such as its length in time steps."""

    column: Literal["time_steps", "padding"]
    at_least: float = -math.inf
    at_most: float = math.inf

    def select(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of `runs` whose tasks meet the condition."""
        return runs[runs[self.column].between(self.at_least, self.at_most)]


class Comparison(Frozen):
    """How the networks of a group decide a claim.

    Attributes
    ----------
    group
        Group of rows in ``params.yaml``, whose results have this name.
    verb
        The quantity: one of `study.claims.estimating.VERBS`.
    tasks, tasks_where
        The tasks, by name or by a condition; exactly one of both.
    networks, others
        The networks, each compared with each of `others`; ``others: all`` are those of the task
        that are not in `networks`.
    pairs
        Pairs of networks, in place of the two lists.
    measure
        One of `study.results.runs.MEASURES`, if it is not the recorded metric.
    control
        A network that must have learned for the claim to be tested, or ``any`` if it suffices
        that some network did.
    against
        A coordinate with which a trend is asked.
    target
        A time step around which a peak is asked.
    paper_steps
        How many optimizer steps the paper trains for; ``not printed`` if it does not say.
    paper_accuracy
        The paper's accuracy in percent, to whose binomial deviation a spread is scaled.
    paper_dt, paper_length
        The paper's time step dt of networks that have one, by label, and the number of time steps
        of its sequences, if ours differ (`study.claims.tuning.dt_kept`).
    """

    group: str
    verb: str
    tasks: tuple[str, ...] = ()
    tasks_where: TaskCondition | None = None
    networks: tuple[NetworkName, ...] = ()
    others: tuple[NetworkName, ...] | Literal["all"] = ()
    pairs: tuple[tuple[NetworkName, NetworkName], ...] = ()
    measure: str = ""
    control: str = ""
    against: str = ""
    target: float | None = None
    paper_steps: int | Literal["not printed"]
    paper_accuracy: float | None = None
    paper_dt: dict[str, float] = Field(default_factory=dict)
    paper_length: int | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Comparison":
        if bool(self.tasks) == (self.tasks_where is not None):
            raise ValueError("give exactly one of `tasks` and `tasks_where`")
        if bool(self.pairs) == bool(self.networks):
            raise ValueError("give exactly one of `networks` and `pairs`")
        return self

    @property
    def steps(self) -> float:
        """The paper's optimizer steps; ``nan`` if it does not print them."""
        return math.nan if self.paper_steps == NOT_PRINTED else float(self.paper_steps)


class Claim(Frozen):
    """What a paper says, and how it is decided.

    Attributes
    ----------
    statement
        The claim, in the paper's words if they are short.
    artefact
        Id of the figure or table that it is about.
    quantity
        What is estimated, in words.
    region
        Where the quantity lies if the claim is true.
    refuted_by
        What would refute it, in words.
    published
        The paper's own value, if it prints one.
    null
        The quantity's value if there is no effect; None if that is not the question.
    threshold
        Present if the region's threshold is ours and not the paper's; the verdict is then also
        given at half and at double the threshold.
    comparison
        How it is decided; None if a judge has an estimator of its own.
    """

    id: str
    paper: Literal["dissertation", "irnn", "lem", "unicornn"]
    chapter: str = ""
    section: str
    page: str = ""
    statement: str
    artefact: str
    quantity: str
    region: Region
    refuted_by: str
    published: float = math.nan
    null: float = math.nan
    threshold: Threshold | None = None
    comparison: Comparison | None = None

    @property
    def no_effect(self) -> bool:
        """Whether the claim is true if there is no effect."""
        return self.region.contains(self.null, self.null)


def read_claims(path: Path) -> list[Claim]:
    """Read the claims of one paper.

    Parameters
    ----------
    path
        A YAML file named after the paper.

    Returns
    -------
    list of Claim

    Raises
    ------
    ClaimError
        An entry lacks a field, has an unknown one, or has a value of the wrong kind.
    """
    try:
        entries = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
    except MarkedYAMLError as error:
        raise ClaimError(f"{path.name} is not valid YAML: {error}") from None
    read = []
    for entry in entries:
        name = entry.get("id", "an entry without an id")
        try:
            read.append(Claim(paper=path.stem, **entry))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise ClaimError(f"{path.name}: {name}, field {field!r}: {first['msg']}") from None
    return read


@cache
def claims() -> dict[str, Claim]:
    """Return every claim of the papers, by id, in the order in which reports list them."""
    every: dict[str, Claim] = {}
    for paper in PAPERS:
        for claim in read_claims(PUBLISHED / "claims" / f"{paper}.yaml"):
            if claim.id in every:
                raise ClaimError(f"two claims have the id {claim.id!r}; rename one")
            every[claim.id] = claim
    return every


def claim_table() -> pd.DataFrame:
    """Return the claims as a table, one row each, for reports.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``id``; columns ``id``, ``text`` (the paper), ``chapter``, ``section``,
        ``page``, ``statement``, ``artefact``, ``quantity``, ``region`` (as text), ``published``,
        ``null``, ``refuted_by``, ``no_effect``, ``threshold`` (``ours``, or empty if it is the
        paper's), and ``group`` and ``verb`` (empty if a judge has an estimator of its own).
    """
    rows = []
    for claim in claims().values():
        comparison = claim.comparison
        rows.append(
            {
                "id": claim.id,
                "text": claim.paper,
                "chapter": claim.chapter,
                "section": claim.section,
                "page": claim.page,
                "statement": claim.statement,
                "artefact": claim.artefact,
                "quantity": claim.quantity,
                "region": str(claim.region),
                "published": claim.published,
                "null": claim.null,
                "refuted_by": claim.refuted_by,
                "no_effect": claim.no_effect,
                "threshold": "ours" if claim.threshold else "",
                "group": comparison.group if comparison else "",
                "verb": comparison.verb if comparison else "",
            }
        )
    return pd.DataFrame(rows).set_index("id", drop=False)
