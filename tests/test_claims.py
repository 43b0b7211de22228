"""Claims: how intervals decide them, thresholds, and corrections for many claims."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from check_quotations import is_verbatim, letters
from claim_verdicts import (
    CLAIMS,
    between,
)
from scipy import stats
from statsmodels.stats.multitest import multipletests
from study.claims import extremes, intervals
from study.claims.comparisons import magnitude
from study.claims.correction import (
    benjamini_hochberg_adjusted,
    corrected_verdicts,
    holm_adjusted,
    p_value,
)
from study.claims.error_rates import robust_error_rate
from study.claims.estimates import ByVerdict, Cause, Estimate, Scale, not_testable
from study.claims.intervals import proportion
from study.claims.judging import (
    judged_row,
    sentences,
)
from study.claims.power import distance, normal_power, power_to_agree, to_symmetric_scale
from study.claims.region import Region, Threshold
from study.claims.verdict import (
    AGREES,
    DIFFERS,
    ENOUGH_POWER,
    NO_EFFECT,
    UNDECIDED,
    UNTESTABLE,
    WITHIN,
    Sensitivity,
    decide,
    displayed_verdict,
    sensitivity,
    verdict_on,
)
from study.stats.power import DETECTED, Z

FEW = proportion(0, 6)
MANY = proportion(0, 100)


# the rule


def test_quotations_are_marked_as_such():
    """The papers are not here; `check_quotations.py` compares the words with them."""
    for claim in CLAIMS.values():
        outside = re.sub(r"\[[^]]*\]", "", claim.quoted)
        assert "[" not in outside and "]" not in outside, claim.id
        assert "here:" not in outside, f"{claim.id} quotes a remark of ours"
    text = "LEM beats [the LSTM], which [...] forgets"
    assert is_verbatim(text, letters("*LEM*<sup>1</sup> beats it, which for-\ngets, forgets"))
    assert not is_verbatim(text, letters("LEM beats it, which forgot"))
    assert not is_verbatim(text, letters("which forgets. LEM beats"))


@pytest.mark.parametrize(
    ("finding", "region", "published", "expected"),
    [
        (between(0.6, 0.9), Region(above=0.5), math.nan, AGREES),
        (between(0.1, 0.5), Region(above=0.5), math.nan, DIFFERS),
        (between(0.4, 0.6), Region(above=0.5), math.nan, UNDECIDED),
        (between(0.0, 0.0), Region(above=0), math.nan, DIFFERS),
        (between(-3.0, 0.019), Region(below=0.02), math.nan, AGREES),
        (between(0.02, 0.03), Region(below=0.02), math.nan, DIFFERS),
        (between(0.03, 0.12), Region(above=0.02, below=0.13), math.nan, AGREES),
        (between(0.01, 0.12), Region(above=0.02, below=0.13), math.nan, UNDECIDED),
        (between(0.14, 0.2), Region(above=0.02, below=0.13), math.nan, DIFFERS),
        (between(math.nan, math.nan), Region(above=-0.3, below=0.3), math.nan, UNTESTABLE),
        (Estimate(2, 1.6, math.inf), Region(above=1.5), 2.0, AGREES),  # more than could be seen
        (Estimate(1.2, 1.1, math.inf), Region(above=1.5), 2.0, UNDECIDED),
        (Estimate(1.2, 1.1, math.inf), Region(below=1.0), math.nan, DIFFERS),
        (Estimate(0.3, 0.0, 0.35, ratio=True), Region(above=1.5), 2.0, DIFFERS),
        # Low power to agree with the paper's number takes nothing from an interval that decides.
        (between(-2.5, -0.5), Region(above=0), 5.0, DIFFERS),
        (between(-2.5, -0.5), Region(above=0), 0.1, DIFFERS),
        (between(0.5, 2.5), Region(above=0), 0.1, AGREES),
        # What leaves the claim open, and could hardly have agreed, is no test.
        (between(-1.0, 1.2), Region(above=0), 0.2, UNTESTABLE),
        (between(-1.0, 1.2), Region(above=0), 3.0, UNDECIDED),
        (proportion(3, 3), Region(above=0.5), math.nan, UNTESTABLE),  # at best 0.29 .. 1
        (proportion(4, 6), Region(above=0.5), math.nan, UNDECIDED),
        (proportion(6, 6), Region(above=0.5), math.nan, AGREES),
        # Nor were the best case of all of them, whatever their order.
        (extremes.largest([MANY, FEW]), Region(below=0.05), math.nan, UNTESTABLE),
        (extremes.largest([FEW, MANY]), Region(below=0.05), math.nan, UNTESTABLE),
        (extremes.largest([MANY, MANY]), Region(below=0.05), math.nan, AGREES),
        (extremes.smallest([FEW, MANY]), Region(above=0), 0.02, UNTESTABLE),
        (extremes.smallest([MANY, MANY]), Region(above=0), 0.02, UNDECIDED),
    ],
)
def test_the_interval_decides(finding, region, published, expected):
    assert decide(finding, region, published).verdict == expected


def test_a_caveat_leaves_its_claim_undecided():
    sure = Estimate(2, 1, 3)
    unsure = Estimate(2, 1, 3, undecided_because=("three seeds",))
    below = Estimate(-2, -3, -1)
    unsure_below = Estimate(-3, -4, -2, undecided_because=("three seeds",))
    for parts, outcome in (
        ([sure, sure], AGREES),
        ([sure, unsure], UNDECIDED),
        ([below, unsure], DIFFERS),  # one that does not suffices
        ([unsure_below, sure], UNDECIDED),
        ([unsure_below, below], DIFFERS),
    ):
        assert decide(extremes.smallest(parts), Region(above=0)).verdict == outcome
    near = Estimate(0, -1, 1, undecided_because=("three seeds",))
    for parts, outcome in (([sure, near], AGREES), ([below, unsure_below], UNDECIDED)):
        assert decide(extremes.largest(parts), Region(above=0)).verdict == outcome


@pytest.mark.parametrize(
    ("region", "ratio"), [(Region(above=0), False), (Region(above=0.5, below=2), True)]
)
def test_p_agrees_with_the_interval(region, ratio):
    rng = np.random.default_rng(6)
    for _ in range(200):
        low, high = np.sort(rng.normal(0.5, 1, 2))
        finding = between(low, high)
        finding = intervals.exponential(finding) if ratio else finding
        ends = finding.low, finding.high
        decided = region.contains(*ends) or region.excludes(*ends)
        assert (p_value(finding, region) < 0.05) == decided


def test_p_values_of_shares_are_exact():
    """Twelve of twelve against one half is a tail of 2^-12 on either side."""
    assert p_value(proportion(12, 12), Region(above=0.5)) == pytest.approx(2 * 0.5**12)
    assert p_value(proportion(24, 24), Region(above=0.8)) == pytest.approx(2 * 0.8**24)
    # Of a region with two ends, the end that is harder to exclude counts.
    assert p_value(proportion(12, 12), Region(above=0.2, below=0.8)) == pytest.approx(2 * 0.8**12)
    # None of ten is likely if the odds are as in the other group, or a third of that.
    none = intervals.odds_ratio((0, 10), (3, 60))
    expected = 2 * stats.nchypergeom_fisher(70, 10, 3, 1.0).cdf(0)
    assert p_value(none, Region(above=1.0)) == pytest.approx(min(1.0, expected))
    assert p_value(none, Region(above=0.03)) == 1.0


def _random_share(rng):
    trials = int(rng.integers(3, 40))
    return proportion(int(rng.binomial(trials, rng.random())), trials)


def _random_odds_ratio(rng):
    return intervals.odds_ratio((int(rng.integers(0, 21)), 20), (int(rng.integers(1, 30)), 30))


def _random_correlation(rng):
    one, other = rng.standard_normal((2, 9))
    return intervals.correlation(one, 0.8 * one + other)


def _extreme_share(rng, extreme):
    return extreme([_random_share(rng) for _ in range(3)])


ABOVE = ("above",)
BOTH = ("above", "below")


@pytest.mark.parametrize(
    ("draw", "thresholds", "sides"),
    [
        (_random_share, (0.1, 0.5, 0.8), BOTH),
        (_random_odds_ratio, (0.3, 1.0, 3.0), BOTH),
        (_random_correlation, (0.0, 0.3), BOTH),
        (lambda rng: magnitude(_random_correlation(rng)), (0.3,), BOTH),
        (lambda rng: _extreme_share(rng, extremes.smallest), (0.1, 0.5, 0.8), ABOVE),
        (lambda rng: _extreme_share(rng, extremes.largest), (0.1, 0.5, 0.8), BOTH),
    ],
)
def test_exact_p_values_agree_with_the_interval(draw, thresholds, sides):
    rng = np.random.default_rng(9)
    for _ in range(60):
        finding = draw(rng)
        for threshold in thresholds:
            for side in sides:
                region = Region(**{side: threshold})
                ends = (finding.low, finding.high)
                decided = region.contains(*ends) or region.excludes(*ends)
                assert (p_value(finding, region) < 0.05) == decided, (finding, region)


def test_holm_corrects_within_a_paper():
    p = np.random.default_rng(0).random(20) ** 3
    estimate = holm_adjusted(pd.Series([*p, np.nan]))
    np.testing.assert_allclose(estimate, [*multipletests(p, method="holm")[1], np.nan])
    ids = ["lem-fhn-factor", "lem-fhn-best", "lem-fhn-single", "unicornn-4-imdb-lead"]
    rows = pd.DataFrame({"id": ids, "verdict": AGREES, "p": [0.001, 0.02, 0.04, 0.04]})
    assert set(corrected_verdicts(rows)) == {AGREES}  # .003, .04, .04 and .04
    lost = [AGREES, *[UNDECIDED] * 3]
    assert corrected_verdicts(rows.assign(p=[0.001, 0.03, 0.04, 0.06])).tolist() == lost


def test_a_correction_withdraws_both_verdicts_and_changes_no_other():
    rows = pd.DataFrame({"id": ["lem-fhn-factor", "lem-fhn-best", "lem-fhn-single"]})
    rows = rows.assign(verdict=[DIFFERS, UNTESTABLE, AGREES], p=[0.04, 0.5, 0.001])
    # Holm's p-values are .08, .5 and .003.
    assert corrected_verdicts(rows).tolist() == [UNDECIDED, UNTESTABLE, AGREES]


@pytest.mark.parametrize(
    ("estimate", "region", "published"),
    [
        (lambda rng: intervals.mean(0.5 + rng.standard_normal(30)), Region(above=0), 0.5),
        (
            lambda rng: intervals.geometric_mean(np.exp(2 * rng.standard_normal(30))),
            Region(above=0.4, below=2.5),
            1.0,
        ),
        # An interval of five runs is wide for its standard error.
        (lambda rng: intervals.mean(rng.standard_normal(5)), Region(above=-2, below=2), 0.0),
        (lambda rng: proportion(rng.binomial(20, 0.8), 20), Region(above=0.5), 0.8),
        (
            lambda rng: magnitude(intervals.mean(3 * rng.standard_normal(30))),
            Region(below=1.5),
            0.0,
        ),
    ],
    ids=["difference", "ratio", "few runs", "share", "magnitude"],
)
def test_power_is_the_rate_of_agreement(estimate, region, published):
    rng = np.random.default_rng(0)
    draws = [estimate(rng) for _ in range(400)]
    agreed = np.mean([region.contains(estimate.low, estimate.high) for estimate in draws])
    power = np.mean([decide(estimate, region, published).power for estimate in draws])
    assert abs(agreed - power) < 0.06
    # A claim that the paper's own number contradicts has no power to agree.
    assert math.isnan(decide(draws[0], region, -1.0 if published else 9.0).power)


def test_only_a_verdict_that_takes_all_parts_has_the_product_of_their_powers():
    """One of two quantities above zero suffices for the largest, but not for the smallest."""
    parts = [Estimate(2, 1, 3, power_at=lambda *_, share=share: share) for share in (0.5, 0.8)]
    parts[1] = replace(parts[1], value=2.5)
    above = Region(above=0)
    assert power_to_agree(extremes.smallest(parts), above, 1.0) == pytest.approx(0.4)
    of_largest = extremes.largest(parts)
    expected = normal_power(of_largest, above, 1.0)
    assert power_to_agree(of_largest, above, 1.0) == expected != pytest.approx(0.4)


def test_a_threshold_is_as_far_as_the_arm_on_its_side_is_long():
    estimate = Estimate(2, 1, 5)
    assert distance(estimate, Region(above=0)) == pytest.approx(Z * 2 / 1)
    assert distance(estimate, Region(below=8)) == pytest.approx(Z * 6 / 3)
    assert distance(estimate, Region(above=0, below=3)) == pytest.approx(Z * 1 / 3)


def test_shares_of_variance_are_compared_by_their_roots_with_their_signs():
    share = Estimate(0.01, -0.01, 0.09, of_variance=True)
    numbers, ends = to_symmetric_scale(share, Region(above=-0.25, below=0.25), 0.04)
    assert numbers.tolist() == pytest.approx([-0.1, 0.1, 0.3, 0.2])
    assert ends.tolist() == pytest.approx([-0.5, 0.5])


def test_the_power_of_a_ratio_without_a_lower_end_has_the_error_of_the_upper_one():
    """The upper end is log 2 above the true value, as is the end of the region above that."""
    estimate = Estimate(1.0, 0.0, 2.0, ratio=True)
    assert normal_power(estimate, Region(below=4.0), 1.0) == pytest.approx(0.975)


def test_power_does_not_depend_on_the_estimated_variance():
    """Intervals found at 6% of the variance give the power at half a percent."""

    def explained(truth, n=1500):
        x, noise = rng.standard_normal((2, n))
        r = np.corrcoef(x, truth**0.5 * x + (1 - truth) ** 0.5 * noise)[0, 1]
        half = Z * (1 - r**2) / n**0.5
        ends = (end * abs(end) for end in (r, r - half, r + half))
        return Estimate(*ends, of_variance=True)

    rng = np.random.default_rng(0)
    region = Region(below=0.02)
    agreed = np.mean([region.contains(one.low, one.high) for one in map(explained, [0.005] * 400)])
    power = np.mean([decide(explained(0.06), region, 0.005).power for _ in range(20)])
    assert abs(agreed - power) < 0.1
    assert decide(explained(0.06), region, 0.005).verdict == DIFFERS


def _equal_networks(rng, difference):
    """Return the difference of two networks with five runs each and much noise."""
    return intervals.difference(difference + 4 * rng.standard_normal(5), 4 * rng.standard_normal(5))


def _most_different_pair(rng, difference):
    return extremes.largest([magnitude(_equal_networks(rng, difference)) for _ in range(6)])


WIDE_INTERVALS = [
    (_equal_networks, Region(above=-1, below=1), 0.99),
    (_most_different_pair, Region(below=2), 1.99),
]
"""Estimates, the regions of claims that networks are equal, and a difference that is just inside.

