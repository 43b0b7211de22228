"""Parts of what pages say about a claim: scale, region and p-value in words."""

import math

import pandas as pd

from study.claims.region import Region
from study.report.numbers import counted, significant, with_minus
from study.results.names import label
from study.results.number_format import SMALLEST_P

_SCALE = {
    "sequences": lambda n: counted(n, "sequence"),
    "time_steps": lambda n: f"T = {int(n):,}",
    "epochs": lambda n: counted(n, "epoch"),
    "width": lambda n: f"d = {int(n):,}",
    "replicates": lambda n: counted(n, "replicate"),
    "test_size": lambda n: f"tested on {int(n):,}",
}


def scale_words(row: pd.Series) -> str:
    """Return how large the experiment behind a claim was, and on which data.

    Parameters
    ----------
    row : pandas.Series
        A row of `study.report.verdicts.judge_claims`.

    Returns
    -------
    str
        Such as ``5,000 sequences, T = 100; data: MNIST``; empty if nothing is known.
    """
    sizes = [write(row[name]) for name, write in _SCALE.items() if pd.notna(row.get(name))]
    steps = pd.to_numeric(row.get("steps"), errors="coerce")
    paper_steps = pd.to_numeric(row.get("paper_steps"), errors="coerce")
    if pd.notna(steps) and steps == paper_steps:
        sizes.append(f"the paper's {int(steps):,} training steps")
    elif pd.notna(steps) and steps > paper_steps:
        sizes.append(f"{int(steps):,} training steps ({int(paper_steps):,} in the paper)")
    elif pd.notna(steps) and pd.notna(paper_steps):
        sizes.append(f"{int(steps):,} of the paper's {int(paper_steps):,} training steps")
    elif pd.notna(steps):
        sizes.append(f"{int(steps):,} training steps")
    data = row["data"] or getattr(row["judged_by"], "trained_on", "")
    if data[:1].isdigit() and pd.notna(row.get("time_steps")):
        data = ""  # a synthetic task without a name, "75 time steps": the sizes have its length
    if data and sizes:
        data = f"data: {data}"
    return "; ".join(text for text in (", ".join(sizes), data) if text)


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
