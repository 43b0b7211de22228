"""What the analyses of the adding problem take from its dataset, and the measurements beside it."""

import numpy as np
import pytest
import torch
import xarray as xr
from lib.experiments.adding import ENDS, POSITIONS, SCHEMA, STAGES

from lib.analysis.adding import (
    adjoint_curves,
    chosen_rates,
    outcomes,
    plot_adjoints,
    plot_curves,
    plot_scaled,
)
from lib.analysis.claims_adding import final_errors
from lib.probes import scaled
from lib.probes.scaled import scaled_adjoints
from lib.results.schema import COMPLETED, DIVERGED, MISSING


@pytest.fixture
def ds():
    """Two networks, two rates: `rnn` is best at 0.1, `lstm` diverged at 0.1, and neither was tried at T=9 and 0.1."""
    levels = {
        "architecture": ["rnn", "lstm"],
        "time_steps": [5, 9],
        "learning_rate": [0.01, 0.1],
        "start": ["author"],
        "activation": ["tanh"],
        "replicate": [0, 1],
        "checkpoint": [0, 1, 2],
        "position": list(POSITIONS),
        "stage": list(STAGES),
        "end": list(ENDS),
    }
    ds = SCHEMA.empty(levels, profile="smoke")
    tried = {"time_steps": 5}, {"time_steps": 9, "learning_rate": 0.01}
    for where in tried:
        ds["status"].loc[where] = COMPLETED
        for name in ("training_steps", "steps_completed"):
            ds[name].loc[where] = 40
        for name in ("error", "validation"):
            ds[name].loc[where] = np.array([3.0, 2.0, 1.0])
        ds["adjoint"].loc[where] = np.linspace(-10, -2, len(POSITIONS))
        ds["gain"].loc[where] = np.array([0.5, -3.0])
    better = {"architecture": "rnn", "time_steps": 5, "learning_rate": 0.1}
    for name in ("error", "validation"):
        ds[name].loc[better] = [3, 2, 0.5]
    bad = {"architecture": "lstm", "time_steps": 5, "learning_rate": 0.1, "replicate": 1}
    ds["status"].loc[bad], ds["steps_completed"].loc[bad] = DIVERGED, 25
    for name in ("error", "validation"):
        ds[name].loc[bad] = [3.0, 0.001, np.nan]
    return SCHEMA.validate(ds)


def test_the_rate_with_the_smallest_last_error_stands_for_a_network(ds):
    best = chosen_rates(ds).drop_duplicates(["architecture", "time_steps", "learning_rate"])
    rates = best.set_index(["architecture", "time_steps"])["learning_rate"].to_dict()
    assert rates == {("rnn", 5): 0.1, ("rnn", 9): 0.01, ("lstm", 5): 0.01, ("lstm", 9): 0.01}


def test_curves_keep_their_steps_and_all_replicates(ds):
    one = chosen_rates(ds).query("architecture == 'rnn' and time_steps == 5")
    assert one.groupby("replicate")["step"].apply(list).tolist() == [[0, 20, 40]] * 2
    assert one.groupby("replicate")["error"].apply(list).tolist() == [[3, 2, 0.5]] * 2


def test_a_network_that_diverged_at_every_rate_is_still_there(ds):
    ds["error"].loc[{"architecture": "lstm", "checkpoint": 2}] = np.nan
    ds["status"].loc[{"architecture": "lstm"}] = DIVERGED
    best = chosen_rates(ds)
    assert set(best["architecture"]) == {"rnn", "lstm"}


def test_a_training_that_never_ran_stands_for_no_network(ds):
    best = {"architecture": "rnn", "time_steps": 5, "learning_rate": 0.1}
    ds["status"].loc[best], ds["steps_completed"].loc[best] = MISSING, 0
    ds["error"].loc[best] = np.nan
    chosen = chosen_rates(SCHEMA.validate(ds)).query("architecture == 'rnn' and time_steps == 5")
    assert set(chosen["learning_rate"]) == {0.01}


def test_any_further_factor_is_a_setting_like_the_learning_rate(ds):
    two = xr.concat([ds, ds.assign_coords(start=["text"])], "start", data_vars="minimal")
    two["validation"].loc[{"start": "text", "architecture": "rnn", "time_steps": 5}] /= 10
    best = chosen_rates(two).drop_duplicates(["architecture", "time_steps"])
    found = best.set_index(["architecture", "time_steps"])["start"].to_dict()
    assert found["rnn", 5] == "text" and found["rnn", 9] == "author"


