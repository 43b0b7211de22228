"""Learning quality by quartile.

The paper measures learning quality relative to all attempts at the same task: a share p of them
has an accuracy below ``Q_p``. The paper writes its bins as ``[Q_0.75, Q_1.00]`` and so on. Here
they are named by their upper end: ``Q0.25`` is the lowest quartile, ``Q1.00`` the top.
"""

import numpy as np
import pandas as pd

from study.results.factorial import TASK

QUARTILES = ("Q0.25", "Q0.50", "Q0.75", "Q1.00")
TOP = QUARTILES[-1]


def thresholds(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy at the upper end of each quartile of each task.

    Parameters
    ----------
    frame
        Rows with the factors `TASK` and an ``accuracy``.

    Returns
    -------
    pandas.DataFrame
        Columns: the factors, ``quartile`` and ``accuracy``.

    Raises
    ------
    ValueError
        `frame` is empty.
    """
    if frame.empty:
        raise ValueError(
            "no attempt was measured, so no learning quality can be ranked; train more attempts"
        )
    shares = [float(name[1:]) for name in QUARTILES]
    accuracies = frame.groupby(list(TASK), sort=False)["accuracy"].quantile(shares)
    table = accuracies.rename_axis([*TASK, "quartile"]).reset_index()
    table["quartile"] = table["quartile"].map(dict(zip(shares, QUARTILES, strict=True)))
    return table


def quartiles(frame: pd.DataFrame) -> pd.Series:
    """Return the learning quartile of each row relative to all rows of its task.

    An accuracy equal to a threshold belongs to the quartile above it. So if all accuracies of a
    task are equal, all its rows are in the top quartile. The paper's bins are closed at both ends
    and leave this open. But its Table A6 has thousands of rows above a threshold printed as 1.00,
    the largest possible accuracy. This suggests that the paper assigns ties to the upper quartile,
    too.

    Parameters
    ----------
    frame
        Rows with the factors `TASK` and an ``accuracy``.

    Returns
    -------
    pandas.Series
        The quartile of each row, by the names in `QUARTILES`.

    Raises
    ------
    ValueError
        `frame` is empty.
    """
    inner = thresholds(frame).pivot(index=list(TASK), columns="quartile", values="accuracy")
    ends = frame[list(TASK)].merge(inner, left_on=list(TASK), right_index=True, how="left")
    accuracy = frame["accuracy"].to_numpy()[:, None]
    position = (accuracy >= ends[list(QUARTILES[:-1])].to_numpy()).sum(axis=1)
    return pd.Series(np.asarray(QUARTILES)[position], index=frame.index, name="quartile")
