"""Where automatic differentiation says that an adjoint is zero, and it is not."""

import numpy as np

from lib.cells import make_cell
from lib.probes import blank_inputs
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


def test_biases_have_both_signs_and_every_input_is_read_once(monkeypatch):
    cells, lengths = [], []

    def kept(*sizes):
        cells.append(make_cell(*sizes))
        cells[0].register_forward_pre_hook(lambda _, given: lengths.append(len(given[0])))
        return cells[0]

    monkeypatch.setattr(blank_inputs, "make_cell", kept)
    blank_adjoints({"bias": (0.01, 0.0)}, width=16, blank=3, inputs=5)
    assert cells[0].b.min() < 0 < cells[0].b.max() <= 0.01
    assert lengths == [1, 7, 7, 7]