These intervals are too wide to lie inside, so that no experiment of this size can agree.
"""


@pytest.mark.parametrize(("estimate", "region", "inside"), WIDE_INTERVALS)
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_an_interval_too_wide_to_agree_rarely_differs_from_a_true_claim(
    estimate, region, inside, share
):
    rng = np.random.default_rng(7)
    verdicts = [decide(estimate(rng, share * inside), region, 0.0) for _ in range(400)]
    assert np.mean([verdict.power for verdict in verdicts]) < 0.01
    assert np.mean([verdict.verdict == DIFFERS for verdict in verdicts]) < 0.05
    left = {verdict.cause for verdict in verdicts if verdict.verdict != DIFFERS}
    assert left == {Cause.TOO_SMALL}


@pytest.mark.parametrize(("estimate", "region", "inside"), WIDE_INTERVALS)
def test_an_interval_too_wide_to_agree_differs_from_a_false_claim(estimate, region, inside):
    rng = np.random.default_rng(8)
    for _ in range(20):
        assert decide(estimate(rng, 40.0), region, 0.0).verdict == DIFFERS


def test_a_claim_that_could_hardly_agree_and_differs_says_so():
    row = judged_row("irnn-4.3.2-antisymmetric", between(3.0, 9.0))
    assert (row["verdict"], row["objection"]) == (DIFFERS, "")
    assert row["note"] == (
        "the interval excludes the claim, although even if the paper is right, "
        "an experiment of this size would agree less than 1% of the time"
    )
    assert row["at_half"] == DIFFERS


# intervals


def test_intervals_are_those_of_scipy():
    values = [0.1, 0.4, 0.2, 0.7]
    estimate = intervals.mean(values)
    expected = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (estimate.low, estimate.high) == pytest.approx(expected)
    for successes, trials in ((7, 20), (0, 5), (5, 5)):
        estimate = proportion(successes, trials)
        expected = stats.binomtest(successes, trials).proportion_ci(0.95)
        assert (estimate.low, estimate.high) == pytest.approx(tuple(expected), abs=1e-12)
    ours = [1.0, 2.0, 3.0]
    others = [0.0, 0.5]
    estimate = intervals.difference(ours, others)
    welch = stats.ttest_ind(ours, others, equal_var=False).confidence_interval(0.95)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1.75, *welch))


def test_the_interval_of_a_correlation_is_that_of_bonett_and_wright():
    """Three pairs of six ranks are exchanged, so rho is 1 - 6 * 6 / (6 * 35)."""
    estimate = intervals.correlation([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5])
    rho = 1 - 36 / 210
    half = Z * math.sqrt((1 + rho**2 / 2) / (6 - 3))
    ends = math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((rho, *ends))
    assert estimate.exact.p_value(1.0) == estimate.exact.p_value(-1.0) == 0


def test_an_error_of_the_test_set_adds_squares_and_degrees_of_freedom():
    """Half of the squared width is known exactly, so 4 degrees of freedom become 4 / (1/2)^2."""
    widened = intervals.add_standard_error(Estimate(5, 4, 6, df=4), 1 / Z)
    assert (widened.low, widened.high) == pytest.approx((5 - math.sqrt(2), 5 + math.sqrt(2)))
    assert (widened.sampled, widened.df) == pytest.approx((0.5, 16))


def _covers(rng, runs, failing):
    """Return whether the interval of a lead holds it, if a share of one network's runs fails."""
    first = rng.standard_normal(runs) - 10 * (rng.random(runs) < failing)
    lead = intervals.difference(first, 0.3 * rng.standard_normal(runs))
    return lead.low < -10 * failing < lead.high


