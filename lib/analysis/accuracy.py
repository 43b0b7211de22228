r"""Task accuracy (1.5): test accuracy on a scale that tasks share.

.. math::

    Y_\text{accuracy} = \frac{\text{test accuracy} - 1/K}{\max(\text{test accuracy}) - 1/K} \quad (1.5)

K is the number of labels, and the maximum is taken over all attempts at the task. 0 is no better than guessing,
1 is the best attempt; where labels are not balanced a value may be below 0.
"""

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis.attempts import TASK, attempts
from lib.results.factorial import ATTEMPT

ENTERED = ""
"""Value of ``left_out`` for an attempt that entered an analysis."""


def grade(ds: xr.Dataset) -> pd.DataFrame:
    """Return every attempt of the design with its task accuracy, or why it has none.

    Parameters
    ----------
    ds
        Results of the factorial experiment (`lib.results.factorial`).

    Returns
    -------
    pandas.DataFrame
        One row per attempt: the factors, ``accuracy`` (test accuracy after the last epoch, a share),
        ``task_accuracy`` (1.5) and ``left_out``: empty where the attempt entered, else the reason.

    Raises
    ------
    ValueError
        A data set has fewer than two classes, so that guessing has no accuracy.

    Notes
    -----
    The text does not say whether its maximum runs over the last epochs or over all epochs. It says that 1 is the
    largest task accuracy observed, which holds for the last epochs, where the behaviour is measured.
    """
    frame = attempts(ds)
    completed = frame["status"] == "completed"
    frame["accuracy"] = pd.Series(_last_epoch(ds)).where(completed)
    classes = ds["classes"].to_series()
    if (classes < 2).any():
        raise ValueError(
            f"{classes.idxmin()}: expected two classes or more in the variable 'classes'; correct the results, "
            "task accuracy (1.5) needs the accuracy of guessing"
        )
    chance = 1 / frame["dataset"].map(classes)
    best = frame.groupby(list(TASK), sort=False)["accuracy"].transform("max")
    learnt = best > chance
    frame["task_accuracy"] = ((frame["accuracy"] - chance) / (best - chance)).where(learnt)
    frame["left_out"] = frame["status"].mask(completed, ENTERED)
    frame.loc[completed & ~learnt, "left_out"] = "no attempt at the task beat guessing"
    return frame.drop(columns=["status", "epochs_completed"])


def entered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `frame` that entered."""
    return frame[frame["left_out"] == ENTERED]


def _last_epoch(ds: xr.Dataset) -> np.ndarray:
    """Return the test accuracy after the last epoch of every attempt, nan where it did not get there."""
    last = ds["accuracy"].sel(split="test", epoch=ds["training_length"])
    return last.transpose(*ATTEMPT).values.ravel()