def test_the_test_error_chooses_nothing(ds):
    ds["error"].loc[{"architecture": "rnn", "time_steps": 5, "learning_rate": 0.01}] = 1e-9
    chosen = chosen_rates(ds).query("architecture == 'rnn' and time_steps == 5")
    assert set(chosen["learning_rate"]) == {0.1}
    assert final_errors(ds, "rnn", 5).tolist() == [0.5, 0.5]
    assert final_errors(ds.assign_coords(activation=["relu"]), "rnn", 5).size == 0


def test_a_network_learned_where_its_last_error_is_a_small_share_of_the_guess(ds):
    table = outcomes(ds, 8.0).set_index(["architecture", "time_steps"])
    assert table.index.tolist() == [("rnn", 5), ("lstm", 5), ("rnn", 9), ("lstm", 9)]
    assert table["error"].to_dict()["rnn", 5] == 0.5
    assert table["learned"].tolist() == [1, 0, 0, 0] and table["improved"].all()
    assert (table["trainings"] == 2).all() and (table["training_steps"] == 40).all()


def test_adjoint_curves_are_relative_to_the_end(ds):
    curves = adjoint_curves(ds)
    assert len(curves) == 4 * len(STAGES) * len(POSITIONS)
    assert (curves.query("position == 1")["log10_ratio"] == 0).all()
    assert curves.query("position == 0")["log10_ratio"].to_numpy() == pytest.approx(-8)
    assert set(curves["largest"]) == {0.5} and set(curves["smallest"]) == {-3.0}


def test_a_linear_lu_rnn_balances_what_its_matrix_does_and_a_basic_rnn_does_not():
    """Section 2.9: one whole turn of W and its inverse preserves the adjoint state, whatever the scale of W."""
    u, targets = torch.rand(12, 2, 2, generator=torch.manual_seed(0)), torch.ones(2)
    frame = scaled_adjoints((0.5, 2.0), (1e-8,), u, targets, width=4, tau=3)
    at = frame.set_index(["architecture", "scale", "time"])["log10_ratio"]
    for name in ("lu_rnn", "inverse_rnn"):
        for scale in (0.5, 2.0):
            assert at[name, scale, 6] == pytest.approx(0, abs=1e-4)
            # In the middle of a turn the adjoint state has felt one of the two alone.
            assert at[name, scale, 9] == pytest.approx(-3 * np.log10(scale), abs=1e-4)
    for scale in (0.5, 2.0):
        assert at["rnn", scale, 6] == pytest.approx(6 * np.log10(scale), abs=1e-4)


def test_figures_draw_a_panel_a_length_and_a_line_a_network(ds):
    for figure, lines in (
        (plot_curves(chosen_rates(ds), 4.0), 3),  # the guess is the third
        (plot_adjoints(adjoint_curves(ds)), 2 * len(STAGES)),
    ):
        assert [ax.get_title() for ax in figure.axes] == ["T = 5", "T = 9"]
        assert [len(ax.lines) for ax in figure.axes] == [lines, lines]
        assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    best, _, guess = plot_curves(chosen_rates(ds), 4.0).axes[0].lines
    assert best.get_ydata().tolist() == [3, 2, 0.5] and set(guess.get_ydata()) == {4}


def test_a_figure_of_scaled_matrices_has_a_row_a_loudness():
    u, targets = torch.rand(6, 2, 2, generator=torch.manual_seed(0)), torch.ones(2)
    frame = scaled_adjoints((0.5, 1.0, 2.0), (1e-8, 1.0), u, targets, width=2, tau=3)
    quiet, loud = np.reshape(plot_scaled(frame, ["quiet", "loud"]).axes, (2, -1))
    assert quiet[0].get_ylabel().startswith("quiet") and loud[0].get_ylabel().startswith("loud")
    for row, loudness in ((quiet, 1e-8), (loud, 1.0)):
        for ax, name in zip(row, frame["architecture"].unique(), strict=True):
            parts = frame[(frame["architecture"] == name) & (frame["loudness"] == loudness)]
            for line, (_, part) in zip(ax.lines, parts.groupby("scale"), strict=True):
                assert line.get_ydata().tolist() == part["log10_ratio"].tolist()


def test_input_weights_of_scaled_networks_are_uniform_around_zero(monkeypatch):
    seen, make = [], scaled._cell
    monkeypatch.setattr(
        scaled, "_cell", lambda name, W, R, *rest: seen.append(R) or make(name, W, R, *rest)
    )
    scaled_adjoints((1.0,), (1.0,), torch.rand(3, 2, 2), torch.ones(2), width=50, tau=3)
    for R in seen:
        assert -1 / np.sqrt(2) <= R.min() < -0.6 and 0.6 < R.max() <= 1 / np.sqrt(2)
