"""Claims: the rule, the intervals, and that no judge and no verb is persuaded by data in which its claim is false."""

import importlib
import math
import pkgutil

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from drawn import evidence
from scipy import stats

import lib.analysis
from lib.analysis import claims_tenet
from lib.analysis.verbs import VERBS, find, judged
from lib.paths import DATA
from lib.results import claims
from lib.results.claims import Finding, Judges, Region
from lib.results.published import artefacts

for module in pkgutil.iter_modules(lib.analysis.__path__):
    importlib.import_module(f"lib.analysis.{module.name}")

DRAWS = 40
JUDGED = [(name, claim) for name, judges in Judges.everywhere.items() for claim in judges.judges]
REFERENCE = DATA / "reference" / "real"
WITH_VERB = claims.claims().query("verb != ''")
FIRST_OF_VERB = list(WITH_VERB.drop_duplicates("verb")["id"])


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


def test_power_guards_what_differs_as_it_does_what_is_undecided():
    region, differs = Region.parse("> 0"), Finding(-1.5, -2.5, -0.5)
    assert claims.verdict(differs, region, 5.0)[0] == claims.DIFFERS
    assert claims.verdict(differs, region, 0.1)[0] == claims.UNTESTABLE
    assert claims.verdict(Finding(1.5, 0.5, 2.5), region, 0.1)[0] == claims.AGREES


def test_a_reservation_leaves_undecided_what_it_is_about():
    region = Region.parse("> 0")
    sure, unsure = Finding(2, 1, 3), Finding(2, 1, 3, reservation="three seeds")
    below, unsure_below = Finding(-2, -3, -1), Finding(-2, -3, -1, reservation="three seeds")
    for parts, said in (
        ([sure, sure], claims.AGREES),
        ([sure, unsure], claims.UNDECIDED),
        ([below, unsure], claims.DIFFERS),  # one that does not suffices
        ([unsure_below, sure], claims.UNDECIDED),
        ([unsure_below, below], claims.DIFFERS),
    ):
        assert claims.verdict(claims.smallest(parts), region)[0] == said


@pytest.mark.parametrize(("region", "ratio"), [("> 0", False), ("0.5 .. 2", True)])
def test_p_is_below_a_twentieth_exactly_where_the_interval_holds_no_border(region, ratio):
    region, rng = Region.parse(region), np.random.default_rng(6)
    for _ in range(200):
        low, high = np.sort(rng.normal(0.5, 1, 2))
        finding = Finding((low + high) / 2, low, high)
        finding = claims.exponential(finding) if ratio else finding
        decided = region.holds(finding.low, finding.high) or region.misses(
            finding.low, finding.high
        )
        assert (claims.p_value(finding, region) < 0.05) == decided


def test_holm_corrects_within_a_text():
    ids = ["lem-fhn-factor", "lem-fhn-best", "lem-fhn-single", "unicornn-4-imdb-lead"]
    rows = pd.DataFrame({"id": ids, "verdict": claims.AGREES, "p": [0.001, 0.02, 0.04, 0.04]})
    expected = [claims.AGREES, claims.AGREES, claims.AGREES, claims.AGREES]
    assert claims.holm(rows).tolist() == expected  # .003, .04, .04 and .04
    rows["p"] = [0.001, 0.03, 0.04, 0.06]
    expected[1:] = [claims.UNDECIDED] * 3
    assert claims.holm(rows).tolist() == expected


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


@pytest.mark.parametrize("profile", claims.TOYS)
def test_toys_judge_nothing(profile):
    toy = xr.Dataset(attrs={"profile": profile})
    for judges in Judges.everywhere.values():
        verdicts = judges(toy)
        assert len(verdicts) == len(judges.judges)
        assert set(verdicts["verdict"]) == {claims.UNTESTABLE}
    found = judged(toy, "pixels")
    assert (
        set(found["verdict"]) == {claims.UNTESTABLE} and found["note"].str.contains(profile).all()
    )


def test_the_list_of_claims_is_complete_in_itself():
    listed = claims.claims()
    assert listed["id"].is_unique
    for column in ("text", "section", "said", "quantity", "region", "refuted_by"):
        assert (listed[column] != "").all(), column
    assert set(listed["artefact"]) <= set(artefacts()["id"])
    assert not listed["said"].str.contains("  ").any()
    assert set(WITH_VERB["verb"]) <= set(VERBS) and (WITH_VERB["group"] != "").all()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"verb": "beats"}, "expected one of lead"),
        ({"region": "big"}, "expected '> a'"),
        ({"region": "1 .. 2", "one": "A;B"}, "judge each"),
    ],
)
def test_a_damaged_row_is_named(change, word):
    row = claims.claims().loc["unicornn-4-imdb-gated"]
    ds = evidence(row, np.random.default_rng(0), true=True)
    with pytest.raises(claims.ClaimError, match=word):
        find(ds, pd.Series({**row, **change}))


