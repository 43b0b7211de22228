"""Comparisons of networks with intervals, and what stands against a verdict on them."""

import math

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from random_groups import RECORD, group_sampler
from scipy import stats
from study.claims import training_steps
from study.claims.claim import NetworkSelection
from study.claims.comparisons import UNSETTLED
from study.claims.cross_fitting import optimism_of_rate
from study.claims.estimates import gather, write_reasons
from study.claims.estimating import ESTIMATORS, estimate_claim
from study.claims.extremes import smallest
from study.claims.intervals import difference
from study.claims.networks import Networks
from study.claims.region import Region
from study.claims.sampling import (
    error_of_mean,
    patients_in_test,
    sampling_error,
    sampling_variance,
)
from study.claims.scores_over_runs import WITH_SAMPLING
from study.claims.short_runs import shorter_than_paper
from study.claims.standings import leads_over, standing_among
from study.claims.testable import refuse_claim, refuse_without_control
from study.claims.tuning import still_falling
from study.claims.undecided import one_rate_at_chance, rate_from_test_part
from study.claims.verdict import decide
from study.paths import DATA
from study.results import networks
from study.results.datasets import load
from study.results.networks import tuned
from study.results.runs import in_measure, run_table
from study.results.schema import DIVERGED, NOT_PLANNED
from study.stats.power import Z
from test_tuning import at_rates, made_claim

SCORE = (*RECORD[:2], "test_sequence")
DIGITS = '{"dataset": "digits"}'
LEVELS = {"good": 80.0, "fair": 70.0, "poor": 10.0}
PARTS = ("test", "validation")


def _draw(scores=LEVELS, spread=0.5, **more):
    return group_sampler(scores, spread=spread, **more)(np.random.default_rng(0))


def ask(networks, estimator, *names):
    """Return what an estimator estimates for one network, or for two."""
    learners = {"lead": names[:1], "ratio": names[:1], "longer": names[1:]}.get(estimator, ())
    return refuse_claim(networks, names, learners) or ESTIMATORS[estimator].estimate(
        networks, *names
    )


def test_leads_are_ahead_behind_or_undecided():
    networks = Networks(_draw({**LEVELS, "alike": 70.0}))
    leads = leads_over(networks, "fair", ["good", "alike", "poor"])
    assert standing_among(leads) == "behind good; undecided against alike, poor"
    leads = leads.set_index("rival")
    # Nobody is ahead of a network at chance whose learning rate was not tuned.
    why = "poor is at chance, and only one learning rate was tried"
    assert leads.loc["poor", "note"] == why
    assert leads.loc["good", "high"] < 0 < leads.loc["poor", "low"]
    assert standing_among(leads_over(networks, "good", ["fair"])) == "ahead of fair"
    absent = leads_over(networks, "good", ["never trained"])
    assert absent["note"].tolist() == ["not trained: never trained"]
    assert absent["lead"].isna().all()


@pytest.mark.parametrize("validated", [True, False])
def test_leads_say_whether_networks_still_improved(validated):
    """The validation metric decides; without one, the test metric at the last record."""
    end = _draw()
    end = end.assign(validation_metric=end["test_metric"] * (1 if validated else np.nan))
    worse = end.assign({f"{part}_metric": end[f"{part}_metric"] - 0.2 for part in PARTS})
    for records, note in (((worse, end), UNSETTLED), ((end, worse), "")):
        ds = xr.concat(records, "record", data_vars="minimal").assign(records=2 * end["records"])
        assert ask(Networks(ds), "lead", "good", "fair").notes == gather(note)
        last = ds["test_metric"].isel(record=-1).values.ravel()
        assert (run_table(ds)["test"] == last).all() == (not validated or note == UNSETTLED)


@pytest.mark.parametrize("names", [("good", "fair"), ("fair", "good")])
def test_a_lead_says_that_one_of_the_networks_still_improved(names):
    ds = _draw(spread=1e-3)
    change = xr.where(ds["label"] == "good", 0.05, -0.05) * xr.DataArray([0, 1], dims="record")
    networks = Networks(_recorded(ds, ds["test_metric"].isel(record=0) + change))
    notes = ask(networks, "lead", *names).notes
    assert UNSETTLED in notes
    # At the records that validate best the accuracies are 85 and 70%, at the last 85 and 65%.
    at_end = "+20" if names[0] == "good" else "-20"
    last = f"at the last record, the lead of {names[0]} over {names[1]} is {at_end}"
    assert last in notes


def _recorded(ds, score):
    """Return runs of ten steps with these scores in their records."""
    score = score.transpose(*RECORD)
    records = score.sizes["record"] * ds["records"]
    kept = ds.drop_dims("record").assign(test_metric=score, validation_metric=score)
    return kept.assign(records=records, step=0 * score + 1, steps=10 * ds["steps"])


NEARER = "fair was still closing the gap to good when training stopped"


