"""Claims of the papers: a statement, a quantity to estimate, and the values for which it is true.

``data/published/claims/`` has one YAML file per paper, whose keys are the fields of the classes
below (`study.claims.listed`).
"""

import math
from typing import Literal

import pandas as pd
from pydantic import Field, field_validator, model_validator

from study.claims.region import Frozen, Region, Threshold
from study.results.runs import MEASURES

NOT_PRINTED = "not printed"
"""Value of `Comparison.paper_steps` for papers that don't give the training length."""
VAGUE_UNITS = ("", "share", "ratio", "times", "times as large")
"""Words that are refused as a unit, because they don't say of what, or compared with what."""


class ClaimError(LookupError):
    """The list of claims is invalid, or it has no claim about the requested group."""


class NetworkSelection(Frozen):
    """The runs of one network in a dataset, on one task and at one level of a swept setting.

    In YAML a plain string stands for a `label` alone.

    Attributes
    ----------
    label
        Label of the network in the dataset.
    otherwise
        Label of the network that counts where no run has `label`. At the paper's size every network
        takes all steps, so there is no network of its own that does.
    best
        Name of a setting that was swept. The level with the best validation score is used.
    task
        Task of the runs, if it differs from the claim's.
    length
        Instead of `task`: only the ``longest`` or the ``shortest`` of the claim's tasks.
    pooled
        Further networks whose runs are added.
    """

    label: str
    otherwise: str = ""
    best: str = ""
    task: str = ""
    length: Literal["", "longest", "shortest"] = ""
    pooled: tuple["NetworkSelection", ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_label(cls, value: object) -> object:
        if isinstance(value, str):
            return {"label": value}
        return value

    def __str__(self) -> str:
        name = self.label
        if self.best:
            name += f", best {self.best}"
        place = self.task or self.length
        if place:
            name += f" @ {place}"
        return " & ".join([name, *map(str, self.pooled)])


NetworkRef = NetworkSelection | str
"""How functions refer to a network: by its selection, or by its label alone."""


class TaskCondition(Frozen):
    """Selects tasks by a number, such as their length in time steps."""

    column: Literal["time_steps", "padding"]
    at_least: float = -math.inf
    at_most: float = math.inf

    def select(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table of runs whose tasks meet the condition.

        Parameters
        ----------
        runs
            One row per run, with the column `column`.

        Returns
        -------
        pandas.DataFrame
        """
        return runs[runs[self.column].between(self.at_least, self.at_most)]


class Comparison(Frozen):
    """Which runs decide a claim, and how.

    Attributes
    ----------
    group
        Group of runs in ``params.yaml``, and name of their results.
    estimator
        What is estimated from the scores of the networks, one of
        `study.claims.estimating.ESTIMATORS`: ``lead`` is a difference of scores, for example.
    tasks, tasks_where
        The tasks, either by name or by a condition.
    networks, others
        Each of `networks` is compared with each of `others`. ``others: all`` means all other
        networks of the task.
    pairs
        Pairs of networks to compare, instead of `networks` and `others`.
    measure
        One of `study.results.runs.MEASURES`; empty for the recorded metric.
    control
        A network that must have learned the task, or else the claim is not testable. ``any``: one
        of the compared networks suffices.
    against
        Coordinate of the trend: the claim is that the quantity rises or falls with it.
    peak_dt
        The dt at which the distribution of learned time steps has its peak according to the claim.
    paper_steps
        Number of optimizer steps in the paper, or ``not printed``.
    paper_accuracy
        The paper's accuracy in percent, for claims about the standard deviation between runs. The
        closer an accuracy is to 100%, the less it can vary. So our deviation is scaled to the
        paper's accuracy before it is compared (`study.claims.scores_over_runs.deviation`).
    paper_dt
        The paper's time step dt, by label of the network, for networks that have one.
    paper_length
        Number of time steps of the paper's sequences. If ours are shorter or longer, a network that
        kept the paper's dt counts as not tuned fairly (`study.claims.tuning.dt_kept`). None if the
        length does not matter.
    paper_width
        Units per layer in the paper, by label of the network. A network counts as not tuned fairly
        if ours has fewer units relative to the one that it is compared with
        (`study.claims.tuning.fewer_units`). Networks that are not named are not checked.
    """

    group: str
    estimator: str
    tasks: tuple[str, ...] = ()
    tasks_where: TaskCondition | None = None
    networks: tuple[NetworkSelection, ...] = ()
    others: tuple[NetworkSelection, ...] | Literal["all"] = ()
    pairs: tuple[tuple[NetworkSelection, NetworkSelection], ...] = ()
    measure: str = ""
    control: str = ""
    against: str = ""
    peak_dt: float | None = None
    paper_steps: int | Literal["not printed"]
    paper_accuracy: float | None = None
    paper_dt: dict[str, float] = Field(default_factory=dict)
    paper_length: int | None = None
    paper_width: dict[str, int] = Field(default_factory=dict)

    @field_validator("measure")
    @classmethod
    def _known_measure(cls, value: str) -> str:
        if value and value not in MEASURES:
            raise ValueError(f"{value!r} is not a measure; expected one of {', '.join(MEASURES)}")
        return value

    @model_validator(mode="after")
    def _complete(self) -> "Comparison":
        if bool(self.tasks) == (self.tasks_where is not None):
            raise ValueError("give exactly one of `tasks` and `tasks_where`")
        if bool(self.pairs) == bool(self.networks):
            raise ValueError("give exactly one of `networks` and `pairs`")
        return self

    @property
    def steps(self) -> float:
        """Number of optimizer steps in the paper; ``nan`` if it is not printed."""
        if self.paper_steps == NOT_PRINTED:
            return math.nan
        return float(self.paper_steps)


class Claim(Frozen):
    """A claim of a paper, and how we decide it.

    Attributes
    ----------
    id
        Name of the claim, unique among all papers.
    paper, chapter, section, page
        Where the paper makes the claim; chapter and page may be empty.
    statement
        The claim in a few words, quoted from the paper if short.
    quotation
        The paper's words, verbatim. ``[...]`` stands for words that are left out; other words in
        square brackets are ours, such as formulas. Empty if only a figure or a table makes the
        claim. None if `statement` is a quotation by itself.
    artifact
        Id of the figure or table that the claim is about.
    quantity
        Description of the quantity that we estimate.
    unit
        Unit of the quantity: words that follow its value, such as ``points`` or
        ``times the error at chance``. For a share they say of what: ``of the runs``.
    region
        Values of the quantity for which the claim is true; an open interval.
    refuted_by
        Description of a result that would refute the claim.
    published
        The paper's value of the quantity; ``nan`` if it gives none.
    null
        Value of the quantity without an effect; ``nan`` if this has no meaning for the claim.
    threshold
        Our threshold of the region; absent if the paper gives one. The verdict is also reported at
        half and at twice our threshold.
    comparison
        Runs and quantity that decide the claim; None if a judge in Python computes the estimate.
    """

    id: str
    paper: Literal["dissertation", "irnn", "lem", "unicornn"]
    chapter: str = ""
    section: str
    page: str = ""
    statement: str
    quotation: str | None = None
    artifact: str
    quantity: str
    unit: str
    region: Region
    refuted_by: str
    published: float = math.nan
    null: float = math.nan
    threshold: Threshold | None = None
    comparison: Comparison | None = None

    @field_validator("unit")
    @classmethod
    def _plain_unit(cls, value: str) -> str:
        if value.strip() in VAGUE_UNITS:
            raise ValueError(
                f"{value!r} is not a unit; give the words that follow the value, such as `points`, "
                "`share of the runs`, or `times the error at chance` for a ratio"
            )
        return value

    @property
    def quoted(self) -> str:
        """The paper's words; empty if only a figure or a table makes the claim."""
        if self.quotation is None:
            return self.statement
        return self.quotation

    @property
    def denies_effect(self) -> bool:
        """Whether the claim denies an effect: its region contains `null`."""
        return self.region.contains(self.null, self.null)
