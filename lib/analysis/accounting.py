"""Which attempts entered an analysis, and why the others did not."""

from collections.abc import Sequence

import pandas as pd

from lib.analysis.accuracy import ENTERED

_WORDS = {"missing": "never ran", "diverged": "diverged"}


def account(frame: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Count the attempts that entered and those that did not, by reason.

    Parameters
    ----------
    frame
        One row per attempt of the design with ``left_out``, as `lib.analysis.accuracy.grade` returns it.
    by
        Columns that form groups, such as those of a task; they keep their order of appearance.

    Returns
    -------
    pandas.DataFrame
        `by`, ``planned``, ``entered``, and one column of counts for each reason, named by it.
    """
    reasons = [reason for reason in frame["left_out"].unique() if reason != ENTERED]
    columns = {"planned": True, "entered": frame["left_out"] == ENTERED}
    columns |= {reason: frame["left_out"] == reason for reason in reasons}
    marked = frame[list(by)].assign(**columns)
    if not by:
        return marked.sum().astype(int).to_frame().T
    return marked.groupby(list(by), sort=False)[list(columns)].sum().astype(int).reset_index()


def sentence(frame: pd.DataFrame) -> str:
    """Return the counts of `account` over all of `frame` as a sentence for a reader.

    >>> sentence(pd.DataFrame({"left_out": ["", "", "diverged"]}))
    'Of 3 attempts planned, 2 entered; 1 did not: 1 diverged.'
    """
    counts = account(frame).iloc[0]
    planned, inside = int(counts["planned"]), int(counts["entered"])
    start = f"Of {planned:,} attempts planned, {inside:,} entered"
    reasons = counts.drop(["planned", "entered"]).sort_values(ascending=False, kind="stable")
    if reasons.empty:
        return f"{start}, and none was left out."
    why = ", ".join(f"{int(n):,} {_WORDS.get(reason, reason)}" for reason, n in reasons.items())
    return f"{start}; {planned - inside:,} did not: {why}."


def caution(profile: str) -> str:
    """Return what a reader of simulated results must know before any conclusion, or nothing for trained ones."""
    if profile != "simulated":
        return ""
    return (
        "**No network was trained for these numbers.** They are drawn from the published models of chapter 3, which know "
        "few ways in which an effect may depend on the task: what follows shows the analysis at full size, and says "
        "nothing about whether behaviours of networks generalise. "
    )