@pytest.mark.parametrize("of", [1, 3])
@pytest.mark.parametrize(("late", "caveat"), [(4.0, NEARER), (1.0, "")])
def test_a_closing_gap_is_a_caveat(late, caveat, of):
    """The network behind gains much in the last third, or little, in all runs or in one."""
    ds = _draw(spread=1e-3)
    behind = xr.where(ds["label"] == "fair", late / 100, 0.0)
    behind = behind * of * (ds["replicate"] % of == 0)
    gain = behind * xr.DataArray([3, 2, 1, 0], dims="record")
    kept = _recorded(ds, ds["test_metric"].isel(record=0) - gain)
    assert ask(Networks(kept), "lead", "good", "fair").undecided_because == gather(caveat)
    assert ask(Networks(kept, paper_steps=10), "lead", "good", "fair").undecided_because == ()


@pytest.mark.parametrize("names", [("good", "fair"), ("fair", "good")])
@pytest.mark.parametrize("estimator", ["lead", "ratio"])
@pytest.mark.parametrize(("late", "caveat"), [(0.1, NEARER), (0.01, "")])
def test_a_closing_gap_of_errors_is_a_caveat(late, caveat, estimator, names):
    """Errors of .2 and .4: another three thirds close the gap of .2, or a seventh of it."""
    ds = _draw({"good": 0.2, "fair": 0.4}, spread=1e-3, measure="error", guess=1.0)
    behind = xr.where(ds["label"] == "fair", late, 0.0)
    fall = behind * xr.DataArray([3, 2, 1, 0], dims="record")
    networks = Networks(_recorded(ds, ds["test_metric"].isel(record=0) + fall))
    assert ask(networks, estimator, *names).undecided_because == gather(caveat)


@pytest.mark.parametrize(
    ("diverged", "late", "caveat"),
    [
        ("fair", 9, NEARER),  # from 60, the mean of 70 (5 times) and 10, by 7.5 in each third
        ("fair", 7, ""),
        ("good", 0, ""),  # the gap was never larger than that of 80 (5 times) and 10 to 65
    ],
)
def test_a_run_that_diverged_at_once_counts_at_both_ends_of_a_closing_gap(diverged, late, caveat):
    """Scores are 80 and, for the network behind, 70 if one of its runs diverges, otherwise 65."""
    level = 70.0 if diverged == "fair" else 65.0
    ds = _draw({"good": 80.0, "fair": level}, spread=0.0)
    behind = xr.where(ds["label"] == "fair", late / 100, 0.0)
    gain = behind * xr.DataArray([3, 2, 1, 0], dims="record")
    kept = _recorded(ds, ds["test_metric"].isel(record=0) - gain)
    at_once = (kept["label"] == diverged) & (kept["replicate"] == 0)
    kept = kept.assign(
        records=kept["records"].where(~at_once, 0),
        status=kept["status"].where(~at_once, DIVERGED),
    )
    assert ask(Networks(kept), "lead", "good", "fair").undecided_because == gather(caveat)


def test_a_tie_leaves_no_gap_to_close():
    level = _draw({"good": 70, "fair": 70}, spread=0.0)
    score = level["test_metric"].isel(record=0) - xr.DataArray([0.0, 0.0, 0.0, 0.0], dims="record")
    kept = _recorded(level, score)
    assert ask(Networks(kept), "lead", "good", "fair").undecided_because == ()


@pytest.mark.parametrize(("late", "falls"), [(0.1, True), (0.02, False), (-0.05, False)])
def test_a_falling_error_bars_verdicts_against_the_network(late, falls):
    """The last third takes `late` from an error of .3; twice as long takes it below .1 or not."""
    ds = _draw({"slow": 0.3, "fair": 0.5}, spread=1e-3, measure="error", guess=1.0)
    fall = late * xr.DataArray([3, 2, 1, 0], dims="record")
    networks = Networks(_recorded(ds, ds["test_metric"].isel(record=0) + fall))
    reasons_against = ()
    if falls:
        reasons_against = ("the error of slow was still falling when training stopped",)

    def reasons(region):
        claim = made_claim("share_of_chance", region=region, networks=("slow",), others=())
        return tuple(estimate_claim(networks, claim).parts[0].untuned)

    # If the claim is that the network fails, a smaller error would refute it even more.
    assert reasons({"above": 0.9}) == (reasons_against, ())
    assert reasons({"below": 0.1}) == ((), reasons_against)


@pytest.mark.parametrize(("late", "falls"), [(0.12, True), (0.1, False)])
def test_the_error_of_a_run_that_diverged_at_once_does_not_fall(late, falls):
    """Five errors of .25 and one of 1, at chance, have the mean .375.

    If the five fall by .12 in each third of the training, the mean falls by .1, to .075 after three
    thirds. If they fall by .1, it falls to .125.
    """
    ds = _draw({"slow": 0.25}, spread=0.0, measure="error", guess=1.0)
    fall = late * xr.DataArray([3, 2, 1, 0], dims="record")
    kept = _recorded(ds, ds["test_metric"].isel(record=0) + fall)
    at_once = kept["replicate"] == 0
    kept = kept.assign(
        records=kept["records"].where(~at_once, 0),
        status=kept["status"].where(~at_once, DIVERGED),
    )
    assert bool(still_falling(Networks(kept), "slow")) == falls


def test_a_small_error_may_go_on_falling():
    """An error of .05 falls by .02 in the last third: it counts as small already."""
    ds = _draw({"slow": 0.05}, spread=0.0, measure="error", guess=1.0)
    fall = 0.02 * xr.DataArray([3, 2, 1, 0], dims="record")
    networks = Networks(_recorded(ds, ds["test_metric"].isel(record=0) + fall))
    assert still_falling(networks, "slow") == ""