@pytest.mark.parametrize(
    ("runs", "failing", "coverage"),
    [(5, 0.0, 0.95), (5, 0.5, 0.94), (5, 0.2, 0.70), (10, 0.2, 0.89)],
)
def test_intervals_of_leads_cover_unless_failures_are_rare(runs, failing, coverage):
    """`study.claims.undecided` and data/readme/README.md state these numbers."""
    rng = np.random.default_rng(12)
    covered = [_covers(rng, runs, failing) for _ in range(800)]
    assert np.mean(covered) == pytest.approx(coverage, abs=0.04)


def _decided_at_some_time(rng):
    """Return whether equal networks differ after 5, 10, 15 or 30 runs of each."""
    first, second = rng.standard_normal((2, 30))
    for runs in (5, 10, 15, 30):
        lead = intervals.difference(first[:runs], second[:runs])
        if not lead.low < 0 < lead.high:
            return True
    return False


def test_adding_runs_until_a_claim_is_decided_decides_too_often():
    """data/readme/README.md states this number."""
    rng = np.random.default_rng(13)
    decided = [_decided_at_some_time(rng) for _ in range(800)]
    assert np.mean(decided) == pytest.approx(0.14, abs=0.035)


@pytest.mark.parametrize("first", [(0, 101), (4, 101), (30, 40)])
def test_intervals_of_odds_ratios_are_exact(first):
    second = (138, 450)
    estimate = intervals.odds_ratio(first, second)
    successes = first[0] + second[0]
    margins = (first[1] + second[1], first[1], successes)
    at_high = stats.nchypergeom_fisher(*margins, estimate.high)
    assert at_high.cdf(first[0]) == pytest.approx(0.025, rel=1e-3)
    if first[0]:
        at_low = stats.nchypergeom_fisher(*margins, estimate.low)
        assert at_low.sf(first[0] - 1) == pytest.approx(0.025, rel=1e-3)
        assert estimate.low < estimate.value < estimate.high
    else:
        assert estimate.low == estimate.value == 0


