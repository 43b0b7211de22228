"""Verdicts that would go against a network that could have been tuned better."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from random_groups import group_sampler
from study.claims import extremes
from study.claims.claim import Claim, NetworkSelection
from study.claims.estimates import ByVerdict, Estimate, gather
from study.claims.estimating import estimate_claim
from study.claims.experiment_sizes import scale_of_networks
from study.claims.judging import judged_row
from study.claims.networks import Networks
from study.claims.region import Region
from study.claims.search import gain_of_last_rate, settings_tried
from study.claims.tuning import Losers, losers
from study.claims.verdict import AGREES, DIFFERS, UNDECIDED, verdict_on

RATES = (0.001, 0.003, 0.01)
AT_CHANCE = "runs of LSTM on made up"


def made_claim(estimator="lead", region=None, **comparison):
    """Return a claim that LEM is better than the LSTM on a made-up task."""
    asked = {
        "group": "made up",
        "estimator": estimator,
        "tasks": ("made up",),
        "networks": ("LEM",),
        "others": ("LSTM",),
        "paper_steps": "not printed",
    }
    return Claim(
        id="made-up",
        paper="lem",
        section="1",
        statement="LEM is better",
        artifact="lem-tab-images",
        quantity="lead",
        unit="points",
        region=Region(**(region or {"above": 0})),
        refuted_by="the LSTM is as good",
        comparison=asked | comparison,
    )


def at_rates(scores, rates=RATES, measure="accuracy", **more):
    """Draw networks whose scores are given for one learning rate after the other."""
    parts = []
    for place, rate in enumerate(rates):
        level = {name: each[min(place, len(each) - 1)] for name, each in scores.items()}
        draw = group_sampler(level, spread=1e-3, measure=measure, **more)
        part = draw(np.random.default_rng(place))
        part["learning_rate"][:] = rate
        parts.append(part.assign_coords(run=[f"{run}, {rate}" for run in part["run"].values]))
    ds = xr.concat(parts, "run", data_vars="minimal")
    # A network with a single score was trained at a single rate.
    single = [name for name, each in scores.items() if len(each) == 1]
    extra = ds["label"].isin(single) & (ds["learning_rate"] != rates[0])
    return ds.isel(run=~extra.values)


def judged(ds, claim):
    return verdict_on(estimate_claim(Networks(ds), claim), claim)


ROBUST = [60.0, 69.0, 70.0]
"""Best at the largest rate, where the last step gained a point."""
STEEP = [40.0, 60.0, 70.0]
"""The last step gained ten points."""
INSIDE = [40.0, 70.0, 60.0]


@pytest.mark.parametrize(
    ("lem", "lstm", "verdict"),
    [
        ([80.0], INSIDE, AGREES),
        ([80.0], ROBUST, AGREES),  # two points more leave a lead of eight
        ([80.0], STEEP, UNDECIDED),
        ([85.0], STEEP, UNDECIDED),  # one step of ten points leaves a lead of five, two steps none
        ([95.0], STEEP, AGREES),
        (STEEP, [60.0], AGREES),  # a better rate only widens the lead
        (STEEP, [80.0], UNDECIDED),
        (ROBUST, [80.0], DIFFERS),
        (INSIDE, [80.0], DIFFERS),
    ],
)
def test_no_verdict_against_a_rate_at_the_edge(lem, lstm, verdict):
    actual = judged(at_rates({"LEM": lem, "LSTM": lstm}), made_claim())
    assert actual.verdict == verdict
    assert ("at the edge of the grid" in actual.reason) == (verdict == UNDECIDED)


@pytest.mark.parametrize(
    ("lstm", "verdict"), [([0.8, 0.42, 0.4], AGREES), ([1.6, 0.8, 0.4], UNDECIDED)]
)
def test_edges_of_error_ratios_are_judged_on_logarithms(lstm, verdict):
    ds = at_rates({"LEM": [0.2], "LSTM": lstm}, measure="error", guess=20.0)
    claim = made_claim("ratio", networks=("LSTM",), others=("LEM",), region={"above": 1})
    assert judged(ds, claim).verdict == verdict


@pytest.mark.parametrize("scores", [[70.0, 60.0, 20.0], [20.0, 60.0, 70.0]])
def test_the_last_rate_gained_what_it_is_better_than_its_neighbor(scores):
    ds = at_rates({"LEM": scores})
    gain = gain_of_last_rate(Networks(ds), "LEM", logs=False)
    assert gain == pytest.approx(10, abs=0.1)
    # The rate that validates best may be worse on the test part.
    worse = ds.assign(test_metric=0.9 - ds["test_metric"])
    assert gain_of_last_rate(Networks(worse), "LEM", logs=False) == 0


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ((0.001, 0.003), UNDECIDED),
        ((0.001, 0.002, 0.004), UNDECIDED),
        ((0.001, 0.003, 0.01), AGREES),
        ((0.0003, 0.001, 0.003), AGREES),
    ],
)
def test_a_network_at_chance_needs_three_rates(rates, verdict):
    scores = {"LEM": [80.0], "LSTM": [10.0] * len(rates)}
    actual = judged(at_rates(scores, rates), made_claim())
    assert actual.verdict == verdict
    assert ("is at chance, and only" in actual.reason) == (verdict == UNDECIDED)


@pytest.mark.parametrize(
    ("scores", "edge", "chance"),
    [
        (
            [10.0, 10.0, 10.2],
            (),
            (f"6 of 6 {AT_CHANCE} (at the best of 3 learning rates from 0.001 to 0.01)",),
        ),
        ([10.0], (), (f"6 of 6 {AT_CHANCE} (at learning rate 0.001)",)),
        (ROBUST, ("LSTM on made up (0.01)",), ()),
        (INSIDE, (), ()),
    ],
)
def test_the_best_rate_of_a_network_at_chance_is_not_at_an_edge(scores, edge, chance):
    ds = at_rates({"LEM": [80.0], "LSTM": scores})
    scale = scale_of_networks(Networks(ds), "LEM", "LSTM")
    assert (scale.at_edge, scale.at_chance) == (edge, chance)


@pytest.mark.parametrize(("rates", "verdict"), [((0.001, 0.003), UNDECIDED), (RATES, AGREES)])
def test_failing_to_learn_needs_three_rates(rates, verdict):
    ds = at_rates({"LSTM": [1.0] * len(rates)}, rates, "error", guess=1.0)
    claim = made_claim("share_of_chance", networks=("LSTM",), others=(), region={"above": 0.9})
    assert judged(ds, claim).verdict == verdict
    # That it learned is a verdict in its favor.
    learned = at_rates({"LSTM": [0.5, 0.1]}, (0.001, 0.003), "error", guess=1.0)
    assert judged(learned, claim).verdict == DIFFERS


@pytest.mark.parametrize(
    ("lem", "lstm", "to_agree", "to_differ"),
    [
        ([60.0, 80.0, 70.0], [70.0], "LEM was tuned over 3 settings, LSTM over 1", ""),
        ([70.0], [60.0, 80.0, 70.0], "", "LSTM was tuned over 3 settings, LEM over 1"),
        ([60.0, 80.0, 70.0], INSIDE, "", ""),
        ([80.0], [60.0], *["LEM and LSTM were each trained at a single setting"] * 2),
    ],
)
def test_unequal_tuning_is_a_caveat(lem, lstm, to_agree, to_differ):
    ds = at_rates({"LEM": lem, "LSTM": lstm})
    (estimate,) = estimate_claim(Networks(ds), made_claim()).parts
    expected = ByVerdict(gather(to_agree), gather(to_differ))
    assert estimate.caveats == expected
    # A row that was judged says it of the verdict that it has.
    lead = replace(Estimate(5, 4.9, 5.1), caveats=expected)
    assert judged_row("lem-5-smnist-lstm", lead)["caveat"] == to_agree
    behind = replace(lead, value=-5, low=-5.1, high=-4.9)
    assert judged_row("lem-5-smnist-lstm", behind)["caveat"] == to_differ


def test_swept_factors_count_as_settings():
    scores = {"LEM, dt=0.2": [60.0, 70.0, 65.0], "LEM, dt=0.4": [80.0], "LSTM": [60.0, 70.0, 65.0]}
    ds = at_rates(scores).assign_coords(dt=("run", [0.0] * 7))
    ds["dt"] = "run", [float(label.partition("=")[2] or "nan") for label in ds["label"].values]
    ds["network"] = "run", [label.partition(", ")[0] for label in ds["label"].values]
    networks = Networks(ds)
    assert settings_tried(networks, NetworkSelection(label="LEM", best="dt")) == 4
    assert settings_tried(networks, "LSTM") == 3


def test_settings_of_other_tasks_do_not_count():
    here = at_rates({("LEM", "here"): [60.0, 70.0, 65.0]})
    there = at_rates({("LEM", "there"): [60.0, 70.0]}, (0.001, 0.003))
    networks = Networks(xr.concat([here, there], "run", data_vars="minimal"))
    assert settings_tried(networks.on_task("here"), "LEM") == 3
    assert settings_tried(networks.on_task("there"), "LEM") == 2


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ({"above": 5.0}, Losers(agrees=("LEM", "LSTM"), differs=("LEM", "LSTM"))),
        ({"below": 5.0}, Losers(agrees=("LEM", "LSTM"), differs=("LEM", "LSTM"))),
    ],
)
def test_how_far_apart_networks_are_may_go_against_each_of_them(region, expected):
    """The claim does not say which of them is ahead."""
    claim = made_claim("apart", region=region)
    assert losers(claim, ("LEM", "LSTM"), ("LEM",)) == expected


def test_a_lead_within_two_bounds_may_go_against_each_of_two_networks():
    """A lead between one point and three may also be missed because the LEM leads by more."""
    pair = ("LEM", "LSTM")
    assert losers(made_claim(region={"above": 1, "below": 3}), pair, pair) == Losers(pair, pair)
    assert losers(made_claim(), pair, ("LEM",)) == Losers(agrees=("LSTM",), differs=("LEM",))


def test_one_pair_tuned_equally_is_enough_to_differ():
    """One network that the paper has behind leads with as many settings, which is enough."""
    unequal = Estimate(-5, -5.01, -4.99, caveats=ByVerdict(to_differ=("LSTM was tuned more",)))
    pairs = extremes.smallest([unequal, Estimate(-3, -3.01, -2.99)])
    row = judged_row("lem-5-smnist-lead", pairs)
    assert (row["verdict"], row["caveat"]) == (DIFFERS, "")


DT = {"paper_dt": {"LEM": 0.2}, "paper_length": 800}


@pytest.mark.parametrize(
    ("levels", "verdict"),
    [
        ({"LEM": 0.2}, UNDECIDED),
        ({"LEM": 0.8}, DIFFERS),
        ({"LEM, dt=0.2": 0.2, "LEM, dt=0.4": 0.4}, DIFFERS),
    ],
)
def test_a_dt_of_other_lengths_refutes_nothing(levels, verdict):
    """Sequences of 200 steps, where the paper has 800."""
    scores = dict.fromkeys(levels, 60.0) | {"LSTM": 80.0}
    dt = [*levels.values(), np.nan]
    draw = group_sampler(scores, spread=1e-3, time_steps={"made up": 200}, dt=dt)
    ds = draw(np.random.default_rng(0))
    claim = made_claim(networks=({"label": "LEM", "best": "dt"},), **DT)
    actual = judged(ds, claim)
    assert actual.verdict == verdict
    assert ("only at dt = 0.2, on 200 time steps" in actual.reason) == (verdict == UNDECIDED)
    # The same network ahead, or without a note on the paper's dt.
    ahead = group_sampler(scores | {"LSTM": 20.0}, spread=1e-3, time_steps={"made up": 200}, dt=dt)
    assert judged(ahead(np.random.default_rng(0)), claim).verdict == AGREES
    assert judged(ds, made_claim(networks=({"label": "LEM", "best": "dt"},))).verdict == DIFFERS


@pytest.mark.parametrize(
    ("units", "verdict"),
    [
        ((64, 32), UNDECIDED),
        ((48, 32), AGREES),  # not more than one and a half times as many
        ((32, 32), AGREES),
        ((32, 64), AGREES),
    ],
)
def test_more_units_than_in_the_paper_win_nothing(units, verdict):
    """In the paper LEM and the LSTM have 256 units each."""
    ds = group_sampler({"LEM": 80.0, "LSTM": 60.0}, spread=1e-3)(np.random.default_rng(0))
    ds = ds.assign(width=("run", [*units]))
    as_many = made_claim(paper_width={"LEM": 256, "LSTM": 256})
    actual = judged(ds, as_many)
    assert actual.verdict == verdict
    assert ("LEM has 64 units and LSTM 32" in actual.reason) == (verdict == UNDECIDED)
    # The same claim if the paper's LEM is wider too, or if the paper's units are unknown.
    assert judged(ds, made_claim(paper_width={"LEM": 512, "LSTM": 256})).verdict == AGREES
    assert judged(ds, made_claim()).verdict == AGREES


def test_fewer_units_refute_nothing():
    ds = group_sampler({"LEM": 60.0, "LSTM": 80.0}, spread=1e-3)(np.random.default_rng(0))
    ds = ds.assign(width=("run", [32, 64]))
    actual = judged(ds, made_claim(paper_width={"LEM": 256, "LSTM": 256}))
    assert (actual.verdict, "LSTM has 64 units and LEM 32" in actual.reason) == (UNDECIDED, True)
    assert judged(ds, made_claim()).verdict == DIFFERS


def test_alike_networks_must_both_be_tuned():
    claim = made_claim(region={"above": -1, "below": 1})
    for scores, verdict in (
        ({"LEM": [70.0], "LSTM": INSIDE}, AGREES),
        ({"LEM": [70.0], "LSTM": STEEP}, UNDECIDED),
        ({"LEM": STEEP, "LSTM": [70.0]}, UNDECIDED),
    ):
        assert judged(at_rates(scores, test_sequences=10**6), claim).verdict == verdict