@pytest.mark.parametrize("names", [("good", "fair"), ("fair", "good")])
def test_each_of_two_networks_needs_five_runs(names):
    """Two of the six runs of one network were not planned."""
    ds = _draw(spread=1e-3)
    left_out = (ds["label"] == "fair") & (ds["replicate"] >= 4)
    ds = ds.assign(status=ds["status"].where(~left_out, NOT_PLANNED))
    reason = "one network has 4 runs, and 5 are needed"
    assert ask(Networks(ds), "lead", *names).undecided_because == (reason,)


@pytest.mark.parametrize("estimator", ["share_of_chance", "over_chance"])
@pytest.mark.parametrize(("runs", "decides"), [(4, False), (5, True)])
def test_one_network_needs_five_runs(estimator, runs, decides):
    ds = _draw({"LEM": 0.3, "LSTM": 0.5}, spread=1e-3, measure="error", guess=1.0)
    reason = ask(Networks(ds.isel(replicate=range(runs))), estimator, "LEM").undecided_because
    if decides:
        assert reason == ()
    else:
        assert reason == ("one network has 4 runs, and 5 are needed",)


def test_paired_answers_narrow_a_comparison():
    """The interval is that of paired differences, not of two binomials."""
    ds = _draw({"LEM": 80.0, "LSTM": 70.0}, spread=1e-6, test_sequences=400)
    hard = np.random.default_rng(3).permutation(400)
    known = np.stack([hard < 320, hard < 280])[:, None].repeat(6, axis=1).astype("float32")
    pairs = ask(Networks(ds.assign(sequence_score=(SCORE, known))), "lead", "LEM", "LSTM")
    apart = known[0, 0] - known[1, 0]
    assert pairs.high - pairs.value == pytest.approx(196 * apart.std(ddof=1) / 20, rel=1e-3)
    binomials = ask(Networks(ds), "lead", "LEM", "LSTM")
    assert pairs.high - pairs.low < 0.6 * (binomials.high - binomials.low)
    assert pairs.undecided_because == ()
    few = ds.isel(replicate=range(4)).assign(sequence_score=(SCORE, known[:, :4]))
    few = ask(Networks(few), "lead", "LEM", "LSTM")
    assert few.low > 0, "the sequences are paired"
    four = ("one network has 4 runs, and 5 are needed",)
    assert few.undecided_because == four, "which adds no runs"
    single = ds.isel(replicate=[0]).assign(sequence_score=(SCORE, known[:, :1]))
    actual = ask(Networks(single), "lead", "LEM", "LSTM")
    assert actual.low > 0 and actual.notes == ("of single runs",)
    assert actual.undecided_because == ("one network has 1 run, and 5 are needed",)


@pytest.mark.parametrize("runs", [2, 3])
def test_paired_answers_leave_the_spread_of_few_runs(runs):
    """The interval has the error of Welch's for these runs, and that of paired differences."""
    ds = _draw({"LEM": 80.0, "LSTM": 70.0}, spread=2.0, test_sequences=400)
    known = np.stack([np.arange(400) < 320, np.arange(400) % 10 < 7])
    known = known[:, None].repeat(runs, axis=1).astype("float32")
    ds = ds.isel(replicate=range(runs)).assign(sequence_score=(SCORE, known))
    networks = Networks(ds)
    of_runs = difference(networks.scores("LEM"), networks.scores("LSTM"))
    of_test_set = 100 * Z * (known[0, 0] - known[1, 0]).std(ddof=1) / 20
    actual = ask(networks, "lead", "LEM", "LSTM")
    assert actual.value == pytest.approx(of_runs.value)
    expected = math.hypot(of_runs.value - of_runs.low, of_test_set)
    assert actual.value - actual.low == pytest.approx(expected)


@pytest.mark.parametrize(("favored", "agree"), [(slice(None), True), (slice(None, None, 2), False)])
def test_choosing_rates_on_the_test_part_gives_no_advantage(favored, agree):
    """Nothing is validated; one rate is better on all test sequences, or on half of them."""
    ds = _draw({"LEM": 60.0, "LSTM": 60.0}, spread=1e-6, test_sequences=400)
    answers = np.tile([1.0, 1.0, 0.0, 0.0], 100)[None, None].repeat(2, 0).repeat(6, 1)
    better = answers.copy()
    better[:, :, favored] = 1.0
    worse = answers.copy()
    worse[:, :, 1::2] = np.where(agree, 0.0, 1.0)
    runs = []
    for rate, scores in ((0.1, better), (0.01, worse)):
        accuracy = (RECORD, scores.mean(-1)[..., None])
        run = ds.assign(sequence_score=(SCORE, scores), test_metric=accuracy)
        run = run.assign(validation_metric=np.nan * run["validation_metric"])
        run["learning_rate"][:] = rate
        runs.append(run.assign_coords(run=[f"{name}, {rate}" for name in run["run"].values]))
    networks = Networks(xr.concat(runs, "run", data_vars="minimal"))
    optimism = optimism_of_rate(networks, "LEM")
    if agree:
        assert optimism == 0.0
    else:
        assert optimism == pytest.approx(100 * (0.75 - 0.5))  # .75 at the best rate, .5 crossed
    actual = ask(networks, "lead", "LEM", "LSTM")
    assert "chosen on the test part" not in write_reasons(actual.undecided_because)
    assert ("so its score is cross-fitted" in write_reasons(actual.notes)) == (not agree)
    # Of the LSTM at a single rate nothing was chosen; it has the LEM's score at its best rate.
    single = Networks(networks.ds.drop_sel(run="LSTM, made up, 0.01"))
    assert ask(single, "lead", "LEM", "LSTM").value == pytest.approx(-optimism)
    assert ask(single, "lead", "LSTM", "LEM").value == pytest.approx(optimism)
    without = Networks(networks.ds.drop_vars("sequence_score"))
    assert optimism_of_rate(without, "LEM") is None
    against = write_reasons(ask(without, "lead", "LEM", "LSTM").undecided_because)
    assert "the learning rate of LEM was chosen on the test part" in against
    assert "the learning rate of LSTM was chosen on the test part" in against
    assert "LEM was chosen on the test part" in rate_from_test_part("LEM", None)
    assert "chosen on the test part" in rate_from_test_part("LEM", 3.0, logs=True)
    assert rate_from_test_part("LEM", 3.0) == rate_from_test_part("LEM", 0.0, logs=True) == ""


