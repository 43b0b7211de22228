"""Caveats of verdicts on networks: what a reader must know although the verdict stands."""

import json

import numpy as np
import pytest
import xarray as xr
from random_groups import RECORD, group_sampler
from study.claims.caveats import (
    TEST_SET_LEFT_OUT,
    TRIED_ONCE,
    read_caveats,
    stopped_at_target,
    write_caveats,
)
from study.claims.estimates import gather
from study.claims.estimating import estimate_claim
from study.claims.experiment_sizes import scale_of_networks
from study.claims.networks import Networks
from study.claims.search import gain_of_last_rate
from study.claims.testable import refuse_claim
from study.results.schema import DIVERGED
from test_tuning import RATES, at_rates, made_claim

FAILS = {"region": {"above": 0.9}, "others": ()}
LEARNS = {"region": {"below": 0.1}, "others": ()}


def errors(scores, replicates=6, **more):
    """Draw networks with these errors, where guessing has an error of 1."""
    draw = group_sampler(scores, spread=1e-3, measure="error", guess=1.0, **more)
    return draw(np.random.default_rng(0), replicates)


def estimated(ds, **claim):
    """Return the estimates of a claim's networks; their intervals leave out the test set."""
    return estimate_claim(Networks(ds), made_claim("share_of_chance", **claim)).parts


def test_a_network_trained_once_is_a_caveat():
    """It is a caveat only of verdicts against the network."""
    once = f"LEM was {TRIED_ONCE}"
    for region, caveats in (
        ({"below": 0.1}, ("", once)),
        ({"above": 0.9}, (once, "")),
        ({"above": 0.4, "below": 0.9}, ("", once)),
    ):
        (actual,) = estimated(errors({"LEM": 0.5}), region=region, others=())
        expected = tuple(gather(TEST_SET_LEFT_OUT, caveat) for caveat in caveats)
        assert actual.caveats == expected
    tuned = at_rates({"LEM": [0.6, 0.5, 0.7]}, measure="error", guess=1.0)
    assert estimated(tuned, **LEARNS)[0].caveats.to_differ == (TEST_SET_LEFT_OUT,)


@pytest.mark.parametrize(
    ("levels", "caveat"),
    [
        ((1.0, 0.05), "18 of 18 runs of RNN on made up, at 3 learning rates, stay at chance"),
        ((0.05, 0.05), ""),
        ((1.0, 1.0), ""),
    ],
)
def test_networks_that_fail_are_counted(levels, caveat):
    """Two starts of a network that a claim says to fail."""
    scores = {"RNN": [levels[0]] * 3, "RNN, other start": [levels[1]] * 3}
    ds = at_rates(scores, RATES, "error", guess=1.0)
    actual = estimated(ds, networks=("RNN", "RNN, other start"), **FAILS)
    expected = gather(TEST_SET_LEFT_OUT, caveat)
    assert {estimate.caveats.to_differ for estimate in actual} == {expected}


@pytest.mark.parametrize(
    ("others", "decided_by"),
    [(("LSTM", "GRU"), ("LEM and GRU", "made up")), (("LSTM",), None)],
)
def test_an_extreme_names_the_networks_that_decide(others, decided_by):
    """If there is a single comparison, the claim itself names the networks."""
    ds = errors({"LEM": 0.1, "LSTM": 0.9, "GRU": 0.5})
    claim = made_claim("ratio", region={"below": 1.0}, networks=("LEM",), others=others)
    assert estimate_claim(Networks(ds), claim).about == decided_by


def test_some_runs_at_chance_are_counted():
    learned = errors({"LEM": 0.05}, 5)
    failed = errors({"LEM": 1.0}, 2).assign_coords(replicate=[5, 6])
    both = xr.concat([learned, failed], "replicate", data_vars="minimal")
    note = "2 of 7 runs of LEM on made up stay at chance, and the mean includes them"
    assert estimated(both, **LEARNS)[0].notes == (note,)
    assert estimated(learned, **LEARNS)[0].notes == ()
    alike = estimated(errors({"LEM": 1.0}), **LEARNS)[0]
    assert alike.notes == (), "no run differs from the others"


