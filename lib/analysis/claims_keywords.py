"""What the spoken words (LEM's Table 5, Figures 5 and 6) say of LEM's claims."""

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis.network_claims import Networks, drawn
from lib.analysis.networks import chosen_rates, outcomes
from lib.results.claims import Finding, Judges, mean, smallest

TASK = "Google12"
OTHERS = ("tanh-RNN", "anti.sym. RNN", "LSTM", "GRU", "FastGRNN", "expRNN", "coRNN")
KINDS = ("dt", "dt-bar")
"""LEM's two time steps, in the order of a dataset's scales."""

judges = Judges("keywords")


def clipped(ds: xr.Dataset) -> pd.DataFrame:
    """Return LEM's accuracy by how far its time steps may fall below 1: the columns of `outcomes`, and ``i`` of 2^-i."""
    table = outcomes(chosen_rates(ds))
    table = table[table["label"].str.startswith("LEM, i=")]
    return table.assign(i=table["label"].str.split("=").str[1].astype(int)).sort_values("i")


def scale_shares(ds: xr.Dataset) -> xr.DataArray:
    """Return the share of LEM's time steps in each class by kind, (replicate, stage, scale, decade)."""
    best = chosen_rates(ds)
    place = np.flatnonzero(best["label"].values == "LEM")[0]
    return best["time_step_share"].isel(run=place).isel(scale=slice(2))


def decades(shares: np.ndarray, low: np.ndarray) -> float:
    """Return how many decades lie between the 1st and the 99th percentile of a histogram over classes from `low` on."""
    total = np.cumsum(shares) / np.sum(shares)
    return float(low[np.searchsorted(total, 0.99)] - low[np.searchsorted(total, 0.01)])


def fits(shares: np.ndarray, low: np.ndarray) -> tuple[float, float]:
    """Return R2 of a power law and of an exponential, of the logarithm of the density in the classes that hold a thousandth."""
    inside = shares > 0.001
    if inside.sum() < 4:
        return np.nan, np.nan
    at = 10 ** (low[inside] + 0.05)
    density = np.log(shares[inside] / at)  # classes are as wide as their place
    return tuple(float(np.corrcoef(x, density)[0, 1] ** 2) for x in (np.log(at), at))


def _networks(ds: xr.Dataset) -> Networks:
    return Networks(ds, TASK)


def _by_kind(ds: xr.Dataset, quantity) -> Finding:
    networks = _networks(ds)
    if refused := networks.refusal("LEM"):
        return refused
    shares = scale_shares(ds).sel(stage="trained").transpose("scale", "replicate", "decade")
    low = shares["decade"].values
    return smallest(
        mean([quantity(one, low) for one in kind], networks.scale("LEM")) for kind in shares.values
    )


def _drawn(**accuracy: float):
    names = (*OTHERS, "LEM", *(f"LEM, i={i}" for i in (0, 1, 3, 5, 7)))
    scores = {(name, TASK): accuracy.get(name.replace(", i=", "_"), 80) for name in names}
    return drawn(scores, spread=2, guess=20)


def _narrow(rng: np.random.Generator) -> xr.Dataset:
    """Draw time steps that become rarer exponentially, and all lie within a decade."""
    ds = _drawn()(rng)
    low = np.round(np.arange(-6, 1, 0.1), 1)
    at = 10 ** (low + 0.05)
    density = np.where((at > 0.1) & (at < 1), at * np.exp(-6 * at), 0)
    noisy = density * np.exp(0.05 * rng.standard_normal((13, 6, 2, 3, low.size)))
    dims = ("run", "replicate", "stage", "scale", "decade")
    shares = (dims, noisy / noisy.sum(-1, keepdims=True))
    return ds.assign(time_step_share=shares).assign_coords(
        decade=low, stage=["untrained", "trained"]
    )


@judges.judge("lem-google12-best", false=_drawn(LEM=70), true=_drawn(LEM=95))
def lem_leads(ds: xr.Dataset) -> Finding:
    return _networks(ds).leads("LEM", OTHERS)


@judges.judge("lem-google12-range", false=_narrow)
def wide_range(ds: xr.Dataset) -> Finding:
    return _by_kind(ds, decades)


@judges.judge("lem-google12-power", false=_narrow)
def power_law(ds: xr.Dataset) -> Finding:
    return _by_kind(ds, lambda shares, low: float(np.subtract(*fits(shares, low))))


@judges.judge("lem-google12-clip", false=_drawn(), true=_drawn(LEM_0=50))
def no_range_is_poor(ds: xr.Dataset) -> Finding:
    return _networks(ds).lead("LEM, i=3", "LEM, i=0")


@judges.judge("lem-google12-clip-slow", false=_drawn(LEM_7=70), true=_drawn(LEM_7=90))
def more_range_is_no_worse(ds: xr.Dataset) -> Finding:
    return _networks(ds).lead("LEM, i=7", "LEM, i=3")