@pytest.mark.parametrize(
    ("measure", "optimism"), [("", 0.35 - 0.2), ("squared error", 0.125 - 0.05), ("bits", None)]
)
def test_errors_are_cross_fitted_in_their_own_unit(measure, optimism):
    """Two rates have errors of .1 and .3, or of .4 and .2, on even and odd test sequences.

    Each half prefers the other half's worse rate: crossed, the errors are .3 and .4. Bits are not
    stored for single sequences.
    """
    ds = _draw({"LEM": 0.2}, spread=0.0, measure="error", guess=1.0)
    nothing = {name: np.nan * ds[name] for name in ("validation_loss", "validation_metric")}
    ds = ds.assign(nothing)
    runs = []
    for rate, errors in ((0.1, (0.1, 0.3)), (0.01, (0.4, 0.2))):
        squares = np.tile(np.square(errors), 100)
        run = ds.assign(sequence_score=(SCORE, np.broadcast_to(squares, (1, 6, 200))))
        run["test_loss"][:] = squares.mean()
        run["test_metric"][:] = math.sqrt(squares.mean())
        run["learning_rate"][:] = rate
        runs.append(run.assign_coords(run=[f"LEM, {rate}"]))
    networks = Networks(xr.concat(runs, "run", data_vars="minimal"), measure=measure)
    if optimism is None:
        assert optimism_of_rate(networks, "LEM") is None
    else:
        assert optimism_of_rate(networks, "LEM") == pytest.approx(optimism)


@pytest.mark.parametrize("at_end", [0.5, 0.9])
def test_a_lead_reports_another_one_at_the_end(at_end):
    """The network that validates best has fallen behind at the last record, or it has not."""
    best = _draw({"good": 90.0, "fair": 70.0})
    end = best.assign(validation_metric=best["validation_metric"] - 0.3)
    fallen = (end["label"] == "good") & (end["test_metric"] > 0)
    end = end.assign(test_metric=xr.where(fallen, at_end, end["test_metric"]).transpose(*RECORD))
    ds = xr.concat([best, end], "record", data_vars="minimal").assign(records=2 * best["records"])
    note = write_reasons(ask(Networks(ds), "lead", "good", "fair").notes)
    assert ("at the last record, the lead of good over fair is -20" in note) == (at_end == 0.5)


def test_a_lead_at_the_end_is_positive_if_the_error_is_smaller():
    """At the record that validates best, the errors are .2 and .4; at the last one .9 and .4."""
    ds = _draw({"good": 0.2, "fair": 0.4}, spread=1e-3, measure="error", guess=1.0)
    rise = xr.where(ds["label"] == "good", 0.7, 0.0) * xr.DataArray([0, 1], dims="record")
    score = ds["test_metric"].isel(record=0) + rise
    note = write_reasons(ask(Networks(_recorded(ds, score)), "lead", "good", "fair").notes)
    assert "at the last record, the lead of good over fair is -0.5" in note


def _answering(rng, chances):
    """Return a network whose six runs are right with these chances on 500 test sequences."""
    answers = (rng.uniform(size=(1, 6, 500)) < chances).astype("float32")
    ds = _draw({"LEM": 60.0}, test_sequences=500).assign(sequence_score=(SCORE, answers))
    ds["test_metric"] = ds["test_metric"] * 0 + answers.mean(-1)[..., None]
    return Networks(ds)


@pytest.mark.parametrize("spread", [0.0, 0.03])
def test_spread_excludes_sampling_of_test_sequences(spread):
    """The chances of runs have this spread; how often 4 points are met is known by drawing."""
    rng = np.random.default_rng(7)
    actual = []
    claimed = Region(below=4)
    assert (
        sampling_variance(_answering(rng, np.array([0.0, 1.0] * 3)[None, :, None]), "LEM") == 0
    )  # all or none
    for _ in range(200):
        chances = 0.6 + spread * rng.standard_normal((1, 6, 1))
        actual.append(ask(_answering(rng, chances), "deviation", "LEM"))
    value, low, high = np.array([[one.value, one.low, one.high] for one in actual]).T
    assert np.sqrt((value**2).mean()) == pytest.approx(100 * spread, abs=1.2)
    assert ((low <= 100 * spread) & (100 * spread <= high)).mean() > 0.9
    power = np.mean([one.power_at(claimed, 100 * spread) for one in actual])
    agreed = np.mean([claimed.contains(one.low, one.high) for one in actual])
    assert power == pytest.approx(agreed, abs=0.05)