def test_an_unknown_group_and_network_are_named():
    row = claims.claims().loc["unicornn-4-imdb-gated"]
    ds = evidence(row, np.random.default_rng(0), true=True)
    with pytest.raises(claims.ClaimError, match=r"no claim is about the group 'imdb'; .*reviews"):
        judged(ds, "imdb")
    assert find(ds, pd.Series({**row, "one": "UniCORN"})).note == "not trained: UniCORN"


def test_an_unknown_or_second_judge_is_refused():
    judges = Judges("of this test")
    try:
        with pytest.raises(claims.ClaimError, match=r"no claim 'nothing'.*claims.csv"):
            judges.add("nothing", print, false=print)
        with pytest.raises(claims.ClaimError, match="two judges"):
            judges.add(JUDGED[0][1], print, false=print)
        with pytest.raises(claims.ClaimError, match="or its verb"):
            judges.add(FIRST_OF_VERB[0], print, false=print)
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
    found = [judges.judges[claim](judges.false[claim](rng)) for _ in range(DRAWS)]
    said = [claims.verdict(one, region)[0] for one in found]
    assert said.count(claims.AGREES) <= 0.05 * DRAWS
    # The judge did look: false data must not merely be unreadable to it.
    assert sum(math.isnan(one.low) for one in found) < DRAWS / 2


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


def _said(claim, *, true, draws, seed):
    row, rng = WITH_VERB.loc[claim], np.random.default_rng(seed)
    region = Region.parse(row["region"])
    found = [find(evidence(row, rng, true=true), row) for _ in range(draws)]
    return [claims.verdict(one, region)[0] for one in found]


@pytest.mark.parametrize("claim", WITH_VERB["id"])
def test_a_verb_is_not_persuaded_by_data_in_which_its_claim_is_false(claim):
    draws = DRAWS if claim in FIRST_OF_VERB else 5  # the rest says that each row means its region
    said = _said(claim, true=False, draws=draws, seed=20)
    assert said.count(claims.AGREES) <= max(1, 0.05 * draws)
    assert said.count(claims.UNTESTABLE) < draws / 2


@pytest.mark.parametrize("claim", WITH_VERB["id"])
def test_a_verb_is_persuaded_by_data_in_which_its_claim_is_true(claim):
    assert _said(claim, true=True, draws=2, seed=21) == [claims.AGREES] * 2


def test_three_trainings_a_side_decide_nothing():
    row = claims.claims().loc["unicornn-4-ncifar-lstm"]
    few = find(evidence(row, np.random.default_rng(1), true=True, replicates=3), row)
    assert claims.verdict(few, Region.parse(row["region"]))[0] == claims.UNDECIDED
    note = claims.judged_row(row["id"], few)["note"]
    assert "would be “agrees”, but 3 trainings on a side where 5 are asked for" in note


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
    row = claims.judged_row("diss-3.5-training-alone", Finding(0.004, 0.0, 0.008))
    # 0.008 wide is an error of 0.00204, and 1.96 + 0.84 of these would be found in four cases out of five.
    assert "claim of no effect: shuffled data agree as well" in row["note"]
    assert "0.0057 from 0" in row["note"]
    assert claims.judged_row("diss-3.5-terminal-sign", Finding(0.004, 0.0, 0.008))["note"] == ""
    assert not claims.claims().loc["diss-3.5-terminal-mild", "no_effect"]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-0.001, 0.008, claims.NO_EFFECT),
        (0.002, 0.008, claims.WITHIN),
        (0.03, 0.05, claims.DIFFERS),
    ],
)
def test_no_effect_is_found_only_where_none_is_in_the_interval(low, high, said):
    row = claims.judged_row("diss-3.5-training-alone", Finding((low + high) / 2, low, high))
    assert f"**{said}**" in claims.sentences(pd.DataFrame([row]))[0]
    assert row["null_inside"] == (low < 0)
    assert ("shuffled" in row["note"]) == (said != claims.DIFFERS)


@pytest.mark.parametrize("group", sorted(set(WITH_VERB["group"])))
def test_stored_results_are_judged(group):
    path = REFERENCE / f"{group}.nc"
    if not path.exists():
        pytest.skip(f"no results of {group} are stored")
    with xr.open_dataset(path) as ds:
        found = judged(ds.load(), group)
    assert list(found["id"]) == list(WITH_VERB.loc[WITH_VERB["group"] == group, "id"])
    assert set(found["verdict"]) <= set(claims.VERDICTS)
    assert len(claims.sentences(found)) == len(found)


@pytest.mark.parametrize(
    "experiment",
    [n for n in Judges.everywhere if (REFERENCE / f"{n.partition(',')[0]}.nc").exists()],
)
def test_judges_judge_stored_results(experiment):
    with xr.open_dataset(REFERENCE / f"{experiment.partition(',')[0]}.nc") as ds:
        found = Judges.everywhere[experiment](ds.load())
    assert list(found["id"]) == list(Judges.everywhere[experiment].judges)
    assert set(found["verdict"]) <= set(claims.VERDICTS)
