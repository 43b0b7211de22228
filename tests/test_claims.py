"""Claims: the rule, the intervals, and that no judge is persuaded by data in which its claim is false."""

import importlib
import math
import pkgutil

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import lib.analysis
from lib.analysis import claims_irnn, claims_tenet
from lib.paths import DATA
from lib.results import claims
from lib.results.claims import Finding, Judges, Region
from lib.results.published import artefacts

for module in pkgutil.iter_modules(lib.analysis.__path__):
    importlib.import_module(f"lib.analysis.{module.name}")

DRAWS = 40
JUDGED = [(name, claim) for name, judges in Judges.everywhere.items() for claim in judges.judges]
REFERENCE = DATA / "reference" / "real"


@pytest.mark.parametrize(
    ("region", "low", "high", "expected"),
    [
        ("> 0.5", 0.6, 0.9, claims.AGREES),
        ("> 0.5", 0.1, 0.5, claims.DIFFERS),
        ("> 0.5", 0.4, 0.6, claims.UNDECIDED),
        ("> 0", 0.0, 0.0, claims.DIFFERS),
        ("< 0.02", -3.0, 0.019, claims.AGREES),
        ("< 0.02", 0.02, 0.03, claims.DIFFERS),
        ("0.02 .. 0.13", 0.03, 0.12, claims.AGREES),
        ("0.02 .. 0.13", 0.01, 0.12, claims.UNDECIDED),
        ("0.02 .. 0.13", 0.14, 0.2, claims.DIFFERS),
        ("-0.3 .. 0.3", math.nan, math.nan, claims.UNTESTABLE),
    ],
)
def test_the_interval_decides(region, low, high, expected):
    finding = Finding((low + high) / 2, low, high)
    assert claims.verdict(finding, Region.parse(region))[0] == expected


def test_an_experiment_that_could_not_have_agreed_is_no_test():
    region = Region.parse("> 0.5")
    assert claims.verdict(claims.share(3, 3), region)[0] == claims.UNTESTABLE  # at best 0.29 .. 1
    assert claims.verdict(claims.share(4, 6), region)[0] == claims.UNDECIDED
    assert claims.verdict(claims.share(6, 6), region)[0] == claims.AGREES
    wide = Finding(0.1, -1.0, 1.2)
    assert claims.verdict(wide, Region.parse("> 0"), 0.2)[0] == claims.UNTESTABLE
    assert claims.verdict(wide, Region.parse("> 0"), 3.0)[0] == claims.UNDECIDED


@pytest.mark.parametrize(
    ("found", "region", "published"),
    [
        (claims.mean, "> 0", 0.5),
        (lambda logs: claims.geometric_mean(np.exp(2 * logs)), "0.4 .. 2.5", 1.0),
    ],
    ids=["difference", "ratio"],
)
def test_power_is_how_often_such_an_experiment_agrees(found, region, published):
    region, size = Region.parse(region), 30
    middle = published if found is claims.mean else 0.0
    rng = np.random.default_rng(0)
    draws = [found(middle + rng.standard_normal(size)) for _ in range(2000)]
    agreed = np.mean([region.holds(found.low, found.high) for found in draws])
    power = np.mean([claims.verdict(found, region, published)[1] for found in draws])
    assert abs(agreed - power) < 0.05
    # What the text's own number contradicts has no power to agree with it.
    assert math.isnan(claims.verdict(draws[0], region, -1.0)[1])


@pytest.mark.parametrize("text", ["", "0.5", "= 3", "> much", "1 .. "])
def test_a_damaged_region_is_named(text):
    with pytest.raises(claims.ClaimError, match="expected '> a'"):
        Region.parse(text)