def test_the_interval_of_a_spread_is_that_of_a_variance():
    """Five accuracies of 50, 52, 54, 56 and 58% have the variance 10, with 4 degrees of freedom."""
    ds = _draw({"LEM": 60.0}).isel(replicate=range(5))
    ds["test_metric"][0, :, 0] = [0.5, 0.52, 0.54, 0.56, 0.58]
    low = math.sqrt(4 * 10 / stats.chi2.isf(0.025, 4))
    high = math.sqrt(4 * 10 / stats.chi2.ppf(0.025, 4))
    actual = ask(Networks(ds), "deviation", "LEM")
    expected = np.array([math.sqrt(10), low, high])
    assert [actual.value, actual.low, actual.high] == pytest.approx(expected)
    # At the paper's 90%, accuracies vary less than at our 54%.
    narrower = math.sqrt(90 * 10 / (54 * 46))
    scaled = ESTIMATORS["deviation"].estimate(Networks(ds), "LEM", 90.0)
    assert [scaled.value, scaled.low, scaled.high] == pytest.approx(narrower * expected)


def test_the_sampling_of_test_sequences_is_known_of_means_over_them():
    """A root mean squared error is not the mean of what is stored for each sequence."""
    networks = _answering(np.random.default_rng(7), 0.6)
    of_accuracy = sampling_variance(networks, "LEM")
    metric = ["root mean squared error"] * networks.ds.sizes["run"]
    ds = networks.ds.assign(metric=("run", metric))
    assert sampling_variance(Networks(ds), "LEM") is None
    of_mean = sampling_variance(Networks(ds, measure="squared error"), "LEM")
    assert of_mean == pytest.approx(of_accuracy / 100**2)


def test_a_spread_with_the_sampling_of_test_sequences_says_so():
    networks = _answering(np.random.default_rng(7), 0.6)
    assert ask(networks, "deviation", "LEM").notes == ()
    without = Networks(networks.ds.drop_vars("sequence_score"))
    assert sampling_variance(without, "LEM") is None
    actual = ask(without, "deviation", "LEM")
    assert actual.notes == (WITH_SAMPLING,)
    assert actual.value == pytest.approx(without.scores("LEM").std(ddof=1))


@pytest.mark.parametrize(
    ("measure", "score", "guess", "points"), [("accuracy", 60, 10, 50), ("error", 0.3, 1, -0.7)]
)
def test_a_score_over_chance_is_that_of_the_network_minus_that_of_guessing(
    measure, score, guess, points
):
    ds = _draw({"LEM": score}, spread=0.0, measure=measure, guess=guess)
    assert ask(Networks(ds), "over_chance", "LEM").value == pytest.approx(points)


def test_power_at_chance_does_not_depend_on_learners():
    """The power of "no better than chance" does not depend on the spread of networks that learn."""
    rng = np.random.default_rng(8)
    claimed = Region(below=2)
    guess = _draw({"LEM": 60.0})["guess_metric"].item()
    actual = [ask(_answering(rng, guess), "over_chance", "LEM") for _ in range(200)]
    agreed = np.mean([claimed.contains(one.low, one.high) for one in actual])
    learned = ask(_answering(rng, np.linspace(0.2, 0.8, 6)[:, None]), "over_chance", "LEM")
    assert 0.4 < learned.power_at(claimed, 0.0) == pytest.approx(agreed, abs=0.08)
    assert learned.high - learned.low > 40


def test_power_to_learn_depends_on_the_spread_of_the_networks():
    """A claim of more than 5 points over chance agrees if the whole interval lies above 5."""
    ds = _draw({"LEM": 60.0}, spread=2.0, test_sequences=10**6)
    actual = ask(Networks(ds), "over_chance", "LEM")
    half = actual.value - actual.low
    error = half / stats.t.isf(0.025, actual.df)
    power = stats.norm.sf(5 + half, 7, error)
    assert actual.power_at(Region(above=5), 7.0) == pytest.approx(power, abs=1e-3)
    assert 0.05 < power < 0.95


@pytest.mark.parametrize("measure", ["error", "squared error", "recorded squared error"])
def test_paired_errors_follow_the_delta_method(measure):
    """The interval of a ratio, by the delta method, is that of a bootstrap over sequences."""
    rng = np.random.default_rng(4)
    base = rng.exponential(size=500)
    each = np.stack([base * rng.uniform(0.8, 1.2, 500), 2 * base * rng.uniform(0.8, 1.2, 500)])
    ds = _draw({"LEM": 1.0, "LSTM": 2.0}, spread=1e-6, measure="error", guess=9.0)
    errors = np.sqrt(each.mean(1))[:, None, None] * np.ones(ds["test_metric"].shape)
    answers = each[:, None].repeat(6, 1).astype("float32")
    ds = ds.assign(test_metric=(RECORD, errors), test_loss=(RECORD, errors**2))
    ds = ds.assign(sequence_score=(SCORE, answers))
    if measure == "recorded squared error":
        metric = ["squared error"] * ds.sizes["run"]
        ds = ds.assign(metric=("run", metric), test_metric=ds["test_loss"])
    asked = measure if measure == "squared error" else ""
    actual = ask(Networks(ds, measure=asked), "ratio", "LSTM", "LEM")
    drawn_again = each[:, rng.integers(500, size=(4000, 500))].mean(-1)
    logs = np.log(drawn_again[1] / drawn_again[0]) / (2 if measure == "error" else 1)
    assert math.log(actual.high / actual.value) == pytest.approx(1.96 * logs.std(), rel=0.06)


