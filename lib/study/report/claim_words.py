"""Parts of what pages say about a claim: scale, region and p-value in words."""

import math

import pandas as pd

from study.claims.region import Region
from study.report.numbers import counted, with_minus

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
    elif pd.notna(steps) and pd.notna(paper_steps):
        sizes.append(f"{int(steps):,} of the paper's {int(paper_steps):,} training steps")
    elif pd.notna(steps):
        sizes.append(f"{int(steps):,} training steps")
    data = row["data"] or getattr(row["judged_by"], "trained_on", "")
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
    if p < 1e-4:
        return "below 0.0001"
    return f"{min(p, 1.0):.2g}"
