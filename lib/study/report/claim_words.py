"""Parts of what pages say about a claim: scale, region and p-value in words."""

import math
import re

import pandas as pd

from study.claims.region import Region
from study.report.numbers import counted, significant, with_minus
from study.results.names import label
from study.results.number_format import SMALLEST_P

_COUNTS = {
    "epochs": lambda n: counted(n, "epoch"),
    "width": lambda n: f"width {int(n):,}",
    "replicates": lambda n: counted(n, "replicate"),
    "test_size": lambda n: f"tested on {int(n):,}",
}
_TRAINED_ON = re.compile(r"(?:(?P<data>.+), )?(?P<length>[\d,]+(?: to [\d,]+)? time steps)")
"""Data and lengths of sequences, as from `study.results.data_used.data_and_length`."""
_PROBLEMS = {
    "adding": "adding problem",
    "copying": "copying problem",
    "fast slow": "fast-slow system",
    "long time gap": "long time gap task",
}
"""Synthetic problems by their names in results."""


def run_words(runs: int, trained_on: str) -> str:
    """Return how many runs are behind a result, on which data, and how long their sequences are.

    Parameters
    ----------
    runs : int
        Number of runs.
    trained_on : str
        As from `study.results.data_used.data_and_length`.

    Returns
    -------
    str

    Examples
    --------
    >>> run_words(9, "MNIST; Reuters, 500 to 1,084 time steps"), run_words(3, "40 time steps")
    ('9 runs: MNIST; Reuters (500 to 1,084 time steps)', '3 runs, 40 time steps')
    """
    number = "no training needed"
    if runs:
        number = counted(runs, "run")
    if not trained_on:
        return number
    match = _TRAINED_ON.fullmatch(trained_on)
    if match is None or match["data"] is None:
        return f"{number}, {trained_on}"
    return f"{number}: {_name_problems(match['data'])} ({match['length']})"


def _name_problems(data: str) -> str:
    """Return names of data and problems, separated by semicolons, for readers."""
    return "; ".join(_PROBLEMS.get(name, name) for name in data.split("; "))


def scale_words(row: pd.Series) -> str:
    """Return how large the experiment behind a claim was.

    Parameters
    ----------
    row : pandas.Series
        A row of `study.report.verdicts.judge_claims`.

    Returns
    -------
    str
        Such as ``5,000 sequences of 100 time steps; data: MNIST``; empty if nothing is known. Data
        are named if they are only some of those of its runs, which `run_words` names.
    """
    sizes = [_sequence_words(row)]
    sizes += [write(row[name]) for name, write in _COUNTS.items() if pd.notna(row.get(name))]
    sizes.append(_step_words(row))
    parts = [", ".join(size for size in sizes if size)]
    trained_on = getattr(row["judged_by"], "trained_on", "")
    is_length = row["data"][:1].isdigit()  # a synthetic task without a name, "75 time steps"
    if row["data"] and not is_length and not trained_on.startswith(f"{row['data']}, "):
        parts.append(f"data: {_name_problems(row['data'])}")
    return "; ".join(part for part in parts if part)


def _sequence_words(row: pd.Series) -> str:
    """Return number and length of the sequences; empty if neither is known."""
    length = ""
    if pd.notna(row.get("time_steps")):
        length = f"{int(row['time_steps']):,} time steps"
        trained_on = getattr(row["judged_by"], "trained_on", "")
        match = _TRAINED_ON.fullmatch(trained_on)
        if match and " to " in match["length"] and not row["data"]:
            length = f"up to {length}"  # the longest of several lengths
    if pd.isna(row.get("sequences")):
        return length
    number = counted(row["sequences"], "sequence")
    return " of ".join(text for text in (number, length) if text)


def _step_words(row: pd.Series) -> str:
    """Return the number of training steps next to the paper's; empty if it is unknown."""
    steps = pd.to_numeric(row.get("steps"), errors="coerce")
    paper_steps = pd.to_numeric(row.get("paper_steps"), errors="coerce")
    if pd.isna(steps):
        return ""
    if pd.isna(paper_steps):
        return f"{int(steps):,} training steps"
    if steps == paper_steps:
        return f"the paper's {int(steps):,} training steps"
    if steps > paper_steps:
        return f"{int(steps):,} training steps ({int(paper_steps):,} in the paper)"
    return f"{int(steps):,} of the paper's {int(paper_steps):,} training steps"


def region_words(region: Region) -> str:
    """Return a region in words, such as ``above 0.05``.

    Parameters
    ----------
    region
        Where a claim's quantity lies if the claim is true.

    Returns
    -------
    str
    """
    above = with_minus(f"{region.above:g}")
    below = with_minus(f"{region.below:g}")
    if math.isinf(region.above):
        return f"below {below}"
    if math.isinf(region.below):
        return f"above {above}"
    return f"between {above} and {below}"


def value_words(row: pd.Series) -> str:
    """Return an estimate with its interval, such as ``0.12 (0.08 to 0.16)``.

    Parameters
    ----------
    row : pandas.Series
        With ``estimate``, ``low`` and ``high``.

    Returns
    -------
    str
    """
    estimate = with_minus(significant(row["estimate"]))
    low = with_minus(significant(row["low"]))
    high = with_minus(significant(row["high"]))
    return f"{estimate} ({low} to {high})"


def where_words(section: str, page: object) -> str:
    """Return where in a paper a claim stands.

    Parameters
    ----------
    section : str
        Its number, such as ``4.3.2``, ``B.2`` or ``5, Table 1``; letters are appendices.
    page
        Its page; empty if unknown.

    Returns
    -------
    str

    Examples
    --------
    >>> where_words("3.4", 65), where_words("appendix E, Table 7", "")
    ('Section 3.4, page 65', 'Appendix E, Table 7')
    """
    section = section.removeprefix("appendix ")
    kind = "Section"
    if section[:1].isalpha():
        kind = "Appendix"
    if page:
        return f"{kind} {section}, page {page}"
    return f"{kind} {section}"


def begin_sentence(text: str) -> str:
    """Return a text as the beginning of a sentence.

    Names keep their spelling: iRNN is another network than IRNN.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> begin_sentence("the gradients vanish"), begin_sentence("iRNN learns")
    ('The gradients vanish', 'iRNN learns')
    """
    first, space, rest = text.partition(" ")
    first = label(first)
    if first.islower():
        first = first.capitalize()
    return f"{first}{space}{rest}"


def p_words(p: float) -> str:
    """Write a p-value for reading.

    Parameters
    ----------
    p
        A p-value, or nan.

    Returns
    -------
    str
        Two digits; empty for nan.
    """
    if pd.isna(p):
        return ""
    if p < SMALLEST_P:
        return f"below {SMALLEST_P:.4f}"
    return f"{min(p, 1.0):.2g}"