def test_few_test_sequences_widen_an_interval():
    both = (_draw({"LEM": 80, "LSTM": 50}, test_sequences=n) for n in (39, 10**6))
    wide, narrow = (ask(Networks(ds), "lead", "LEM", "LSTM") for ds in both)
    assert wide.value == pytest.approx(narrow.value)
    drawn_alone = 196 * math.sqrt((0.8 * 0.2 + 0.5 * 0.5) / 39)
    assert wide.value - wide.low > 0.99 * drawn_alone > 3 * (narrow.value - narrow.low)
    single = ask(Networks(_draw({"LEM": 80}).isel(replicate=[0])), "deviation", "LEM")
    assert single.notes == ("a spread needs at least two runs",)
    for actual, mentioned in ((wide, True), (narrow, False)):
        border = Region(above=(actual.value + actual.low) / 2)
        assert ("finite test set" in decide(smallest([actual]), border).reason) is mentioned


@pytest.mark.parametrize(("measure", "guess"), [("perplexity", 100.0), ("squared error", 100.0)])
def test_smaller_errors_are_better(measure, guess):
    networks = Networks(in_measure(_draw(spread=0.01, measure=measure, guess=guess), measure))
    assert ask(networks, "lead", "poor", "good").value == pytest.approx(70, abs=2)
    assert ask(networks, "ratio", "good", "poor").value == pytest.approx(8, rel=0.05)


def test_the_best_level_stands_for_its_network():
    scores = {"LEM": 50.0, "LEM, dt=2": 80.0, "LEM, dt=3": 60.0, "LSTM": 70.0}
    ds = _draw(scores, dt=[1.0, 2.0, 3.0, np.nan])
    kept = networks.at_best_level(ds, ["LEM", "LSTM"], "dt")
    assert kept["run"].values.tolist() == ["LEM, dt=2, made up", "LSTM, made up"]
    assert kept["label"].values.tolist() == ["LEM", "LSTM"]


def test_levels_are_those_of_the_factor_itself():
    """Not of one whose name ends alike, is a pattern, or belongs to the name of the network."""
    levels = {"LEM, dt=1", "LEM, alpha=2, dt=3"}
    others = {"LEM", "LEM, wide, xdt=3", "LEM, L=2", "wide LEM, dt=1"}
    labels = sorted(levels | others)
    rows = pd.DataFrame({"label": labels, "dt": 1.0, "d.": 1.0})
    assert set(networks.levels_of(rows, "LEM", "dt")["label"]) == levels
    assert networks.levels_of(rows, "LEM", "d.").empty
    named = pd.DataFrame({"label": ["LEM, dt=1, i=2", "LEM, dt=1, dt=2"], "dt": 1.0})
    assert networks.levels_of(named, "LEM, dt=1", "dt")["label"].tolist() == ["LEM, dt=1, dt=2"]


def test_only_the_named_tasks_change_their_measure():
    ds = _draw({("LEM", "words"): 50.0, ("LEM", "reviews"): 50.0}, measure="perplexity", guess=100)
    changed = in_measure(ds, "perplexity", ["words"])
    assert changed["metric"].values.tolist() == ["perplexity", "accuracy"]
    assert changed["guess_metric"].values.tolist() == pytest.approx([100, 0])


@pytest.mark.parametrize(
    ("one", "over", "changed", "why"),
    [
        ("poor", "good", {}, "no better than chance: 6 of 6 runs of poor on made up"),
        ("good", "absent", {}, "not trained: absent"),
        (
            "good",
            "fair",
            {"task_settings": DIGITS},
            "the data set digits stands in for the paper's",
        ),
        ("good", "fair", {"substitute": "a stand-in for worms"}, "a stand-in for worms"),
    ],
)
def test_untrained_or_guessing_networks_lead_none(one, over, changed, why):
    ds = _draw()
    networks = Networks(ds.assign({k: ("run", [v] * ds.sizes["run"]) for k, v in changed.items()}))
    actual = [ask(networks, "lead", one, over)]
    if changed:  # data that replace the paper's say nothing about any quantity
        actual += [ask(networks, "over_chance", one), ask(networks, "ratio", one, over)]
    for estimate in actual:
        assert math.isnan(estimate.low) and estimate.notes == (why,)


def test_any_network_that_learned_is_a_control():
    comparison = made_claim("share_of_chance", others=(), control="any").comparison
    networks = Networks(_draw())
    assert networks.at_chance() == ["poor"]
    assert refuse_without_control(networks, comparison) is None
    nobody = Networks(_draw({"poor": 10.0, "none": 10.0}), task="made up")
    assert refuse_without_control(nobody, comparison).notes == ("no network learns made up",)


