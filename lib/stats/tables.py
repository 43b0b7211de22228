"""Counts of attempts by task, architecture, learning quartile and adjoint regime (Tables 3.4, A4 to A7).

Every count is made twice: with the border of the text and with the border that its recipe gives on these
results (`lib.stats.regimes.borders`).
"""

from collections.abc import Mapping, Sequence

import pandas as pd
import xarray as xr

from lib.stats.attempts import TASK
from lib.stats.quartiles import QUARTILES, TOP, count, quartiles
from lib.stats.regimes import REGIMES, VANISHED, regimes

Levels = Mapping[str, Sequence]


def task_levels(ds: xr.Dataset) -> dict[str, list]:
    """Return the levels of data set, order, noise and architecture, in the order of the results."""
    return {name: ds[name].values.tolist() for name in (*TASK, "architecture")}


def vanished_by_quartile(
    frame: pd.DataFrame, levels: Levels, borders: Mapping[str, float]
) -> pd.DataFrame:
    """Count vanished rows by task, architecture and learning quartile: Tables A4 and A5.

    Parameters
    ----------
    frame
        Epochs of training (A4) or terminal iterates (A5).
    levels
        What to count by: data set, order, noise, architecture.
    borders
        Name and value of each border of the vanishing regime.

    Returns
    -------
    pandas.DataFrame
        `levels`, ``quartile``, and for each border ``rows_<name>`` and ``attempts_<name>``: an attempt with
        several vanished epochs in a quartile is several rows and one attempt.
    """
    marked = frame.assign(quartile=quartiles(frame))
    selected = {
        name: marked[regimes(marked["metric"], border) == VANISHED]
        for name, border in borders.items()
    }
    return _count(selected, {**levels, "quartile": QUARTILES})


def top_quartile_by_regime(
    frame: pd.DataFrame, levels: Levels, borders: Mapping[str, float]
) -> pd.DataFrame:
    """Count the rows of the top learning quartile by regime: Tables A6 and A7.

    Parameters and result as in `vanished_by_quartile`, with ``regime`` in place of ``quartile``. The text
    prints the regimes stable and vanished alone.
    """
    top = frame[quartiles(frame) == TOP]
    selected = {
        name: top.assign(regime=regimes(top["metric"], border)) for name, border in borders.items()
    }
    return _count(selected, {**levels, "regime": REGIMES})


def _count(selected: Mapping[str, pd.DataFrame], levels: Levels) -> pd.DataFrame:
    columns = {}
    for name, rows in selected.items():
        columns[f"rows_{name}"] = count(rows, levels)
        columns[f"attempts_{name}"] = count(rows, levels, distinct="attempt")
    table = next(iter(columns.values()))[[*levels]]
    return table.assign(**{name: counted["count"] for name, counted in columns.items()})