def test_power_of_odds_ratios_is_the_agreement_rate():
    rng = np.random.default_rng(3)
    region = Region(above=0.5)
    share = 2 * 0.25 / (0.75 + 2 * 0.25)  # the odds of 1 in 3, doubled
    drawn = [
        intervals.odds_ratio((int(rng.binomial(60, share)), 60), (50, 200)) for _ in range(400)
    ]
    agreed = np.mean([region.contains(one.low, one.high) for one in drawn])
    assert decide(drawn[0], region, 2.0).power == pytest.approx(agreed, abs=0.06)


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_intervals_of_correlations_cover(rho):
    rng = np.random.default_rng(1)
    inside = 0
    truth = 6 / math.pi * math.asin(rho / 2)  # Spearman's of a normal pair
    for _ in range(400):
        one, noise = rng.standard_normal((2, 24))
        estimate = intervals.correlation(one, rho * one + math.sqrt(1 - rho**2) * noise)
        inside += estimate.low < truth < estimate.high
    assert 0.92 < inside / 400 < 0.98


@pytest.mark.parametrize("estimate, why", [
    (lambda: intervals.mean([0.3]), "at least two runs"),
    (lambda: intervals.difference([1.0], [2.0, 3.0]), "at least two runs"),
    (lambda: proportion(0, 0), "no trial"),
    (lambda: intervals.odds_ratio((0, 0), (1, 5)), "is empty"),
    (lambda: intervals.odds_ratio((0, 4), (0, 5)), "have the same outcome"),
    (lambda: intervals.mean([0.3, -math.inf]), "gave no finite value"),
    (lambda: intervals.geometric_mean([0.0, 1.0]), "gave no finite value"),
    (lambda: intervals.difference([1.0, math.nan], [2.0] * 2), "gave no finite value"),
    (lambda: intervals.correlation(range(6), [1] * 6), "five points that vary"),
    (
        lambda: extremes.smallest(
            [Estimate(1, 0.5, 1.5), not_testable("not run", Cause.NO_DATA)]
        ),
        "not run",
    ),
    (lambda: extremes.largest([]), "nothing was measured"),
    (lambda: intervals.correlation([*range(5), math.nan], range(6)), "missing value"),
])  # fmt: skip
def test_estimates_without_data_give_the_reason(estimate, why):
    assert math.isnan(estimate().low) and why in estimate().notes[0]


