"""Verdicts that would go against a network that could have been tuned better."""

import numpy as np
import pytest
import xarray as xr
from drawn import drawn
from study.claims.claim import Claim
from study.claims.estimating import estimate_claim
from study.claims.networks import Networks
from study.claims.region import Region
from study.claims.verdict import AGREES, DIFFERS, UNDECIDED, verdict_on

RATES = (0.001, 0.003, 0.01)


def made_claim(verb="lead", region=None, **comparison):
    """Return a claim that LEM is better than the LSTM on a made-up task."""
    asked = {
        "group": "made up",
        "verb": verb,
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
        artefact="lem-tab-images",
        quantity="lead",
        region=Region(**(region or {"above": 0})),
        refuted_by="the LSTM is as good",
        comparison=asked | comparison,
    )


def at_rates(scores, rates=RATES, measure="accuracy", **more):
    """Draw networks whose scores are given for one learning rate after the other."""
    parts = []
    for place, rate in enumerate(rates):
        level = {name: each[min(place, len(each) - 1)] for name, each in scores.items()}
        part = drawn(level, spread=1e-3, measure=measure, **more)(np.random.default_rng(place))
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
        (STEEP, [60.0], AGREES),  # a better rate only widens the lead
        (STEEP, [80.0], UNDECIDED),
        (ROBUST, [80.0], DIFFERS),
        (INSIDE, [80.0], DIFFERS),
    ],
)
def test_no_verdict_against_a_rate_at_the_edge(lem, lstm, verdict):
    found = judged(at_rates({"LEM": lem, "LSTM": lstm}), made_claim())
    assert found.verdict == verdict
    assert ("at the end of those tried" in found.reason) == (verdict == UNDECIDED)


@pytest.mark.parametrize(
    ("lstm", "verdict"), [([0.8, 0.42, 0.4], AGREES), ([1.6, 0.8, 0.4], UNDECIDED)]
)
def test_edges_of_error_ratios_are_judged_on_logarithms(lstm, verdict):
    ds = at_rates({"LEM": [0.2], "LSTM": lstm}, measure="error", guess=20.0)
    claim = made_claim("ratio", networks=("LSTM",), others=("LEM",), region={"above": 1})
    assert judged(ds, claim).verdict == verdict


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
    found = judged(at_rates(scores, rates), made_claim())
    assert found.verdict == verdict
    assert ("is at chance, and only" in found.reason) == (verdict == UNDECIDED)


@pytest.mark.parametrize(("rates", "verdict"), [((0.001, 0.003), UNDECIDED), (RATES, AGREES)])
def test_failing_to_learn_needs_three_rates(rates, verdict):
    ds = at_rates({"LSTM": [1.0] * len(rates)}, rates, "error", guess=1.0)
    claim = made_claim("share_of_chance", networks=("LSTM",), others=(), region={"above": 0.9})
    assert judged(ds, claim).verdict == verdict
    # That it learned is no verdict against it.
    learned = at_rates({"LSTM": [0.5, 0.1]}, (0.001, 0.003), "error", guess=1.0)
    assert judged(learned, claim).verdict == DIFFERS


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
    ds = drawn(scores, spread=1e-3, time_steps={"made up": 200}, dt=dt)(np.random.default_rng(0))
    claim = made_claim(networks=({"label": "LEM", "best": "dt"},), **DT)
    found = judged(ds, claim)
    assert found.verdict == verdict
    assert ("dt = 0.2 alone on 200" in found.reason) == (verdict == UNDECIDED)
    # The same network ahead, or without a note on the paper's dt.
    ahead = drawn(scores | {"LSTM": 20.0}, spread=1e-3, time_steps={"made up": 200}, dt=dt)
    assert judged(ahead(np.random.default_rng(0)), claim).verdict == AGREES
    assert judged(ds, made_claim(networks=({"label": "LEM", "best": "dt"},))).verdict == DIFFERS


def test_alike_networks_must_both_be_tuned():
    claim = made_claim(region={"above": -1, "below": 1})
    for scores, verdict in (
        ({"LEM": [70.0], "LSTM": INSIDE}, AGREES),
        ({"LEM": [70.0], "LSTM": STEEP}, UNDECIDED),
        ({"LEM": STEEP, "LSTM": [70.0]}, UNDECIDED),
    ):
        assert judged(at_rates(scores, test_sequences=10**6), claim).verdict == verdict