def test_networks_at_chance_are_found():
    assert Networks(_draw()).at_chance() == ["poor"]
    # Replicates on the same sequences are no further evidence against chance.
    ds = _draw({"LEM": 25.0}, guess=20, test_sequences=39)
    assert Networks(ds).at_chance() == ["LEM"]
    assert Networks(ds.assign(test_sequences=ds["test_sequences"] * 100)).at_chance() == []
    # An error must be a tenth below guessing.
    ds = _draw({"LEM": 0.85, "LSTM": 0.95}, spread=1e-3, measure="error", guess=1.0)
    assert Networks(ds).at_chance() == ["LSTM"]
    # One training that blew up hides nothing of the others.
    ds["test_metric"][ds["label"].values.tolist().index("LEM"), 0] = 1e17
    assert Networks(ds).at_chance() == ["LSTM"]


def test_a_mean_just_above_the_chance_level_is_at_chance():
    scores = {("LSTM", "CIFAR"): 10.03, ("iRNN", "CIFAR"): 36.0, ("LSTM", "MNIST"): 70.0}
    ds = group_sampler(scores, spread=0.0, guess=10.0)(np.random.default_rng(0))
    assert Networks(ds).at_chance_by_task() == {"CIFAR": ["LSTM"], "MNIST": []}


def test_a_run_diverged_at_once_scores_at_chance():
    ds = _draw()
    ds["records"][0, 0] = 0
    ds["status"][0, 0] = 1
    assert Networks(ds).scores("good")[0] == 10


def _solved(steps, records=(50, 100, 300, 400, 900)):
    """Return two runs per network whose error falls below the threshold at a record, or never."""
    ds = _draw(dict.fromkeys(steps, 0.1), spread=1e-9, measure="error", guess=1.0)
    ds = ds.isel(replicate=[0, 1])
    at = [np.inf if at is None else at for at in steps.values()]
    late = np.asarray(records) >= np.array(at)[:, None, None].repeat(2, axis=1)
    loss = np.where(late, 0.002, 0.1)
    parts = {"test_loss": loss, "test_metric": np.sqrt(loss), "validation_metric": np.nan * loss}
    parts["step"] = np.broadcast_to(records, loss.shape)
    kept = ds.drop_dims("record").assign({name: (RECORD, part) for name, part in parts.items()})
    return kept.assign(records=5 * ds["records"])


def test_steps_are_known_between_two_records():
    networks = Networks(_solved({"slow": 400, "fast": 100, "never": None, "stuck": None}))
    actual = ask(networks, "longer", "slow", "fast")
    assert (actual.low, actual.high) == pytest.approx((300 / 100, 400 / 50))
    assert ask(networks, "longer", "never", "fast").value > actual.value
    for pair, open_side in ((("never", "fast"), "high"), (("fast", "never"), "low")):
        unsolved = ask(networks, "longer", *pair)
        assert getattr(unsolved, open_side) == {"high": math.inf, "low": 0}[open_side]
        assert unsolved.low < unsolved.value < unsolved.high
    assert "neither never nor stuck" in ask(networks, "longer", "never", "stuck").notes[0]
    actual = ask(networks, "steps_needed", "fast")
    assert (actual.low, actual.value, actual.high) == pytest.approx((50, 75, 100))


def test_unsolved_problems_need_seeds_and_learning_rates():
    ds = _solved({"never": None}).assign(guess_metric=("run", [0.3]))
    ds["steps"][:] = 900
    again = ds.assign(learning_rate=10 * ds["learning_rate"]).assign_coords(run=["again"])
    both = xr.concat([ds, again], "run", data_vars="minimal")
    few = "one network has 2 runs, and 5 are needed"
    only_rate = "never is at chance, and only one learning rate was tried"
    for tried, against in ((ds, (few, only_rate)), (both, (few,))):
        actual = ask(Networks(tried), "steps_needed", "never")
        assert (actual.value, actual.undecided_because) == (900, against)
    ds["records"][0, 1] = 2  # diverged: no reason to count it as quick
    assert ask(Networks(ds), "steps_needed", "never").value == 900


def test_a_ratio_of_steps_holds_the_case_that_a_diverged_run_needed_its_own_steps():
    """Nobody's runs differ, but one of two that never solve the problem diverges after 50 steps."""
    ds = _solved({"never": None, "fast": 100})
    ds["records"][0, 1] = 1
    ds["status"][0, 1] = DIVERGED
    actual = ask(Networks(ds), "longer", "never", "fast")
    # Steps are 900 and 900, or 900 and 50, over something between 50 and 100 twice.
    own = difference(np.log([900.0, 50.0]), [math.log(math.sqrt(50 * 100))] * 2)
    assert actual.low == pytest.approx(math.exp(own.low) / math.sqrt(2))
    assert actual.high == math.inf


def test_a_network_at_chance_at_two_rates_was_not_tried_at_one():
    ds = at_rates({"LSTM": [10.0, 10.0]}, (0.001, 0.003))
    assert one_rate_at_chance(Networks(ds), "LSTM") == ""
    once = at_rates({"LSTM": [10.0]}, (0.001,))
    assert "only one learning rate was tried" in one_rate_at_chance(Networks(once), "LSTM")


