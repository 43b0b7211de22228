"""An estimate with its 95% interval, the size of the experiment, and why there may be none.

`study.claims.intervals` computes estimates from runs and counts.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import NamedTuple

Reasons = tuple[str, ...]
"""Reasons or remarks, each a text of its own. They become one text when they are written."""
SEPARATOR = "; "
"""Text between two reasons when they are written."""


class Cause(StrEnum):
    """Why a claim cannot be tested."""

    NO_DATA = "no data"
    """The paper's data, the runs on them, or a measurement of the quantity are missing."""
    TOO_SMALL = "too small"
    """Too few steps, attempts or test sequences compared with the paper's experiment."""
    NO_SEEDS = "no seeds"
    """Fewer than two runs, which give no interval."""
    THRESHOLD = "threshold ours"
    """Undecided at our threshold, but decided at half of it or at twice it."""
    PREMISE = "premise not met"
    """A condition of the claim is not met, for example that a network learned."""


@dataclass(frozen=True)
class Scale:
    """Size of the experiment behind an estimate; None if a field does not apply."""

    sequences: int | None = None
    epochs: int | None = None
    width: int | None = None
    replicates: int | None = None
    test_size: int | None = None
    time_steps: int | None = None
    """Length of the longest sequences."""
    data: str | None = None
    """Names of the data that were read."""
    steps: int | None = None
    """Optimizer steps of the run that was trained for the shortest time."""
    at_edge: Reasons = ()
    """Networks whose best learning rate is at an end of those tried, with the rate."""
    at_chance: Reasons = ()
    """Networks that do no better than chance: how many of their runs, and the learning rates that
    were tried.
    """

    def columns(self) -> dict[str, object]:
        """Return the fields as columns of a table.

        Returns
        -------
        dict
            Values by name of the field; networks as one text, or None if there are none.
        """
        fields = asdict(self)
        for name in ("at_edge", "at_chance"):
            fields[name] = write_reasons(fields[name]) or None
        return fields


class ByVerdict(NamedTuple):
    """Reasons for each verdict that an interval can reach; empty if there is nothing to say."""

    to_agree: Reasons = ()
    to_differ: Reasons = ()

    def on(self, inside: bool) -> Reasons:
        """Return the reasons for one verdict.

        Parameters
        ----------
        inside
            Whether the interval lies inside the region, so that the verdict is "agrees".

        Returns
        -------
        tuple of str
        """
        if inside:
            return self.to_agree
        return self.to_differ


class Exact(NamedTuple):
    """Interval and p-value of a quantity whose estimate is not Student-distributed."""

    interval: Callable[[float], tuple[float, float]]
    """Function of a confidence level that returns both ends."""
    p_value: Callable[[float], float]
    """Function of a null value that returns the two-sided p-value. It is below 1 minus a confidence
    level exactly if the interval of that level excludes the null value.
    """


class Compared(NamedTuple):
    """One of several comparisons of a claim."""

    networks: str
    """Such as ``LEM and LSTM``, or a single network."""
    task: str


@dataclass(frozen=True)
class Estimate:
    """An estimated quantity with its 95% interval; ``nan`` if it can't be estimated.

    Attributes
    ----------
    value, low, high
        Point estimate and ends of the interval.
    scale
        Size of the experiment.
    n
        Number of trials, if the quantity is a proportion (the smallest number, if it is the
        extreme of several proportions).
    notes
        Remarks for the reader; without an estimate, the reason.
    cause
        Why the quantity can't be estimated; None if it can.
    ratio
        Whether the quantity is a ratio, so that its interval is symmetric on the log scale.
    of_variance
        Whether it is a share of variance such as R². Power is then computed for its square root,
        which has a roughly constant variance.
    undecided_because
        Why the claim stays undecided although the interval decides it; empty if the interval
        may decide (`study.claims.undecided`).
    too_short
        Why the claim is not testable: the runs were shorter than the paper's, which may explain
        the verdict (`study.claims.short_runs`).
    untuned
        Why the claim is undecided: the verdict would go against a network that could have been
        tuned better (`study.claims.tuning`).
    caveats
        What a reader must know before quoting the verdict, for example that it goes against a
        network that was tuned less. The verdict stands (`study.claims.caveats`).
    about
        If it is one of several comparisons: which one; else None. The smallest or the largest of
        several estimates has the comparison that decides.
    parts
        If this is the smallest or the largest of several estimates: those estimates.
    df
        Degrees of freedom of the interval; infinite for a normal one.
    sampled
        Share of the interval's squared width that is due to the finite test set. More runs don't
        reduce this part.
    test_set_left_out
        Whether the interval leaves out the error of the finite test set, although the quantity is
        a score on it (`study.claims.sampling`).
    exact
        Interval and p-value by the distribution of the quantity, such as the binomial; None for
        Student's t distribution with `df`.
    power_at
        Function of a region and a true value. It returns the power: the probability that an
        experiment of this size agrees with the claim. None for the default in
        `study.claims.power`.
    """

    value: float
    low: float
    high: float
    scale: Scale = field(default_factory=Scale)
    n: int | None = None
    notes: Reasons = ()
    cause: Cause | None = None
    ratio: bool = False
    of_variance: bool = False
    undecided_because: Reasons = ()
    too_short: ByVerdict = field(default_factory=ByVerdict)
    untuned: ByVerdict = field(default_factory=ByVerdict)
    caveats: ByVerdict = field(default_factory=ByVerdict)
    about: Compared | None = None
    parts: tuple["Estimate", ...] = ()
    df: float = math.inf
    sampled: float = 0.0
    test_set_left_out: bool = False
    exact: Exact | None = None
    power_at: Callable[..., float] | None = None

    @property
    def known(self) -> bool:
        """Whether the estimate has an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))


def not_testable(reason: str, cause: Cause, scale: Scale | None = None) -> Estimate:
    """Return an estimate without a value, for a claim that is not testable.

    Parameters
    ----------
    reason
        Why the claim is not testable, in words.
    cause
        The same as one of the categories that reports count.
    scale
        Size of the experiment, if there was one.

    Returns
    -------
    Estimate
        Value and interval are ``nan``.
    """
    return Estimate(math.nan, math.nan, math.nan, scale or Scale(), notes=(reason,), cause=cause)


def gather(*groups: str | Reasons) -> Reasons:
    """Gather reasons, each once, in their order.

    Parameters
    ----------
    groups
        Single reasons, which may be empty, and tuples of reasons.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> gather("too few runs", "", ("too few runs", "at chance"))
    ('too few runs', 'at chance')
    """
    gathered: dict[str, None] = {}  # an ordered set
    for reasons in groups:
        if isinstance(reasons, str):
            reasons = (reasons,)
        gathered.update(dict.fromkeys(reason for reason in reasons if reason))
    return tuple(gathered)


def write_reasons(reasons: Reasons) -> str:
    """Write reasons as one text for a reader.

    Parameters
    ----------
    reasons
        As of `gather`.

    Returns
    -------
    str
        Separated by semicolons; empty without a reason.
    """
    return SEPARATOR.join(reasons)
