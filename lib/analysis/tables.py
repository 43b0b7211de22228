"""Counts of attempts by task, architecture, learning quartile and adjoint regime (Tables 3.4, A4 to A7).

Every count is made with several borders (`lib.analysis.regimes.borders`): that of the text, that which its recipe gives on
these results, and that of the text for the metric as single precision would have stored it.
"""

from collections.abc import Mapping, Sequence

import pandas as pd
import xarray as xr

from lib.analysis.attempts import TASK
from lib.analysis.quartiles import QUARTILES, TOP, count, quartiles
from lib.analysis.regimes import REGIMES, VANISHED, Border
from lib.results.published import beside, load_published

TASK_TYPE = ["order", "noise", "quartile"]
"""What a cell of Table 3.4 is about; it sums over data sets."""
Levels = Mapping[str, Sequence]


def task_levels(ds: xr.Dataset) -> dict[str, list]:
    """Return the levels of data set, order, noise and architecture, in the order of the results."""
    return {name: ds[name].values.tolist() for name in (*TASK, "architecture")}


def vanished_by_quartile(
    frame: pd.DataFrame, levels: Levels, borders: Mapping[str, Border]
) -> pd.DataFrame:
    """Count vanished rows by task, architecture and learning quartile: Tables A4 and A5.

    Parameters
    ----------
    frame
        Epochs of training (A4) or terminal iterates (A5).
    levels
        What to count by: data set, order, noise, architecture.
    borders
        The borders of the vanishing regime, by name.

    Returns
    -------
    pandas.DataFrame
        `levels`, ``quartile``, and for each border ``rows_<name>`` and ``attempts_<name>``: an attempt with
        several vanished epochs in a quartile is several rows and one attempt.
    """
    marked = frame.assign(quartile=quartiles(frame))
    selected = {
        name: marked[border.regimes(marked) == VANISHED] for name, border in borders.items()
    }
    return _count(selected, {**levels, "quartile": QUARTILES})


def top_quartile_by_regime(
    frame: pd.DataFrame, levels: Levels, borders: Mapping[str, Border]
) -> pd.DataFrame:
    """Count the rows of the top learning quartile by regime: Tables A6 and A7.

    Parameters and result as in `vanished_by_quartile`, with ``regime`` in place of ``quartile``. The text
    prints the regimes stable and vanished alone.
    """
    top = frame[quartiles(frame) == TOP]
    selected = {name: top.assign(regime=border.regimes(top)) for name, border in borders.items()}
    return _count(selected, {**levels, "regime": REGIMES})


def text_design() -> dict[str, int]:
    """Return how many ``attempts`` and ``epochs`` the text's design has for one task and architecture."""
    levels = load_published("diss-tab-3.2").groupby("factor")["level"].agg(list)
    treatments = len(levels["width"]) * len(levels["learning_rate"]) * len(levels["replicate"])
    return {
        "attempts": treatments * len(levels["training_length"]),
        "epochs": treatments * sum(int(length) for length in levels["training_length"]),
    }


def compare(
    table: pd.DataFrame, theirs: pd.DataFrame, planned: pd.DataFrame, unit: str
) -> pd.DataFrame:
    """Put counts beside the published ones, as numbers and as shares of what each design asks.

    Parameters
    ----------
    table
        Counts made by `vanished_by_quartile` or `top_quartile_by_regime`.
    theirs
        The published counts of the same kind.
    planned
        Attempts and epochs of our design, from `lib.analysis.attempts.planned_rows`.
    unit
        What a row is: ``attempts`` or ``epochs``.

    Returns
    -------
    pandas.DataFrame
        `table` with ``ours`` (rows by the text's border), ``published``, ``difference``, and the shares
        ``ours_share`` and ``published_share`` of the rows that the design has for the task and architecture.
    """
    what = "quartile" if "quartile" in table else "regime"
    keys = [*TASK, "architecture"]
    counted = beside(
        table.rename(columns={"rows_text": "count"}), theirs, on=[*keys, what], value="count"
    )
    design = counted[keys].merge(planned, on=keys, how="left")[unit]
    counted["ours_share"] = counted["ours"] / design.where(design > 0)
    counted["published_share"] = counted["published"] / text_design()[unit]
    return counted