def test_a_network_was_trained_for_as_long_as_its_longest_run():
    ds = _draw()
    ds = ds.assign(steps=100 * ds["steps"])
    ds["steps"][0, 1] = 7  # it diverged
    assert Networks(ds).steps_trained("good") == 100


def test_the_network_that_was_trained_for_fewer_steps_is_compared_with_the_paper():
    ds = _draw()
    ds = ds.assign(steps=100 * ds["steps"])
    ds["steps"][1] = 50  # of the network called fair
    networks = Networks(ds, paper_steps=100)
    fewer = "our runs take 50 of the paper's 100 steps"
    assert shorter_than_paper(networks, "good", "fair") == fewer
    assert shorter_than_paper(networks, "fair", "good") == fewer
    assert shorter_than_paper(networks, "good", "poor") == ""


def test_the_median_run_decides_whether_a_network_learned():
    """Of five runs, three answer at random: the mean is far above chance, the median is not."""
    ds = _draw({"LEM": 10.0}, spread=0.0).isel(replicate=range(5))
    ds["test_metric"][0, :, 0] = [0.9, 0.9, 0.1, 0.1, 0.1]
    assert not Networks(ds).learned("LEM")
    ds["test_metric"][0, 2, 0] = 0.9
    assert Networks(ds).learned("LEM")


def test_tuning_takes_the_best_validated_network():
    ds = _draw({"LEM": 95, "LEM, dt=1": 50, "LEM, dt=0.1": 90, "LEM, L=2": 99}, dt=[2, 1, 0.1, 1])
    for some, best in ((ds, 95), (ds.isel(run=slice(1, None)), 90)):  # a plain label is a level
        assert Networks(some).scores(
            NetworkSelection(label="LEM", best="dt")
        ).mean() == pytest.approx(best, abs=2)
    assert Networks(tuned(some, LEM="dt")).scores("LEM").mean() == pytest.approx(90, abs=2)


def test_another_network_counts_where_none_has_the_label():
    selection = NetworkSelection(label="LEM, all steps", otherwise="LEM")
    both = _draw({"LEM": 50.0, "LEM, all steps": 90.0}, spread=0.0)
    assert Networks(both).scores(selection).mean() == pytest.approx(90.0)
    assert Networks(both.isel(run=[0])).scores(selection).mean() == pytest.approx(50.0)


def test_errors_of_clusters_cover():
    """Windows of a patient are alike: their mean varies more than the number of windows says."""
    rng = np.random.default_rng(6)
    patients = np.repeat(np.arange(25), 8)
    covered = {"patients": 0, "windows": 0}
    draws = 300
    for _ in range(draws):
        values = rng.standard_normal(25)[patients] + rng.standard_normal(len(patients))
        for name, clusters in (("patients", patients), ("windows", None)):
            covered[name] += abs(values.mean()) < Z * error_of_mean(values, clusters)
    assert 0.92 < covered["patients"] / draws < 0.985
    assert covered["windows"] / draws < 0.75
    # As many clusters as values: hardly any difference.
    alone = rng.standard_normal(500)
    assert error_of_mean(alone, np.arange(500)) == pytest.approx(error_of_mean(alone), rel=5e-3)
    with pytest.raises(ValueError, match="got 500 values but the clusters of 200; give the"):
        error_of_mean(alone, patients)


def test_few_clusters_widen_an_error_by_students_t():
    """Four patients have two equal windows each: the error is that of four numbers."""
    of_patients = np.array([1.0, 2.0, 4.0, 5.0])
    error = error_of_mean(of_patients.repeat(2), np.arange(4).repeat(2))
    assert error == pytest.approx(stats.sem(of_patients) * stats.t.isf(0.025, 3) / Z)


def test_windows_of_stored_runs_have_a_patient():
    ds = load(DATA / "reference/real/vitals.nc")
    sizes = {
        "heart rate": (400, 53),
        "respiratory rate": (1185, 53),
        "heart rate by patient": (400, 8),
    }
    for task, (size, people) in sizes.items():
        patients = patients_in_test(task)
        assert len(patients) == size and len(np.unique(patients)) == people
        runs = ds.isel(run=np.flatnonzero(ds["task"] == task))
        assert int(runs["test_sequences"].max()) == size
    assert patients_in_test("adding 100") is None


def test_the_error_of_windows_of_unknown_patients_is_unknown():
    """At the paper's scale there are more windows than the list of patients covers."""
    ds = load(DATA / "reference/real/vitals.nc")
    known = Networks(ds).on_task("respiratory rate")
    assert sampling_error(known, "LSTM").paired
    fewer = Networks(ds.isel(test_sequence=slice(1000))).on_task("respiratory rate")
    assert sampling_error(fewer, "LSTM") is None


def test_diverged_runs_count_with_their_own_end():
    columns = {"steps": [200, np.inf], "early": [150, 1000], "late": [200, 1000]}
    rows = pd.DataFrame(columns | {"trained": [1000, 300]})
    counted = training_steps.with_last_step(rows)
    assert list(counted["early"]) == [150, 300] and list(counted["late"]) == [200, 300]
    assert list(rows["late"]) == [200, 1000], "the table itself stays"