def test_untrained_architectures_are_named_in_order():
    ds = xr.Dataset(coords={"architecture": ["rnn", "lstm"]})
    untrained = "not trained: exponential, antisymmetric, unicornn"
    assert robust_error_rate(ds).notes == (untrained,)  # not in the order of a set


def test_an_extreme_has_the_widest_interval():
    known = Estimate(1, 0.5, 1.5)
    assert extremes.smallest([known, Estimate(2, 0.1, 4)]).low == 0.1
    assert extremes.largest([known, Estimate(2, 0.1, 4)]).high == 4
    # Either of two could exceed a bound, so the end is farther out than its own interval's.
    assert extremes.largest([known, known]).low < 0.5 == extremes.largest([known]).low
    few = intervals.mean(np.array([0.9, 1.0, 1.1]))  # of two degrees of freedom, in an extreme too
    p = stats.ttest_1samp([0.9, 1.0, 1.1], 0.5).pvalue
    for estimate in (few, extremes.smallest([few, Estimate(2, 1.5, 2.5)])):
        assert p_value(estimate, Region(above=0.5)) == pytest.approx(p)
    both = few, Estimate(5, 0.2, 9.8)  # the larger, of which less is known
    surely, less = (p_value(one, Region(above=0.1)) for one in both)
    assert p_value(extremes.smallest(both), Region(above=0.1)) == less
    assert p_value(extremes.largest(both), Region(below=0.1)) == 2 * surely
    pair = (Estimate(15, 12, 18), Estimate(5.1, 3, 7))
    above = Region(above=5)  # one suffices
    assert p_value(extremes.largest(pair), above) == 2 * p_value(pair[0], above)
    assert p_value(Estimate(0, 0, 0), Region(above=0)) == 1  # two that are always right
    logs = [few, intervals.mean([0.2, 0.3, 0.5])]  # of ratios: widened on their scale
    of_ratios = extremes.largest([*map(intervals.exponential, logs)])
    assert math.log(of_ratios.low) == pytest.approx(extremes.largest(logs).low)