def by_task_type(
    table: pd.DataFrame, planned: pd.DataFrame, evaluated: pd.DataFrame
) -> pd.DataFrame:
    """Sum Table A5 over data sets and architectures: Table 3.4.

    Parameters
    ----------
    table
        Table A5 made by `compare`.
    planned
        Attempts of our design, from `lib.analysis.attempts.planned_rows`.
    evaluated
        Terminal iterates, from `lib.analysis.attempts.terminal`.

    Returns
    -------
    pandas.DataFrame
        Best quartile first: ``order``, ``noise``, ``quartile``, ``ours``, ``published`` (Table 3.4),
        ``difference``, ``rows_<border>`` for further borders, ``published_A5`` (sums of the published Table A5
        over the data sets that both have), ``planned`` and ``evaluated`` attempts of the task type, and the shares of the
        planned ones, ``ours_share`` and ``published_share``; ``published_evaluated`` is four times what Table A7 counts in the
        top quartile. Table 3.4 is a sum over the text's five data sets, so what is published is empty where ours are others.
    """
    kind = TASK_TYPE[:2]
    own = [name for name in table if name.startswith("rows_")]
    sums = table.groupby(TASK_TYPE, sort=False)[["ours", "published", *own]].sum(min_count=1)
    sums = sums.rename(columns={"ours": "count", "published": "published_A5"}).reset_index()
    a7 = load_published("diss-tab-A7")
    same_data = set(table["dataset"]) == set(a7["dataset"])
    theirs = load_published("diss-tab-3.4") if same_data else None
    sums = beside(sums, theirs, on=TASK_TYPE, value="count")
    counts = {
        "planned": planned.groupby(kind)["attempts"].sum(),
        "evaluated": evaluated.groupby(kind).size(),
        "published_evaluated": 4 * a7.groupby(kind)["count"].sum(),
    }
    sums = sums.merge(pd.DataFrame(counts).reset_index(), on=kind, how="left")
    sums["published_evaluated"] = sums["published_evaluated"].where(sums["published"].notna())
    sums["ours_share"] = sums["ours"] / sums["planned"].where(sums["planned"] > 0)
    levels = load_published("diss-tab-3.2").groupby("factor").size()
    attempts = text_design()["attempts"] * levels["dataset"] * levels["architecture"]
    sums["published_share"] = sums["published"] / attempts
    return best_first(sums)


def best_first(table: pd.DataFrame) -> pd.DataFrame:
    """Return `table` with the top quartile first, as Table 3.4 prints it."""
    place = {name: -position for position, name in enumerate(QUARTILES)}
    return table.sort_values(
        "quartile", key=lambda names: names.map(place), kind="stable", ignore_index=True
    )


def task_types_above_zero(table: pd.DataFrame, column: str, wanted: Sequence[str]) -> str:
    """Return in how many task types `column` counts anything in the quartiles `wanted`, as ``3 of 6``."""
    rows = table[table["quartile"].isin(wanted)]
    sums = rows.groupby(["order", "noise"])[column].sum()
    return f"{int((sums > 0).sum())} of {len(sums)}"


def vanished_share(table: pd.DataFrame, column: str) -> str:
    """Return the share of vanished rows in Table A6 or A7, as ``8.8% of 1,000``."""
    total = table[column].sum()
    vanished = table.loc[table["regime"] == VANISHED, column].sum()
    return f"{vanished / total:.1%} of {total:,.0f}" if total else "none of 0"


def _count(selected: Mapping[str, pd.DataFrame], levels: Levels) -> pd.DataFrame:
    columns = {}
    for name, rows in selected.items():
        columns[f"rows_{name}"] = count(rows, levels)
        columns[f"attempts_{name}"] = count(rows, levels, distinct="attempt")
    table = next(iter(columns.values()))[[*levels]]
    return table.assign(**{name: counted["count"] for name, counted in columns.items()})
