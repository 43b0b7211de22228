"""Where automatic differentiation says that an adjoint is zero, and it is not."""

import numpy as np

from lib.probes.blank_inputs import blank_adjoints


def test_a_state_away_from_zero_and_not_a_bias_gives_the_adjoint_back():
    cases = {"plain": (0.0, 0.0), "bias": (0.01, 0.0), "state": (0.0, 0.1)}
    found = blank_adjoints(cases, width=6, blank=3, inputs=5).set_index("case")
    assert found["automatic"].map(np.isneginf).to_dict() == {
        "plain": True,
        "bias": True,
        "state": False,
    }
    assert abs(found.loc["state", "automatic"] - found.loc["state", "finite"]) < 1e-6
    # Without a bias the network is linear: the same derivative everywhere, at zero too.
    assert abs(found.loc["plain", "finite"] - found.loc["state", "finite"]) < 1e-6