def test_one_of_two_with_few_runs_is_widened_by_students_t():
    values = [0.9, 1.0, 1.1]
    few = intervals.mean(values)
    half = stats.t.isf(0.025 / 2, 2) * stats.sem(values)  # Bonferroni's correction for two
    assert extremes.largest([few, few]).low == pytest.approx(1 - half)
    assert extremes.smallest([few, few]).high == pytest.approx(1 + half)


def test_an_extreme_has_the_size_of_the_deciding_part_and_the_fewest_steps():
    small = Estimate(1, 0, 2, Scale(width=8, steps=100, data="digits"), n=10, notes=("small",))
    large = Estimate(2, 1, 3, Scale(width=16, steps=50, data="IMDB"), n=20, notes=("large",))
    of_smallest = extremes.smallest([small, large])
    of_largest = extremes.largest([small, large])
    assert of_smallest.scale == Scale(width=8, steps=50, data="digits, IMDB")
    assert of_largest.scale == Scale(width=16, steps=50, data="digits, IMDB")
    assert of_smallest.n == of_largest.n == 10
    assert of_smallest.notes == of_largest.notes == ("small", "large")


# thresholds of ours


@pytest.mark.parametrize(
    ("name", "low", "high", "expected"),
    [
        ("diss-3.5-training-alone", 0.001, 0.005, (AGREES, AGREES)),
        ("diss-3.5-training-alone", 0.012, 0.015, (DIFFERS, AGREES)),
        ("diss-3.5-training-range", 0.001, 0.005, ("", "")),  # the paper's own threshold
        ("irnn-4.3.2-antisymmetric", -0.8, 0.8, (UNTESTABLE, AGREES)),
        ("diss-1.5.2-variance-explained", 0.7, 0.75, (AGREES, DIFFERS)),  # odds of 2 and of 8
    ],
)
def test_verdicts_at_half_and_double_the_threshold(name, low, high, expected):
    assert sensitivity(between(low, high), CLAIMS[name]) == expected


@pytest.mark.parametrize(
    ("thresholds", "words", "differ_from"),
    [
        (Sensitivity("", ""), "", ()),
        (Sensitivity(AGREES, AGREES), "at half and at twice agrees", (DIFFERS,)),
        (
            Sensitivity(UNTESTABLE, AGREES),
            "at half not testable, at twice agrees",
            (AGREES, UNTESTABLE),
        ),
        (Sensitivity(AGREES, UNDECIDED), "at half agrees, at twice undecided", (AGREES, UNDECIDED)),
    ],
)
def test_verdicts_at_other_thresholds_in_words(thresholds, words, differ_from):
    assert thresholds.describe() == words
    assert all(map(thresholds.differs_from, differ_from))
    assert thresholds.differs_from(AGREES) == (AGREES in differ_from)


