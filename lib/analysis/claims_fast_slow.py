"""What the fast and slow system (Tables 4 and 9, Figure 4) says of LEM's claims."""

import numpy as np
import xarray as xr

from lib.analysis.network_claims import Networks, drawn
from lib.analysis.networks import chosen_rates, tuned
from lib.results.claims import Finding, Judges, geometric_mean, smallest

AUTHOR, EXACT = "author's solver", "exact solver"
SINGLE = "LEM w/o multi-scale"
OTHERS = ("LSTM", "expRNN", "LipschitzRNN", "FastGRNN", "coRNN")
SCALES = "LEM, dt=2"
SLOW = 0.02
"""The slow time scale of the system."""

judges = Judges("fast_slow")


def with_tuned(ds: xr.Dataset) -> xr.Dataset:
    """Return `ds` with LEM's single scale as the text has it: the constant time step that validates best."""
    return tuned(ds, {SINGLE: f"{SINGLE}, dt="})


def scale_shares(ds: xr.Dataset) -> xr.DataArray:
    """Return the share of the time steps of LEM with dt = 2 in each class, both kinds together, (replicate, stage, decade)."""
    best = chosen_rates(ds)
    place = np.flatnonzero(best["label"].values == SCALES)[0]
    return best["time_step_share"].isel(run=place).isel(scale=slice(2)).mean("scale")


def peak(shares: xr.DataArray, at: float) -> np.ndarray:
    """Return the share within a factor two of a scale over the larger of those in the two ranges of that width beside it."""
    low = shares["decade"].values
    width, centre = 2 * np.log10(2), np.log10(at)
    parts = [
        shares.values[..., abs(low + 0.05 - centre - k * width) < width / 2].sum(-1)
        for k in (-1, 0, 1)
    ]
    return parts[1] / np.maximum(np.maximum(parts[0], parts[2]), 1e-9)


def _networks(ds: xr.Dataset) -> Networks:
    return Networks(with_tuned(ds), AUTHOR)


def _drawn(lem: float, single: float):
    scores = dict.fromkeys(OTHERS, 0.02) | {"LEM": lem, f"{SINGLE}, dt=1": single}
    keys = {(label, AUTHOR): value for label, value in scores.items()}
    return drawn(keys, spread=0.15, measure="error", guess=0.08)


@judges.judge("lem-fhn-factor", false=_drawn(0.01, 0.02), true=_drawn(0.004, 0.02))
def factor_over_lstm(ds: xr.Dataset) -> Finding:
    return _networks(ds).ratio("LSTM", "LEM")


@judges.judge("lem-fhn-best", false=_drawn(0.023, 0.02), true=_drawn(0.01, 0.02))
def best_of_all(ds: xr.Dataset) -> Finding:
    networks = _networks(ds)
    return smallest(networks.ratio(other, "LEM") for other in OTHERS)


@judges.judge("lem-fhn-multiscale", false=_drawn(0.01, 0.02), true=_drawn(0.004, 0.02))
def scales_matter(ds: xr.Dataset) -> Finding:
    return _networks(ds).ratio(SINGLE, "LEM")


@judges.judge("lem-fhn-single", false=_drawn(0.005, 0.006), true=_drawn(0.004, 0.02))
def single_scale_like_lstm(ds: xr.Dataset) -> Finding:
    return _networks(ds).ratio(SINGLE, "LSTM")


def _no_peak(rng: np.random.Generator, replicates: int = 6) -> xr.Dataset:
    """Draw scales that become rarer evenly from 1 downwards."""
    ds = drawn({(SCALES, AUTHOR): 0.005}, spread=0.15, measure="error", guess=0.08)(rng, replicates)
    decade = np.round(np.arange(-6, 1, 0.1), 1)
    shares = np.where(decade <= 0.2, 10.0**decade, 0) * rng.uniform(
        0.9, 1.1, (1, replicates, 2, 3, decade.size)
    )
    dims = ("run", "replicate", "stage", "scale", "decade")
    shares = (dims, shares / shares.sum(-1, keepdims=True))
    return ds.assign(time_step_share=shares).assign_coords(
        decade=decade, stage=["untrained", "trained"]
    )


@judges.judge("lem-fhn-scales", false=_no_peak)
def slow_scale(ds: xr.Dataset) -> Finding:
    """Of the scale 1 nothing is asked: with dt = 2 every time step starts near it."""
    networks = Networks(ds, AUTHOR)
    if refused := networks.refusal(SCALES):
        return refused
    found = peak(scale_shares(ds).sel(stage="trained"), SLOW)
    return geometric_mean(np.maximum(found, 1e-9), networks.scale(SCALES))