def test_intervals_are_those_of_scipy():
    values = [0.1, 0.4, 0.2, 0.7]
    found = claims.mean(values)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    found = claims.share(7, 20)
    assert (found.low, found.high) == pytest.approx((0.15390, 0.59219), abs=1e-5)
    found = claims.difference([1.0, 2.0, 3.0], [0.0, 0.5])
    assert found.value == pytest.approx(1.75)
    assert (found.low, found.high) == pytest.approx((-0.41865, 3.91865), abs=1e-4)


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_intervals_of_correlations_cover(rho):
    rng = np.random.default_rng(1)
    inside = 0
    truth = 6 / math.pi * math.asin(rho / 2)  # Spearman's of a normal pair
    for _ in range(400):
        one, noise = rng.standard_normal((2, 24))
        found = claims.correlation(one, rho * one + math.sqrt(1 - rho**2) * noise)
        inside += found.low < truth < found.high
    assert inside / 400 > 0.92


def test_one_value_gives_no_interval():
    for found in (claims.mean([0.3]), claims.difference([1.0], [2.0, 3.0]), claims.share(0, 0)):
        assert math.isnan(found.low)
        assert found.note


def test_values_that_are_not_finite_are_called_so():
    for found in (
        claims.mean([0.3, -math.inf]),
        claims.geometric_mean([0.0, 1.0]),
        claims.difference([1.0, math.nan], [2.0] * 2),
    ):
        assert math.isnan(found.low)
        assert "gave no finite value" in found.note


def test_an_extreme_says_nothing_where_one_of_its_parts_does():
    known, unknown = Finding(1, 0.5, 1.5), claims.unable("not run")
    assert claims.smallest([known, Finding(2, 0.1, 4)]).low == 0.1
    assert claims.largest([known, Finding(2, 0.1, 4)]).high == 4
    # That one of two exceeds a bound could be said of either: its end is farther out than its own interval's.
    assert claims.largest([known, known]).low < 0.5 == claims.largest([known]).low
    assert claims.smallest([known, unknown]).note == "not run"


def test_simulated_results_judge_nothing():
    experiment, judges = next(iter(Judges.everywhere.items()))
    judged = judges(xr.Dataset(attrs={"profile": "simulated"}))
    assert len(judged) == len(judges.judges), experiment
    assert set(judged["verdict"]) == {claims.UNTESTABLE}


def test_the_list_of_claims_is_complete_in_itself():
    listed = claims.claims()
    assert listed["id"].is_unique
    for column in ("text", "section", "said", "quantity", "region", "refuted_by"):
        assert (listed[column] != "").all(), column
    assert set(listed["artefact"]) <= set(artefacts()["id"])
    assert not listed["said"].str.contains("  ").any()


def test_an_unknown_or_second_judge_is_refused():
    judges = Judges("of this test")
    try:
        with pytest.raises(claims.ClaimError, match=r"no claim 'nothing'.*claims.csv"):
            judges.add("nothing", print, false=print)
        with pytest.raises(claims.ClaimError, match="two judges"):
            judges.add(JUDGED[0][1], print, false=print)
    finally:
        del Judges.everywhere["of this test"]


def test_two_sets_of_judges_of_one_name_are_refused():
    """One would hide the other from the tests of false data."""
    name = next(iter(Judges.everywhere))
    with pytest.raises(claims.ClaimError, match=f"two sets of judges are called '{name}'"):
        Judges(name)


@pytest.mark.parametrize(("experiment", "claim"), JUDGED)
def test_a_judge_is_not_persuaded_by_data_in_which_its_claim_is_false(experiment, claim):
    judges = Judges.everywhere[experiment]
    region = Region.parse(claims.claims().loc[claim, "region"])
    rng = np.random.default_rng(20)
    said = [
        claims.verdict(judges.judges[claim](judges.false[claim](rng)), region)[0]
        for _ in range(DRAWS)
    ]
    assert said.count(claims.AGREES) <= 0.05 * DRAWS
    # The judge did look: false data must not merely be unreadable to it.
    assert said.count(claims.UNTESTABLE) < DRAWS / 2


