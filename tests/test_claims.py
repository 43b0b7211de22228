"""Claims: the rule, the intervals, and that no judge and no verb is persuaded by data in which its claim is false."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from drawn import FALSE, IN_NOTEBOOKS, JUDGES, TRUE, deciding, evidence, failing
from refusals import refused
from scipy import stats
from statsmodels.stats.multitest import multipletests
from study.paths import DATA, NOTEBOOKS
from study.results import claims
from study.results.claims import Finding, Region
from study.results.datasets import load
from study.results.published import artefacts
from study.stats.claims_factorial import Evidence
from study.stats.verbs import VERBS, Networks, find, judged

DRAWS = 40
REFERENCE = DATA / "reference" / "real"
LISTED = claims.claims()
WITH_VERB = LISTED.query("verb != ''")
GATED = LISTED.loc["unicornn-4-imdb-gated"]
FEW, MANY = claims.share(0, 6), claims.share(0, 100)
KNOWN = pd.read_csv(DATA.parent / "tests/data/verdicts.csv", index_col="id")["verdict"]
FIRST_OF_VERB = list(WITH_VERB.drop_duplicates("verb")["id"])


def found_in(ds, claim):
    return find(Networks(ds, measure=claim["measure"]), claim)


def said_of(claim, finding):
    return claims.verdict(finding, Region.parse(LISTED.loc[claim, "region"]))[0]


# the rule


def between(low, high):
    return Finding((low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("finding", "region", "published", "expected"),
    [
        (between(0.6, 0.9), "> 0.5", math.nan, claims.AGREES),
        (between(0.1, 0.5), "> 0.5", math.nan, claims.DIFFERS),
        (between(0.4, 0.6), "> 0.5", math.nan, claims.UNDECIDED),
        (between(0.0, 0.0), "> 0", math.nan, claims.DIFFERS),
        (between(-3.0, 0.019), "< 0.02", math.nan, claims.AGREES),
        (between(0.02, 0.03), "< 0.02", math.nan, claims.DIFFERS),
        (between(0.03, 0.12), "0.02 .. 0.13", math.nan, claims.AGREES),
        (between(0.01, 0.12), "0.02 .. 0.13", math.nan, claims.UNDECIDED),
        (between(0.14, 0.2), "0.02 .. 0.13", math.nan, claims.DIFFERS),
        (between(math.nan, math.nan), "-0.3 .. 0.3", math.nan, claims.UNTESTABLE),
        (Finding(2, 1.6, math.inf), "> 1.5", 2.0, claims.AGREES),  # more than could be seen
        (Finding(1.2, 1.1, math.inf), "> 1.5", 2.0, claims.UNDECIDED),
        (Finding(1.2, 1.1, math.inf), "< 1.0", math.nan, claims.DIFFERS),
        (Finding(0.3, 0.0, 0.35, ratio=True), "> 1.5", 2.0, claims.DIFFERS),
        # What could hardly have agreed with the text's own number is no test.
        (between(-2.5, -0.5), "> 0", 5.0, claims.DIFFERS),
        (between(-2.5, -0.5), "> 0", 0.1, claims.UNTESTABLE),
        (between(0.5, 2.5), "> 0", 0.1, claims.AGREES),
        (between(-1.0, 1.2), "> 0", 0.2, claims.UNTESTABLE),
        (between(-1.0, 1.2), "> 0", 3.0, claims.UNDECIDED),
        (claims.share(3, 3), "> 0.5", math.nan, claims.UNTESTABLE),  # at best 0.29 .. 1
        (claims.share(4, 6), "> 0.5", math.nan, claims.UNDECIDED),
        (claims.share(6, 6), "> 0.5", math.nan, claims.AGREES),
        # Nor were the best case of all of them, whatever their order.
        (claims.largest([MANY, FEW]), "< 0.05", math.nan, claims.UNTESTABLE),
        (claims.largest([FEW, MANY]), "< 0.05", math.nan, claims.UNTESTABLE),
        (claims.largest([MANY, MANY]), "< 0.05", math.nan, claims.AGREES),
        (claims.smallest([FEW, MANY]), "> 0", 0.02, claims.UNTESTABLE),
        (claims.smallest([MANY, MANY]), "> 0", 0.02, claims.UNDECIDED),
    ],
)
def test_the_interval_decides(finding, region, published, expected):
    assert claims.verdict(finding, Region.parse(region), published)[0] == expected


def test_a_reservation_leaves_undecided_what_it_is_about():
    sure, unsure = Finding(2, 1, 3), Finding(2, 1, 3, reservation="three seeds")
    below, unsure_below = Finding(-2, -3, -1), Finding(-3, -4, -2, reservation="three seeds")
    for parts, said in (
        ([sure, sure], claims.AGREES),
        ([sure, unsure], claims.UNDECIDED),
        ([below, unsure], claims.DIFFERS),  # one that does not suffices
        ([unsure_below, sure], claims.UNDECIDED),
        ([unsure_below, below], claims.DIFFERS),
    ):
        assert claims.verdict(claims.smallest(parts), Region.parse("> 0"))[0] == said
    near = Finding(0, -1, 1, reservation="three seeds")
    for parts, said in (([sure, near], claims.AGREES), ([below, unsure_below], claims.UNDECIDED)):
        assert claims.verdict(claims.largest(parts), Region.parse("> 0"))[0] == said


@pytest.mark.parametrize(("region", "ratio"), [("> 0", False), ("0.5 .. 2", True)])
def test_p_is_below_a_twentieth_exactly_where_the_interval_holds_no_border(region, ratio):
    region, rng = Region.parse(region), np.random.default_rng(6)
    for _ in range(200):
        low, high = np.sort(rng.normal(0.5, 1, 2))
        finding = between(low, high)
        finding = claims.exponential(finding) if ratio else finding
        ends = finding.low, finding.high
        decided = region.holds(*ends) or region.misses(*ends)
        assert (claims.p_value(finding, region) < 0.05) == decided


def test_holm_corrects_within_a_text():
    p = np.random.default_rng(0).random(20) ** 3
    found = claims.holm_adjusted(pd.Series([*p, np.nan]))
    np.testing.assert_allclose(found, [*multipletests(p, method="holm")[1], np.nan])
    ids = ["lem-fhn-factor", "lem-fhn-best", "lem-fhn-single", "unicornn-4-imdb-lead"]
    rows = pd.DataFrame({"id": ids, "verdict": claims.AGREES, "p": [0.001, 0.02, 0.04, 0.04]})
    assert set(claims.holm(rows)) == {claims.AGREES}  # .003, .04, .04 and .04
    lost = [claims.AGREES, *[claims.UNDECIDED] * 3]
    assert claims.holm(rows.assign(p=[0.001, 0.03, 0.04, 0.06])).tolist() == lost


@pytest.mark.parametrize(
    ("found", "region", "published"),
    [
        (lambda rng: claims.mean(0.5 + rng.standard_normal(30)), "> 0", 0.5),
        (lambda rng: claims.geometric_mean(np.exp(2 * rng.standard_normal(30))), "0.4 .. 2.5", 1.0),
        (lambda rng: claims.share(rng.binomial(20, 0.8), 20), "> 0.5", 0.8),
        (lambda rng: claims.magnitude(claims.mean(3 * rng.standard_normal(30))), "< 1.5", 0.0),
    ],
    ids=["difference", "ratio", "share", "magnitude"],
)
def test_power_is_how_often_such_an_experiment_agrees(found, region, published):
    region, rng = Region.parse(region), np.random.default_rng(0)
    draws = [found(rng) for _ in range(400)]
    agreed = np.mean([region.holds(found.low, found.high) for found in draws])
    power = np.mean([claims.verdict(found, region, published)[1] for found in draws])
    assert abs(agreed - power) < 0.06
    # What the text's own number contradicts has no power to agree with it.
    assert math.isnan(claims.verdict(draws[0], region, -1.0 if published else 9.0)[1])


def test_the_power_of_a_share_of_variance_does_not_hang_on_the_share_found():
    """Intervals found where six per cent are explained tell how often one would agree if it were half a per cent."""

    def explained(truth, n=1500):
        x, noise = rng.standard_normal((2, n))
        r = np.corrcoef(x, truth**0.5 * x + (1 - truth) ** 0.5 * noise)[0, 1]
        half = claims.Z * (1 - r**2) / n**0.5
        ends = (end * abs(end) for end in (r, r - half, r + half))
        return claims.Finding(*ends, of_variance=True)

    rng, region = np.random.default_rng(0), Region.parse("< 0.02")
    agreed = np.mean([region.holds(one.low, one.high) for one in map(explained, [0.005] * 400)])
    power = np.mean([claims.verdict(explained(0.06), region, 0.005)[1] for _ in range(20)])
    assert abs(agreed - power) < 0.1
    assert claims.verdict(explained(0.06), region, 0.005)[0] == claims.DIFFERS


# intervals


def test_intervals_are_those_of_scipy():
    values = [0.1, 0.4, 0.2, 0.7]
    found = claims.mean(values)
    expected = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected)
    for successes, trials in ((7, 20), (0, 5), (5, 5)):
        found = claims.share(successes, trials)
        expected = stats.binomtest(successes, trials).proportion_ci(0.95)
        assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-12)
    ours, others = [1.0, 2.0, 3.0], [0.0, 0.5]
    found = claims.difference(ours, others)
    welch = stats.ttest_ind(ours, others, equal_var=False).confidence_interval(0.95)
    assert (found.value, found.low, found.high) == pytest.approx((1.75, *welch))


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_intervals_of_correlations_cover(rho):
    rng, inside = np.random.default_rng(1), 0
    truth = 6 / math.pi * math.asin(rho / 2)  # Spearman's of a normal pair
    for _ in range(400):
        one, noise = rng.standard_normal((2, 24))
        found = claims.correlation(one, rho * one + math.sqrt(1 - rho**2) * noise)
        inside += found.low < truth < found.high
    assert 0.92 < inside / 400 < 0.98


@pytest.mark.parametrize("found, why", [
    (lambda: claims.mean([0.3]), "fewer than two"),
    (lambda: claims.difference([1.0], [2.0, 3.0]), "fewer than two"),
    (lambda: claims.share(0, 0), "no trial"),
    (lambda: claims.mean([0.3, -math.inf]), "gave no finite value"),
    (lambda: claims.geometric_mean([0.0, 1.0]), "gave no finite value"),
    (lambda: claims.difference([1.0, math.nan], [2.0] * 2), "gave no finite value"),
    (lambda: claims.correlation(range(6), [1] * 6), "hardly vary"),
    (lambda: claims.smallest([Finding(1, 0.5, 1.5), claims.unable("not run")]), "not run"),
    (lambda: claims.largest([]), "nothing was measured"),
    (lambda: claims.correlation([*range(5), math.nan], range(6)), "have no number"),
])  # fmt: skip
def test_where_nothing_can_be_said_the_reason_is(found, why):
    assert math.isnan(found().low) and why in found().note


def test_an_extreme_has_the_widest_ends():
    known = Finding(1, 0.5, 1.5)
    assert claims.smallest([known, Finding(2, 0.1, 4)]).low == 0.1
    assert claims.largest([known, Finding(2, 0.1, 4)]).high == 4
    # That one of two exceeds a bound could be said of either: its end is farther out than its own interval's.
    assert claims.largest([known, known]).low < 0.5 == claims.largest([known]).low
    few = claims.mean(np.array([0.9, 1.0, 1.1]))  # of two degrees of freedom, in an extreme too
    p = stats.ttest_1samp([0.9, 1.0, 1.1], 0.5).pvalue
    for found in (few, claims.smallest([few, Finding(2, 1.5, 2.5)])):
        assert claims.p_value(found, Region.parse("> 0.5")) == pytest.approx(p)
    both = few, Finding(5, 0.2, 9.8)  # the larger, of which less is known
    surely, less = (claims.p_value(one, Region.parse("> 0.1")) for one in both)
    assert claims.p_value(claims.smallest(both), Region.parse("> 0.1")) == less
    assert claims.p_value(claims.largest(both), Region.parse("< 0.1")) == 2 * surely
    pair, above = (Finding(15, 12, 18), Finding(5.1, 3, 7)), Region.parse("> 5")  # one suffices
    assert claims.p_value(claims.largest(pair), above) == 2 * claims.p_value(pair[0], above)
    assert claims.p_value(Finding(0, 0, 0), Region.parse("> 0")) == 1  # two that are always right
    logs = [few, claims.mean([0.2, 0.3, 0.5])]  # of ratios: widened on their scale
    of_ratios = claims.largest([*map(claims.exponential, logs)])
    assert math.log(of_ratios.low) == pytest.approx(claims.largest(logs).low)


# the list


def test_every_claim_is_whole_and_has_one_judge():
    assert LISTED["id"].is_unique
    for column in ("text", "section", "said", "quantity", "region", "refuted_by"):
        assert (LISTED[column] != "").all(), column
    assert set(LISTED["artefact"]) <= set(artefacts()["id"])
    assert set(WITH_VERB["verb"]) <= set(VERBS) and (WITH_VERB["group"] != "").all()
    own = [claim for judges in JUDGES.values() for claim in judges]
    assert sorted(own) == sorted(FALSE)
    assert sorted([*own, *IN_NOTEBOOKS, *WITH_VERB["id"]]) == sorted(LISTED["id"])
    judging = "".join(path.read_text("utf-8") for path in NOTEBOOKS.glob("5[45]_*.ipynb"))
    assert all(claim in judging for claim in IN_NOTEBOOKS)


def judged_as(**change):
    """Return what is found of a claim with other words in some columns, on data in which it is true."""
    return found_in(true_of(GATED), pd.Series({**GATED, **change}))


test_a_damaged_claim_is_named = refused(
    claims.ClaimError,
    *[("expected '> a'", lambda text=text: Region.parse(text)) for text in ("", "0.5", "1 ..")],
    ("expected one of lead", lambda: judged_as(verb="beats")),
    ("is 'big'; expected '> a'", lambda: judged_as(region="big")),
    ("judge each", lambda: judged_as(region="1 .. 2", one="A;B")),
    ("about the group 'imdb'; .*reviews", lambda: judged(true_of(GATED), "imdb")),
)


def true_of(row, **more):
    return evidence(row, np.random.default_rng(1), true=True, **more)


# false and true data


@pytest.mark.parametrize("claim", [*FALSE, *IN_NOTEBOOKS])
def test_a_judge_is_not_persuaded_by_data_in_which_its_claim_is_false(claim):
    rng = np.random.default_rng(20)
    own = [judges[claim] for judges in JUDGES.values() if claim in judges]
    judge = own[0] if own else lambda found: found
    found = [judge((FALSE.get(claim) or IN_NOTEBOOKS[claim])(rng)) for _ in range(DRAWS)]
    assert sum(said_of(claim, one) == claims.AGREES for one in found) <= 0.05 * DRAWS
    # The judge did look: false data must not merely be unreadable to it.
    assert sum(math.isnan(one.low) for one in found) < DRAWS / 2


@pytest.mark.parametrize("claim", TRUE)
def test_a_judge_is_persuaded_by_data_in_which_its_claim_is_true(claim):
    (judge,) = (judges[claim] for judges in JUDGES.values() if claim in judges)
    rng = np.random.default_rng(21)
    assert [said_of(claim, judge(TRUE[claim](rng))) for _ in range(2)] == [claims.AGREES] * 2


@pytest.mark.parametrize("claim", WITH_VERB["id"])
def test_a_verb_is_persuaded_by_true_data_and_not_by_false(claim):
    def said(true, draws):
        row, rng = WITH_VERB.loc[claim], np.random.default_rng(20 + true)
        found = (found_in(evidence(row, rng, true=true), row) for _ in range(draws))
        return [said_of(claim, one) for one in found]

    draws = DRAWS if claim in FIRST_OF_VERB else 5  # the rest says that each row means its region
    false = said(False, draws)
    assert false.count(claims.AGREES) <= max(1, 0.05 * draws)
    assert false.count(claims.UNTESTABLE) < draws / 2
    assert said(True, 2) == [claims.AGREES] * 2


def test_few_trainings_decide_nothing():
    row = LISTED.loc["unicornn-4-ncifar-lstm"]
    few = found_in(true_of(row, replicates=3), row)
    assert said_of(row["id"], few) == claims.UNDECIDED
    note = claims.judged_row(row["id"], few)["note"]
    assert "would be “agrees”, but 3 trainings on a side where 5 are asked for" in note


@pytest.mark.parametrize("profile", claims.TOYS)
def test_toys_judge_nothing(profile):
    toy = xr.Dataset(attrs={"profile": profile})
    for judge in (*JUDGES.values(), lambda ds: judged(ds, "pixels")):
        found = judge(toy)
        assert set(found["verdict"]) == {claims.UNTESTABLE}
        assert found["note"].str.contains(profile).all()


def test_digits_judge_nothing_of_the_factorial():
    ds = failing()(np.random.default_rng(4)).assign_coords(dataset=["digits"])
    found = JUDGES["factorial"](ds)
    assert set(found["verdict"]) == {claims.UNTESTABLE}
    assert found["note"].str.contains("digits stands in").all()


def test_all_attempts_of_the_four_tell_that_none_fails():
    found = JUDGES["factorial"]["diss-1.5.2-fragile"](failing()(np.random.default_rng(4)))
    assert found.value == found.low == 0 and found.high < 0.006 < 0.009 < claims.share(0, 400).high


# claims of no effect


def test_claims_that_hold_on_a_shuffled_metric_are_marked_as_claims_of_no_effect():
    """What the twelve models say of accuracies that have nothing to do with the metric supports no claim of an effect."""
    rng, draws, agreed = np.random.default_rng(5), 10, []
    for _ in range(draws):
        ds = deciding(True)(rng).ds.copy(deep=True)
        size = ds["status"].size
        metric = ds["adjoint_first"].values.reshape(size, -1)[rng.permutation(size)]
        ds["adjoint_first"].values[:] = metric.reshape(ds["adjoint_first"].shape)
        shuffled = Evidence(ds)
        for name in (name for name in JUDGES if "models" in name):
            agreed += JUDGES[name](shuffled).query("verdict == @claims.AGREES")["id"].tolist()
    counts = pd.Series(agreed).value_counts()
    often = counts.index[counts > 0.3 * draws]
    assert len(often), "the metric explains too little to see what a claim of no effect says of it"
    assert LISTED.loc[often, "no_effect"].all(), often


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(-0.001, 0.008, claims.NO_EFFECT), (0.002, 0.01, claims.WITHIN), (0.03, 0.05, claims.DIFFERS)],
)
def test_a_claim_of_no_effect_says_what_would_have_been_found(low, high, said):
    row = claims.judged_row("diss-3.5-training-alone", between(low, high))
    assert f"**{said}**" in claims.sentences(pd.DataFrame([row]))[0]
    assert row["null_is"] == ("inside" if low < 0 else "outside")
    assert ("shuffled" in row["note"]) == (said != claims.DIFFERS)
    # An interval has 3.92 errors, and 1.96 + 0.84 of these would be found in four cases out of five.
    found = f"distance of {2.8016 / 3.9199 * (high - low):.2g} from 0 would"
    assert (found in row["note"]) == (said != claims.DIFFERS)
    sign = claims.judged_row("diss-3.5-terminal-sign", between(0, 0.008))
    assert "four cases" not in sign["note"]
    assert not LISTED.loc["diss-3.5-terminal-mild", "no_effect"]


@pytest.mark.parametrize(("low", "times"), [(-0.004, 4.6), (-0.001, 2.5), (-0.1, 4.6)])
def test_what_is_undecided_says_what_it_would_take(low, times):
    found = between(low, 0.02)
    note = claims.judged_row("diss-3.5-terminal-sign", found)["note"]
    assert f"about {times} times as large" in note
    error = (found.high - found.low) / 2 / claims.Z / math.sqrt(times)
    drawn = np.random.default_rng(1).normal(abs(found.value), error, 4000)
    assert np.mean(drawn > claims.Z * error) == pytest.approx(claims.DETECTED, abs=0.03)


# stored results


ASKED = [(name, judges, [*judges]) for name, judges in JUDGES.items()]
ASKED += [(key, partial(judged, group=key), [*of.index]) for key, of in WITH_VERB.groupby("group")]


@pytest.mark.parametrize(("name", "judge", "ids"), ASKED, ids=[name for name, *_ in ASKED])
def test_stored_results_are_judged(name, judge, ids):
    path = REFERENCE / f"{name.partition(',')[0]}.nc"
    if not path.exists():
        assert name == "worms", path
        pytest.skip("the archive of the worms is not at hand")
    found = judge(load(path))
    assert found["id"].tolist() == ids
    assert found["verdict"].tolist() == KNOWN[ids].tolist(), "mend tests/data/verdicts.csv, README"
    assert len(claims.sentences(found)) == len(found)
