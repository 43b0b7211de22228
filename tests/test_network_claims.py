"""What judges are told of networks: leads with intervals, and what is evidence of nothing."""

import math

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from lib.analysis.network_claims import UNSETTLED, Networks, drawn, times_as_long
from lib.analysis.networks import in_measure, tuned
from lib.results.claims import Scale

LEVELS = {"good": 80.0, "fair": 70.0, "poor": 10.0}


def _draw(scores=LEVELS, spread=0.5, **more):
    return drawn(scores, spread=spread, **more)(np.random.default_rng(0))


def test_a_lead_is_the_difference_of_means():
    networks = Networks(_draw())
    found = networks.lead("good", "fair")
    means = [networks.scores(name).mean() for name in ("good", "fair")]
    assert found.value == pytest.approx(means[0] - means[1])
    assert found.low < 10 < found.high
    assert networks.leads("good").low == pytest.approx(found.low)
    assert networks.apart([("fair", "good")]).value == pytest.approx(
        -networks.lead("fair", "good").value
    )


def test_a_lead_of_networks_that_still_improve_says_so():
    end = _draw()
    worse = end.assign(validation_metric=end["validation_metric"] - 0.2)
    for records, note in (((worse, end), UNSETTLED), ((end, worse), "")):
        ds = xr.concat(records, "record", data_vars="minimal").assign(records=2 * end["records"])
        networks = Networks(ds)
        assert networks.lead("good", "fair").note == networks.leads("good").note == note


def test_few_test_sequences_widen_an_interval():
    wide, narrow = (
        Networks(_draw({"LEM": 80, "LSTM": 50}, test_sequences=n)).lead("LEM", "LSTM")
        for n in (39, 10**6)
    )
    assert wide.value == pytest.approx(narrow.value)
    drawn_alone = 196 * math.sqrt((0.8 * 0.2 + 0.5 * 0.5) / 39)
    assert wide.value - wide.low > 0.99 * drawn_alone > 3 * (narrow.value - narrow.low)


@pytest.mark.parametrize(("measure", "guess"), [("perplexity", 100.0), ("squared error", 100.0)])
def test_of_errors_the_smaller_is_the_better(measure, guess):
    networks = Networks(in_measure(_draw(spread=0.01, measure=measure, guess=guess), measure))
    assert networks.lead("poor", "good").value == pytest.approx(70, abs=2)
    assert networks.ratio("good", "poor").value == pytest.approx(8, rel=0.05)


def test_only_the_named_tasks_change_their_measure():
    ds = _draw({("LEM", "words"): 50.0, ("LEM", "reviews"): 50.0}, measure="perplexity", guess=100)
    changed = in_measure(ds, "perplexity", ["words"])
    assert changed["metric"].values.tolist() == ["perplexity", "accuracy"]
    assert changed["guess_metric"].values.tolist() == pytest.approx([100, 0])


def test_what_learned_nothing_or_was_not_trained_leads_nobody():
    networks = Networks(_draw())
    assert networks.poor() == ["poor"]
    for one, over, why in (
        ("poor", "good", "no better than guessing: poor"),
        ("good", "absent", "not trained: absent"),
    ):
        found = networks.lead(one, over)
        assert math.isnan(found.low) and found.note == why


def test_replicates_on_the_same_sequences_are_no_further_evidence_against_chance():
    ds = _draw({"LEM": 25.0}, guess=20, test_sequences=39)
    assert Networks(ds).poor() == ["LEM"]
    assert Networks(ds.assign(test_sequences=ds["test_sequences"] * 100)).poor() == []


def test_an_error_must_be_a_tenth_below_guessing():
    ds = _draw({"LEM": 0.85, "LSTM": 0.95}, spread=1e-3, measure="error", guess=1.0)
    assert Networks(ds).poor() == ["LSTM"]


@pytest.mark.parametrize(
    ("name", "said", "why"),
    [
        ("task", '{"dataset": "digits"}', "the data set digits stands in for the text's"),
        ("substitute", "a stand-in for worms", "a stand-in for worms"),
    ],
)
def test_data_that_stand_in_are_no_evidence(name, said, why):
    ds = _draw()
    networks = Networks(ds.assign({name: ("run", [said] * ds.sizes["run"])}))
    for found in (networks.lead("good", "fair"), networks.over_guess("good")):
        assert math.isnan(found.low) and found.note == why
    assert networks.ratio("good", "fair").note == why


def test_a_training_that_diverged_at_once_scores_as_the_guess_does():
    ds = _draw()
    ds["records"][0, 0], ds["status"][0, 0] = 0, 1
    assert Networks(ds).scores("good")[0] == 10


def test_steps_are_known_up_to_the_spacing_of_records():
    columns = ["steps", "before", "trained"]
    slow = pd.DataFrame([[400, 300, 900], [400, 300, 900]], columns=columns)
    fast = pd.DataFrame([[100, 50, 900], [100, 50, 900]], columns=columns)
    found = times_as_long(slow, fast, Scale())
    assert (found.low, found.high) == pytest.approx((300 / 100, 400 / 50))
    never = pd.DataFrame([[np.inf, 900, 900]] * 2, columns=columns)
    assert times_as_long(never, never, Scale()).value == 1


def test_a_tuned_network_is_the_one_that_validates_best():
    ds = _draw({"LEM, dt=1": 50, "LEM, dt=0.1": 90}, spread=1)
    networks = Networks(tuned(ds, {"LEM": "LEM, dt="}))
    assert networks.scores("LEM").mean() == pytest.approx(90, abs=2)