@pytest.mark.parametrize(
    ("threshold", "half", "double"),
    [
        (Threshold(scale="odds"), 2 / 3, 8 / 9),  # odds of 4, 2 and 8
        (Threshold(scale="ratio", origin=0.2), 0.4, 3.2),  # ratios of 4, 2 and 16
        (Threshold(scale="linear", origin=0.4), 0.6, 1.2),
    ],
)
def test_thresholds_are_halved_and_doubled_on_their_scale(threshold, half, double):
    assert threshold.scaled(0.8, 0.5) == pytest.approx(half)
    assert threshold.scaled(0.8, 2.0) == pytest.approx(double)


@pytest.mark.parametrize(("origin", "ends"), [(1, (0.5**0.5, 2**0.5)), (0, (0.25, 1.0))])
def test_thresholds_are_scaled_from_their_origin(origin, ends):
    claim = CLAIMS["lem-fhn-single"]
    scale = "ratio" if origin else "linear"
    threshold = claim.threshold.model_copy(update={"origin": origin, "scale": scale})
    region = claim.region.scaled(0.5, threshold)
    assert (region.above, region.below) == pytest.approx(ends)


def test_the_border_of_an_effect_is_no_threshold_of_ours():
    """Half of "above 1" would be "above 1/2", which is another claim."""
    for claim in CLAIMS.values():
        if claim.threshold is None:
            continue
        borders = {claim.null, 0.0}
        if claim.unit.startswith("times "):
            borders.add(1.0)
        assert not borders & {claim.region.above, claim.region.below}, claim.id


def test_a_threshold_is_the_cause_if_another_decides():
    claim = CLAIMS["diss-3.5-terminal-factors"]  # within .04; the paper has .018
    wide = between(0.0, 0.079)
    assert verdict_on(wide, claim).cause is Cause.THRESHOLD
    assert verdict_on(between(-0.2, 0.3), claim).cause is Cause.TOO_SMALL
    # Or if it differs at twice the threshold, 6, and is still open at half of it, 1.5.
    factor = CLAIMS["lem-fhn-factor"].model_copy(update={"published": 3.1})
    ratio = Estimate(2.2, 1.4, 3.5, ratio=True)
    assert sensitivity(ratio, factor) == (UNDECIDED, DIFFERS)
    assert verdict_on(ratio, factor).cause is Cause.THRESHOLD
    # Short runs are the cause, although the claim would agree at twice the threshold.
    near = claim.model_copy(update={"published": 0.039})
    short = replace(between(0.045, 0.079), too_short=ByVerdict(to_differ=("ten of 20 steps",)))
    assert sensitivity(short, near).at_double == AGREES
    assert verdict_on(short, near).power < ENOUGH_POWER
    assert verdict_on(short, near).cause is Cause.TOO_SMALL


# corrections


def test_the_false_discovery_rate_is_that_of_statsmodels():
    p = np.random.default_rng(0).random(20) ** 3
    estimate = benjamini_hochberg_adjusted(pd.Series([*p, np.nan]))
    np.testing.assert_allclose(estimate, [*multipletests(p, method="fdr_bh")[1], np.nan])
    assert benjamini_hochberg_adjusted(pd.Series([np.nan])).isna().all()
    rows = pd.DataFrame({"id": ["lem-fhn-factor", "lem-fhn-best", "lem-fhn-single"]})
    rows = rows.assign(verdict=AGREES, p=[0.01, 0.03, 0.04])
    assert corrected_verdicts(rows).tolist() == [AGREES, UNDECIDED, UNDECIDED]
    assert set(corrected_verdicts(rows, "benjamini_hochberg")) == {AGREES}


# claims of no effect


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.001, 0.008, NO_EFFECT), (0.002, 0.01, WITHIN), (0.03, 0.05, DIFFERS)],
)
def test_null_claims_state_the_detectable_effect(low, high, verdict):
    row = judged_row("diss-3.5-training-alone", between(low, high))
    assert f"**{verdict}**" in sentences(pd.DataFrame([row]))[0]
    assert row["null_is"] == ("inside" if low < 0 else "outside")
    assert ("shuffled" in row["note"]) == (verdict != DIFFERS)
    # An interval has 3.92 errors, and 1.96 + 0.84 of these are detected with 80% power.
    effect = f"detectable with 80% power: {2.8016 / 3.9199 * (high - low):.2g}"
    assert (effect in row["note"]) == (verdict != DIFFERS)
    assert "80% power" not in judged_row("diss-3.5-terminal-sign", between(0, 0.008))["note"]
    assert not CLAIMS["diss-3.5-terminal-mild"].denies_effect