def test_a_network_at_chance_may_have_runs_that_learned():
    """Its median run is at chance, but one run in five solves the task."""
    solved = errors({"LEM": 0.05, "LSTM": 0.05}, 1)
    failed = errors({"LEM": 0.05, "LSTM": 1.0}, 4).assign_coords(replicate=[1, 2, 3, 4])
    networks = Networks(xr.concat([solved, failed], "replicate", data_vars="minimal"))
    scale = scale_of_networks(networks, "LEM", "LSTM")
    assert scale.at_chance == ("4 of 5 runs of LSTM on made up (at learning rate 0.001)",)
    refusal = refuse_claim(networks, ["LSTM", "LEM"], ["LSTM"])
    assert refusal.notes == ("no better than chance: 4 of 5 runs of LSTM on made up",)


@pytest.mark.parametrize(("goal", "caveat"), [(0.01, True), (1e-6, False), (0.0, False)])
def test_a_stopping_rule_is_a_caveat(goal, caveat):
    ds = errors({"LEM": 0.05})
    ds.attrs["settings"] = json.dumps({"stop_below": goal})
    (actual,) = estimated(ds, **LEARNS)
    text = "training stops once the validation error is below 0.01, as in 6 of 6 runs of LEM"
    assert any(each.startswith(text) for each in actual.caveats.to_agree) == caveat
    other = (TEST_SET_LEFT_OUT, f"LEM was {TRIED_ONCE}")
    assert estimated(ds, **FAILS)[0].caveats.to_agree == other


def test_a_run_that_diverged_was_not_stopped_at_its_goal():
    """Its validation error was small at its last record; five others did stop there."""
    ds = errors({"LEM": 0.05})
    ds.attrs["settings"] = json.dumps({"stop_below": 0.01})
    ds["status"][0, 0] = DIVERGED
    assert "as in 5 of 6 runs of LEM" in stopped_at_target(Networks(ds), "LEM")


@pytest.mark.parametrize("metric_of_one", [1e20, np.nan])
def test_a_run_that_blew_up_counts_as_guessing(metric_of_one):
    """One of six runs at the neighboring rate; the gain is a sixth of the distance to chance."""
    ds = at_rates({"LEM": [0.5, 0.5]}, (0.001, 0.003), "error", guess=1.0)
    blown = (ds["learning_rate"] == 0.001) & (ds["replicate"] == 0)
    for part in ("test", "validation"):
        metric = ds[f"{part}_metric"].where(~blown, metric_of_one)
        ds[f"{part}_metric"] = metric.transpose(*RECORD)
    gain = gain_of_last_rate(Networks(ds), "LEM", logs=True)
    assert gain == pytest.approx(np.log(2) / 6, abs=0.01)


def test_caveats_are_read_as_they_were_written():
    for caveats in ((), ("one",), ("would be one, but two", "three: four, five")):
        assert read_caveats(write_caveats(caveats)) == caveats
    with pytest.raises(ValueError, match="'one; two' contains a semicolon, .*make it two caveats"):
        write_caveats(("one; two",))


SCORED = np.random.default_rng(1).exponential(size=(2, 6, 40)).astype("float32")
"""Scores of 40 test sequences, by network and run."""


@pytest.mark.parametrize(
    ("recorded", "measure", "stored", "left_out"),
    [
        ("accuracy", "", False, False),  # a binomial proportion
        ("accuracy", "", True, False),
        ("error", "", False, True),
        ("error", "", True, False),
        ("perplexity", "perplexity", False, True),
        ("perplexity", "perplexity", True, True),  # the stored scores are accuracies
        ("bits", "bits", True, True),
    ],
)
def test_an_unknown_error_of_the_test_set_is_a_caveat(recorded, measure, stored, left_out):
    guess = 50.0
    if recorded == "accuracy":
        guess = 10.0
    draw = group_sampler({"LEM": 20.0, "LSTM": 30.0}, spread=1e-3, measure=recorded, guess=guess)
    ds = draw(np.random.default_rng(0))
    if stored:
        ds["sequence_score"] = ("run", "replicate", "test_sequence"), SCORED
    networks = Networks(ds, measure=measure)
    claim = made_claim("lead", region={"above": 0.0})
    (actual,) = estimate_claim(networks, claim).parts
    assert actual.test_set_left_out == left_out
    for caveats in actual.caveats:
        assert (TEST_SET_LEFT_OUT in caveats) == left_out
    assert (actual.sampled == 0.0) == left_out
