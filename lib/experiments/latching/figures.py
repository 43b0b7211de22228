"""The panels of Figures 3.6 to 3.8: states and adjoint states of one network over time, a line a sequence."""

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

STATE = {"color": "#B2182B", "ylabel": r"$\|x_t\|_2$"}
ADJOINT = {"color": "#2166AC", "ylabel": r"$\|\lambda_t\|_2 \, / \, \|\Lambda\|_2$"}
"""Red states and blue adjoint states, as in the text."""


def trajectories(ds: xr.Dataset, horizon: int) -> pd.DataFrame:
    r"""Return the example's trajectories at one length.

    Returns
    -------
    pandas.DataFrame
        Columns ``sequence``, ``time``, ``state`` (:math:`\|x_t\|_2`), ``adjoint`` (:math:`\log_{10} \|\lambda_t\|_2`) and
        ``normalised``, :math:`\|\lambda_t\|_2 / \|\Lambda\|_2` with the norm over all times of the sequence (the text's
        footnote 7).
    """
    part = ds[["state_norm", "adjoint"]].sel(horizon=horizon, time=slice(1, horizon))
    adjoint = part["adjoint"].astype("float64")
    # The logarithm is left after the largest is taken out: most lengths are no floats.
    relative = 10 ** (adjoint - adjoint.max("time"))
    normalised = relative / np.sqrt((relative**2).sum("time"))
    whole = xr.Dataset({"state": part["state_norm"], "adjoint": adjoint, "normalised": normalised})
    return whole.drop_vars("horizon").to_dataframe().reset_index()


def draw_trajectories(
    ax: Axes, frame: pd.DataFrame, column: str, *, place: int, style: dict[str, str]
) -> None:
    """Draw one column of `trajectories`, a line a sequence, and a dashed line at the deciding input."""
    for _, line in frame.groupby("sequence"):
        ax.plot(line["time"], line[column], color=style["color"], linewidth=0.8, alpha=0.5)
    ax.axvline(place, color="black", linestyle="--", linewidth=1)
    ax.set(ylabel=style["ylabel"], ylim=(0, None))
