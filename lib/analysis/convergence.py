r"""First-order behaviour *convergence time* (dissertation, Section 1.5.1, Table A2 and Figure 1.3).

:math:`Y_\text{epochs}` is "the number of training epochs completed prior to the RNN attaining its maximum task accuracy".
The text's values run from 1 to 25, so the epoch that attains the maximum is counted too. It looks at the first 25
epochs of each attempt: the shorter of its training lengths, and here the shortest of the design.
"""

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from lib.analysis.accuracy import entered
from lib.analysis.attempts import TASK
from lib.analysis.pairwise import LEVEL
from lib.results.factorial import ATTEMPT
from lib.results.published import load_published


def window(ds: xr.Dataset) -> int:
    """Return how many epochs of each attempt are looked at: the design's shortest training length."""
    return int(ds["training_length"].min())


def text_design() -> dict[str, int]:
    """Return the text's ``window`` (epochs) and how many ``attempts`` its whole design has."""
    levels = load_published("diss-tab-3.2").groupby("factor")["level"]
    shortest = levels.get_group("training_length").astype(int).min()
    return {"window": int(shortest), "attempts": int(levels.size().prod())}


def convergence_times(ds: xr.Dataset, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the convergence time of every attempt that entered.

    Parameters
    ----------
    ds
        The results.
    frame
        Their attempts in the order of the design, others than those at h* marked as left out
        (`lib.analysis.best.at_best`).

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, ``replicate`` and ``epochs``, from 1 to `window`: the first epoch with the largest test
        accuracy. Task accuracy (1.5) has its maximum in the same epoch.
    """
    epochs = ds["epoch"].values[ds["epoch"].values <= window(ds)]
    accuracy = ds["accuracy"].sel(split="test", epoch=epochs).transpose(*ATTEMPT, "epoch")
    inside = entered(frame)
    measured = accuracy.values.reshape(len(frame), -1)[inside.index]
    table = inside[[*TASK, "architecture", "replicate"]].reset_index(drop=True)
    return table.assign(epochs=epochs[np.argmax(measured, axis=1)])


def summarise_times(frame: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Return median and standard deviation by task and architecture: Table A2.

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, ``attempts``, ``median`` and ``deviation`` (epochs; of one attempt there is no
        deviation, of none there is no median either).
    """
    keys = [*TASK, "architecture"]
    every = (
        frame[list(TASK)]
        .drop_duplicates()
        .merge(frame[["architecture"]].drop_duplicates(), how="cross")
    )
    found = times.groupby(keys, sort=False)["epochs"]
    table = found.agg(attempts="count", median="median", deviation="std").reset_index()
    table = every.merge(table, on=keys, how="left")
    return table.assign(attempts=table["attempts"].fillna(0).astype(int))


def compare_times(frame: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Test for each architecture whether convergence time has one distribution over all tasks.

    The text makes no test of this behaviour; this is Kruskal and Wallis's, of ranks, because epochs are whole numbers with
    many ties at the end of the window.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``tasks``, ``attempts``, ``statistic``, ``df``, ``p_value``, ``p_bonferroni`` (family: the
        architectures), ``rejected`` (corrected) and ``cause``: why no test was made.
    """
    rows = []
    for architecture in frame["architecture"].unique():
        own = times[times["architecture"] == architecture]
        groups = [part.to_numpy() for _, part in own.groupby(list(TASK), sort=False)["epochs"]]
        cause = _cause(own, groups)
        statistic, p_value = (np.nan, np.nan) if cause else stats.kruskal(*groups)
        rows.append(
            {
                "architecture": architecture,
                "tasks": len(groups),
                "attempts": len(own),
                "statistic": statistic,
                "df": len(groups) - 1 if not cause else np.nan,
                "p_value": p_value,
                "cause": cause,
            }
        )
    table = pd.DataFrame(rows)
    corrected = (table["p_value"] * table["p_value"].count()).clip(upper=1)
    rejected = (corrected < LEVEL).where(corrected.notna())
    table = table.assign(p_bonferroni=corrected, rejected=rejected)
    return table[[name for name in table if name != "cause"] + ["cause"]]


def _cause(own: pd.DataFrame, groups: list[np.ndarray]) -> str:
    if len(groups) < 2:
        return "attempts entered at fewer than two tasks"
    if own["epochs"].nunique() == 1:
        return f"every attempt took {own['epochs'].iloc[0]} epochs"
    if len(own) == len(groups):
        return "one attempt at each task: nothing tells tasks from replicates"
    return ""