@pytest.mark.parametrize(("low", "noted"), [(-0.001, True), (0.01, False)])
def test_undecided_null_claims_state_the_detectable_effect_if_none_was_found(low, noted):
    row = judged_row("diss-3.5-training-alone", between(low, 0.021))
    assert row["verdict"] == UNDECIDED
    assert ("claim of no effect; smallest effect detectable" in row["note"]) == noted


def test_a_rise_is_not_counted_as_little_or_no_effect():
    """The claim denies a lag by a point or more, and has no effect at zero."""
    claim = CLAIMS["unicornn-4-imdb-gated"]
    assert claim.denies_effect and claim.region == Region(above=-1)
    counted = {}
    for name, low, high in (("rise", 27, 39), ("none", -0.9, 1), ("small fall", -0.9, -0.5)):
        row = judged_row(claim.id, between(low, high))
        assert row["verdict"] == AGREES
        counted[name] = displayed_verdict(row["verdict"], claim.denies_effect, row["null_is"])
        assert ("claim of no effect" in row["note"]) == (name != "rise")
    assert counted == {"rise": AGREES, "none": NO_EFFECT, "small fall": WITHIN}


@pytest.mark.parametrize(
    ("low", "high", "caveat"),
    [
        (1.6, 1.9, "not robust: at half of our threshold, the verdict would be “agrees”"),
        (1.4, 1.9, ""),  # undecided at half of the threshold, which is 1.5
        (3.1, 7.0, ""),  # undecided at twice the threshold, which is 6
    ],
)
def test_a_caveat_says_that_another_threshold_reverses_the_verdict(low, high, caveat):
    assert CLAIMS["lem-fhn-factor"].region.above == 3
    assert judged_row("lem-fhn-factor", between(low, high))["caveat"] == caveat
    reversed_at_double = "not robust: at twice our threshold, the verdict would be “agrees”"
    row = judged_row("diss-3.5-reverse-training-size", between(11, 19))
    assert row["caveat"] == reversed_at_double


@pytest.mark.parametrize(
    ("name", "low", "high", "note"),
    [
        ("lem-5-ptbchar-gated", 0.06, 0.09, "the interval excludes the paper's value, 0.11"),
        ("lem-5-ptbchar-gated", 0.06, 0.12, ""),
        ("lem-5-ptbchar-gated", -0.2, -0.1, ""),
        (
            "diss-3.5-training-range",
            0.05,
            0.12,
            "the paper's own value, 0.066, contradicts its claim and lies in our interval",
        ),
        (
            "diss-3.5-training-range",
            0.08,
            0.12,
            "the paper's own value, 0.066, contradicts its claim",
        ),
    ],
)
def test_a_note_compares_the_interval_with_the_papers_value(name, low, high, note):
    assert judged_row(name, between(low, high))["note"] == note


def test_two_runs_are_too_few_for_any_effect_to_be_clear():
    estimate = replace(between(-286.0, 486.0), df=1.0)
    note = judged_row("diss-3.5-terminal-sign", estimate)["note"]
    assert "if the true value is our estimate, an experiment with a few more runs would" in note


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (Estimate(1.2, 1.1, math.inf), "the interval has no upper bound, so the size that would"),
        (Estimate(1.5, 1.1, 1.9), "the estimate lies exactly on the threshold, where no"),
    ],
)
def test_no_size_is_stated_if_none_is_known(finding, words):
    verdict = decide(finding, Region(above=1.5), 9.0)
    assert verdict.verdict == UNDECIDED
    assert verdict.reason.startswith(words)


@pytest.mark.parametrize(
    ("high", "size"),
    [
        # Estimates of .1 and .25 have standard errors of .561 and .638; 2.80 of them are needed.
        (1.2, "more than a hundred times as large"),
        (1.5, "about 51 times as large"),
    ],
)
@pytest.mark.parametrize(("sampled", "end"), [(0.4, ""), (0.6, "; most of the uncertainty")])
def test_what_would_decide_names_the_size_and_the_finite_test_set(high, size, sampled, end):
    undecided = replace(between(-1.0, high), sampled=sampled)
    reason = decide(undecided, Region(above=0), 9.0).reason
    assert f"an experiment {size} would decide{end}" in reason
    assert ("test set" in reason) == bool(end)


@pytest.mark.parametrize(("low", "times"), [(-0.004, 4.6), (-0.001, 2.5), (-0.1, 4.6)])
def test_undecided_claims_state_the_size_needed(low, times):
    estimate = between(low, 0.02)
    note = judged_row("diss-3.5-terminal-sign", estimate)["note"]
    assert f"about {times} times as large" in note
    error = (estimate.high - estimate.low) / 2 / Z / math.sqrt(times)
    drawn = np.random.default_rng(1).normal(abs(estimate.value), error, 4000)
    assert np.mean(drawn > Z * error) == pytest.approx(DETECTED, abs=0.03)
