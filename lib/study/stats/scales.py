"""The time steps that networks move by, as counted before and after training: their range, and
how their number decays.

Steps are counted in classes of a tenth of a decade (`longrnn.probes.time_steps`), so every quantity
here is exact to a factor of 1.26.
"""

import json

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from study.results.networks import CLASS

_KEYS = ["label", "task", "replicate", "stage"]


def histograms(ds: xr.Dataset) -> pd.DataFrame:
    """Return every class that holds time steps, of some networks (or of one run).

    Columns ``label``, ``task``, ``replicate``, ``stage``, ``scale`` (layer, or kind of step, from
    0), ``dt`` (the class's middle) and ``share`` of the kind's steps.
    """
    ds = ds if "run" in ds.dims else ds.expand_dims("run")
    frame = ds[["time_step_share", "label", "task"]].reset_coords(drop=True).to_dataframe()
    frame = frame.reset_index().rename(columns={"time_step_share": "share"})
    frame = frame[frame["share"] > 0].assign(dt=lambda rows: 10 ** (rows["decade"] + CLASS / 2))
    return frame[[*_KEYS, "scale", "dt", "share"]].reset_index(drop=True)


def reach(rows: pd.DataFrame, outside: float = 0.0) -> pd.DataFrame:
    """Return the smallest and the largest time step of each network, replicate and stage, over
    all its kinds.

    `outside` is the share of the steps left out at either end. ``low`` and ``high`` are the middles
    of classes.
    """

    def ends(group: pd.DataFrame) -> pd.Series:
        by_class = group.groupby("dt")["share"].sum().sort_index()
        below = by_class.cumsum() / by_class.sum()
        above = below - by_class / by_class.sum()
        inside = by_class.index[(below > outside) & (above < 1 - outside)]
        return pd.Series({"low": inside.min(), "high": inside.max()})

    return rows.groupby(_KEYS, sort=False)[["dt", "share"]].apply(ends).reset_index()


def decays(rows: pd.DataFrame) -> pd.DataFrame:
    """Fit how the number of steps falls off on the longer side of the commonest size, as a power
    of the size and as its exponential.

    Both are straight lines of the log of the density, against log size and against size, through
    the same classes: all occupied ones on that side. A row for each network, replicate, stage and
    kind: ``exponent`` of the power law, ``power`` and ``exponential`` (R² of the fits), ``classes``
    fitted; ``nan`` where there are fewer than five.
    """

    def fit(group: pd.DataFrame) -> pd.Series:
        group = group.sort_values("dt")
        size, log = group["dt"].to_numpy(), np.log10(group["share"] / group["dt"]).to_numpy()
        mode = int(group["share"].to_numpy().argmax())
        side = slice(mode, None) if mode < len(group) / 2 else slice(None, mode + 1)
        size, log = size[side], log[side]
        found = [np.nan] * 3
        if len(size) >= 5:
            power, exponential = (stats.linregress(x, log) for x in (np.log10(size), size))
            found = [power.slope, power.rvalue**2, exponential.rvalue**2]
        return pd.Series([*found, len(size)], ["exponent", "power", "exponential", "classes"])

    return rows.groupby([*_KEYS, "scale"], sort=False)[["dt", "share"]].apply(fit).reset_index()


def largest_step(run: xr.Dataset) -> float:
    """Return the largest time step that UnICORNN may take: dt, of which the logistic function
    leaves a share.
    """
    return float(np.max(json.loads(str(run["dt"].item()))))
