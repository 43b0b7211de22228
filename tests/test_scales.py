"""The decay of learned time steps."""

import numpy as np
import pytest

from lib.analysis.network_claims import drawn
from lib.analysis.scales import decays, histograms, reach


def test_a_power_law_of_time_steps_is_told_from_an_exponential():
    ds = drawn({"LEM": 80.0}, spread=1)(np.random.default_rng(0))
    decade = np.round(np.arange(-2, 0, 0.1), 1)
    middle = 10 ** (decade + 0.05)
    shares = middle * middle**-2.0  # of the density, times the width of a class
    shape = (ds.sizes["run"], ds.sizes["replicate"], 2, 1, len(decade))
    dims = ("run", "replicate", "stage", "scale", "decade")
    held = ds.assign(time_step_share=(dims, np.broadcast_to(shares / shares.sum(), shape)))
    rows = histograms(held.assign_coords(stage=["untrained", "trained"], scale=[0], decade=decade))
    fits = decays(rows)
    assert fits["exponent"].to_numpy() == pytest.approx(-2) and (fits["power"] > 0.999).all()
    assert (fits["exponential"] < 0.9).all()
    ends = reach(rows).iloc[0]
    assert (ends["low"], ends["high"]) == pytest.approx((middle[0], middle[-1]))