@pytest.mark.parametrize(
    ("experiment", "claim"),
    [(n, c) for n, judges in Judges.everywhere.items() for c in judges.true],
)
def test_a_judge_is_persuaded_by_data_in_which_its_claim_is_true(experiment, claim):
    judges = Judges.everywhere[experiment]
    region = Region.parse(claims.claims().loc[claim, "region"])
    rng = np.random.default_rng(21)
    said = [
        claims.verdict(judges.judges[claim](judges.true[claim](rng)), region)[0] for _ in range(8)
    ]
    assert said.count(claims.AGREES) >= 6


def test_a_claim_under_two_readings_asks_for_both():
    rng = np.random.default_rng(3)
    soon, late = (claims_irnn._memory({"iRNN K=10": steps})(rng) for steps in (200.0, 700.0))
    ours = np.flatnonzero(late["label"].to_series().str.startswith("iRNN"))
    minus = late.isel(run=ours)
    minus = minus.assign(label=minus["label"].astype(object) + claims_irnn.MINUS)
    both = xr.concat(
        [soon, minus.assign_coords(run=minus["run"].astype(object) + claims_irnn.MINUS)], "run"
    )
    judge = claims_irnn.memory.judges["irnn-4.2-twice"]
    region = Region.parse(claims.claims().loc["irnn-4.2-twice", "region"])
    assert claims.verdict(judge(soon), region)[0] == claims.AGREES
    assert claims.verdict(judge(both), region)[0] == claims.UNDECIDED


def test_digits_judge_nothing_of_the_factorial():
    judges = Judges.everywhere["factorial"]
    ds = judges.false["diss-1.5.2-robust"](np.random.default_rng(4))
    judged = judges(ds.assign_coords(dataset=["digits"]))
    assert set(judged["verdict"]) == {claims.UNTESTABLE}
    assert judged["note"].str.contains("digits stands in").all()


def test_claims_that_hold_on_a_shuffled_metric_are_marked_as_claims_of_no_effect():
    """What the twelve models say of accuracies that have nothing to do with the metric supports no claim of an effect."""
    rng = np.random.default_rng(5)
    draws, agreed = 10, {}
    for draw in range(draws):
        ds = claims_tenet._drawn(True, draw).ds.copy(deep=True)
        size = ds["status"].size
        metric = ds["adjoint_first"].values.reshape(size, -1)[rng.permutation(size)]
        ds["adjoint_first"].values[:] = metric.reshape(ds["adjoint_first"].shape)
        for judges in claims_tenet.JUDGES.values():
            judged = judges(claims_tenet.Evidence(ds))
            for row in judged[judged["verdict"] == claims.AGREES].itertuples():
                agreed[row.id] = agreed.get(row.id, 0) + 1
    listed = claims.claims()
    often = {claim for claim, count in agreed.items() if count > 0.3 * draws}
    assert often, "the metric explains too little to see what a claim of no effect says of it"
    assert listed.loc[list(often), "no_effect"].all(), often


def test_a_claim_of_no_effect_says_what_would_have_been_found():
    found = Finding(0.004, 0.0, 0.008)
    note = claims.judged_row("diss-3.5-training-alone", found)["note"]
    # 0.008 wide is an error of 0.00204, and 1.96 + 0.84 of these would be found in four cases out of five.
    assert "claim of no effect" in note and "0.0057 from 0" in note
    assert claims.judged_row("diss-3.5-terminal-sign", found)["note"] == ""
    assert not claims.claims().loc["diss-3.5-terminal-mild", "no_effect"]


@pytest.mark.parametrize(
    "experiment",
    [n for n in Judges.everywhere if (REFERENCE / f"{n.partition(',')[0]}.nc").exists()],
)
def test_stored_results_are_judged(experiment):
    with xr.open_dataset(REFERENCE / f"{experiment.partition(',')[0]}.nc") as ds:
        judged = Judges.everywhere[experiment](ds.load())
    assert list(judged["id"]) == list(Judges.everywhere[experiment].judges)
    assert set(judged["verdict"]) <= set(claims.VERDICTS)
    assert len(claims.sentences(judged)) == len(judged)
