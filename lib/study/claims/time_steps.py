"""Learned time steps dt: the estimators peak, span, decades and power_law.

The time steps are stored as histograms with bins of a tenth of a decade
(`longrnn.probes.time_steps`), so every quantity here is exact to a factor of 1.26.
"""

import math
from dataclasses import replace

import numpy as np
import xarray as xr

from study.claims.claim import NetworkRef
from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.experiment_sizes import scale_of_networks
from study.claims.extremes import smallest
from study.claims.intervals import geometric_mean, mean
from study.claims.networks import Networks
from study.results.networks import BIN_WIDTH
from study.stats.scales import histograms, largest_step, likelihood_ratios, range_of_steps


def _run(networks: Networks, name: NetworkRef) -> xr.Dataset:
    return networks.ds.sel(run=networks.runs(name)["run"].iloc[0])


def peak(networks: Networks, name: NetworkRef, peak_dt: float) -> Estimate:
    """Estimate how much more common time steps near `peak_dt` are than smaller or larger ones.

    Parameters
    ----------
    networks, name
        The networks on the claim's task, and one of them.
    peak_dt
        A time step.

    Returns
    -------
    Estimate
        The share of steps within a factor of two of `peak_dt`, minus the larger of the shares in
        the two neighboring ranges of that width.
    """
    rows = histograms(_run(networks, name)).query("stage == 'trained'")
    # Ranges of a factor of four; number 0 has `peak_dt` in its middle.
    number = (np.log10(rows["dt"] / peak_dt) / (2 * np.log10(2))).round()
    shares = rows.groupby(["replicate", number])["share"].sum().unstack(fill_value=0)
    shares = shares / rows["scale"].nunique()  # the shares of each kind of step sum to one
    shares = shares.reindex(columns=[-1, 0, 1], fill_value=0.0)
    return mean(shares[0] - shares[[-1, 1]].max(axis=1), scale_of_networks(networks, name))


def span(networks: Networks, name: NetworkRef) -> Estimate:
    """Estimate the ratio of the largest allowed time step to the smallest learned one.

    Parameters
    ----------
    networks, name
        The networks on the claim's task, and one of them.

    Returns
    -------
    Estimate
        A ratio.
    """
    run = _run(networks, name)
    scale = scale_of_networks(networks, name)
    smallest_steps = range_of_steps(histograms(run)).pivot(
        index="replicate", columns="stage", values="low"
    )
    moved = abs(np.log10(smallest_steps["trained"] / smallest_steps["untrained"]))
    if (moved < 1.5 * BIN_WIDTH).all():
        reason = "the smallest time step is still in the histogram bin it had before training"
        return not_testable(reason, Cause.TOO_SMALL, scale)
    ratio = geometric_mean(largest_step(run) / smallest_steps["trained"], scale)
    half_bin = 10 ** (BIN_WIDTH / 2)  # the smallest step may lie anywhere in its bin
    return replace(ratio, low=ratio.low / half_bin, high=ratio.high * half_bin)


def decades(networks: Networks, name: NetworkRef) -> Estimate:
    """Estimate the decades between the 1st and the 99th percentile of the time steps.

    If there are several kinds of steps, the one with the smallest range counts. Both percentiles
    are known up to half a bin. One in an outermost bin is a bound, so that the interval has no
    upper end.

    Parameters
    ----------
    networks, name
        The networks on the claim's task, and one of them.

    Returns
    -------
    Estimate
        In orders of magnitude.
    """
    rows = histograms(_run(networks, name)).query("stage == 'trained'")
    ranges = []
    for _, kind in rows.groupby("scale"):
        ends = range_of_steps(kind, outside=0.01)
        logs = np.log10(ends["high"] / ends["low"])
        estimate = mean(logs, scale_of_networks(networks, name))
        estimate = replace(estimate, low=estimate.low - BIN_WIDTH, high=estimate.high + BIN_WIDTH)
        if ends["is_wider"].any():
            note = "some time steps lie beyond the bins of the histogram, so the range is larger"
            estimate = replace(estimate, high=math.inf, notes=(note,))
        ranges.append(estimate)
    return smallest(ranges)


def power_law(networks: Networks, name: NetworkRef) -> Estimate:
    """Estimate how much better a power law fits the time steps than an exponential distribution.

    If there are several kinds of steps, the one with the smallest difference counts.

    Parameters
    ----------
    networks, name
        The networks on the claim's task, and one of them.

    Returns
    -------
    Estimate
        Mean log-likelihood ratio per step over runs, in nats.
    """
    scale = scale_of_networks(networks, name)
    trained = histograms(_run(networks, name)).query("stage == 'trained'")
    fits = likelihood_ratios(trained).dropna(subset="ratio")
    if fits.empty:
        return not_testable("too few sizes of time steps to fit", Cause.TOO_SMALL, scale)
    return smallest(mean(kind, scale) for _, kind in fits["ratio"].groupby(fits["scale"]))
