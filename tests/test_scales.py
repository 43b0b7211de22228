"""The decay of learned time steps."""

import numpy as np
import pytest
from drawn import drawn

from lib.analysis.scales import decays, histograms, plot_histograms, reach

DECADES = np.round(np.arange(-2, 0, 0.1), 1)
MIDDLES = 10 ** (DECADES + 0.05)


def rows_of(shares):
    """Return the histograms of networks that all have these shares of their time steps in `DECADES`."""
    ds = drawn({"LEM": 80.0}, spread=1)(np.random.default_rng(0))
    shape = (ds.sizes["run"], ds.sizes["replicate"], 2, 1, len(DECADES))
    dims = ("run", "replicate", "stage", "scale", "decade")
    held = ds.assign(time_step_share=(dims, np.broadcast_to(shares / shares.sum(), shape)))
    return histograms(held.assign_coords(stage=["untrained", "trained"], scale=[0], decade=DECADES))


def test_a_power_law_of_time_steps_is_told_from_an_exponential():
    rows = rows_of(MIDDLES * MIDDLES**-2.0)  # of the density, times the width of a class
    fits = decays(rows)
    assert fits["exponent"].to_numpy() == pytest.approx(-2) and (fits["power"] > 0.999).all()
    assert (fits["exponential"] < 0.9).all()
    ends = reach(rows).iloc[0]
    assert (ends["low"], ends["high"]) == pytest.approx((MIDDLES[0], MIDDLES[-1]))


def test_the_decay_is_fitted_on_the_longer_side_of_the_mode():
    half = len(DECADES) // 2
    for mode, classes in ((half - 1, half + 1), (half, half + 1)):
        shares = np.exp(-np.abs(np.arange(len(DECADES)) - mode))
        assert set(decays(rows_of(shares))["classes"]) == {classes}


def test_a_histogram_draws_mean_shares_in_their_classes():
    shares = np.where(np.arange(len(DECADES)) == 7, 0, MIDDLES)  # one class is empty
    [ax] = plot_histograms(rows_of(shares), ["one"], "lem", log=True).axes
    assert ax.get_xscale() == ax.get_yscale() == "log"
    for trained_or_not in ax.patches:
        drawn_as = trained_or_not.get_data()
        assert drawn_as.values == pytest.approx(shares / shares.sum())
        assert np.log10(drawn_as.edges) == pytest.approx([*DECADES, 0], abs=1e-9)
