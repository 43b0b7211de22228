"""Quantities of single claims, by cases that are computed by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from evidence_for_judges import coadjoint, factorial, latching, linear, sweep, with_metric
from random_groups import RECORD, group_sampler
from scipy import stats
from study.claims import counterexamples, models, padding, time_steps
from study.claims.coadjoint_gaps import smallest_share_learned
from study.claims.counterexamples import (
    basic_rnn_nearest,
    best_had_vanished_in_training,
    beyond_chance,
    vanished_in_training_are_poor,
)
from study.claims.error_rates import ROBUST, robust_error_rate
from study.claims.estimates import Estimate
from study.claims.extremes import smallest
from study.claims.gradient_norms import decay, gain
from study.claims.latching import adjoints_stay
from study.claims.linear_gaps import deciding_input_emphasized
from study.claims.networks import Networks
from study.claims.padding import nearness
from study.claims.region import Region
from study.claims.relative_to_chance import memoryless
from study.claims.sampling import sampling_error
from study.claims.scores_over_runs import _Spread
from study.claims.time_steps import decades, peak, span
from study.claims.training_steps import steps_needed
from study.claims.tuning import Losers, losers
from study.results.networks import BIN_WIDTH
from study.results.schema import COMPLETED, DIVERGED, MISSING
from test_tuning import made_claim


def drawn(runs=2, *, measure="error", guess=1.0, score=0.1, **more):
    """Return runs of one network, the LEM, that hardly differ."""
    draw = group_sampler({"LEM": score}, spread=0.0, measure=measure, guess=guess, **more)
    return draw(np.random.default_rng(0), runs)


def recorded(ds, **values):
    """Return results in which each variable has these values, of shape (runs, records)."""
    records = np.shape(next(iter(values.values())))[-1]
    shape = (1, ds.sizes["replicate"], records)
    variables = {name: (RECORD, np.reshape(value, shape)) for name, value in values.items()}
    variables.setdefault("test_loss", (RECORD, np.full(shape, 0.1)))
    variables.setdefault("test_metric", (RECORD, np.full(shape, 0.3)))
    variables.setdefault("validation_metric", (RECORD, np.full(shape, math.nan)))
    variables.setdefault("step", (RECORD, np.broadcast_to(1 + np.arange(records), shape)))
    return ds.drop_dims("record").assign(variables).assign(records=records * ds["records"])


# scores


def test_p_values_of_a_spread_agree_with_its_interval():
    spread = _Spread(variance=4.0, df=5, noise=0.5, factor=2.0)
    for confidence in (0.95, 0.8):
        for end in spread.interval(confidence):
            assert spread.p_value(end) == pytest.approx(1 - confidence)
    # The median of chi-squared with 5 degrees of freedom is 4.3515.
    median = 2 * math.sqrt(4.0 * 5 / stats.chi2.median(5) - 0.5)
    assert spread.p_value(median) == pytest.approx(1)


@pytest.mark.parametrize(
    ("region", "least", "most"),
    [
        (Region(above=1.0), 1 / 4, math.inf),  # the true variance of a deviation of 2 is 4
        (Region(below=3.0), 0.0, 9 / 4),
        (Region(above=0.1, below=9.0), 0.01 / 4, 81 / 4),
    ],
)
def test_the_power_of_a_spread_is_that_of_both_ends(region, least, most):
    """Chi-squared is between these multiples of the quantiles that make the interval's ends."""
    spread = _Spread(variance=99.0, df=5, noise=0.0, factor=1.0)
    from_low = stats.chi2.cdf(least * stats.chi2.isf(0.025, 5), 5)
    up_to_high = stats.chi2.cdf(most * stats.chi2.ppf(0.025, 5), 5)
    power = max(0.0, up_to_high - from_low)
    assert spread.power_at(region, 2.0) == pytest.approx(power)


def test_only_equal_scores_are_compatible_with_no_spread():
    assert _Spread(variance=0.0, df=5, noise=0.0, factor=1.0).p_value(0.0) == 1
    assert _Spread(variance=4.0, df=5, noise=0.0, factor=1.0).p_value(0.0) == 0


def test_a_run_without_scores_leaves_the_error_of_the_test_set():
    """A run that diverged stored no score of any sequence; the others did."""
    ds = drawn(3, measure="accuracy", guess=10.0, score=50.0)
    scores = np.array([[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 1.0], [np.nan] * 4])
    ds["sequence_score"] = (*RECORD[:2], "test_sequence"), scores[None]
    means = [0.0, 100.0, 100.0, 50.0]
    error = sampling_error(Networks(ds), "LEM")
    assert error.paired
    assert error.error == pytest.approx(np.std(means, ddof=1) / 2)


def test_all_of_several_quantities_agree_with_the_product_of_their_powers():
    parts = [Estimate(2, 1, 3, power_at=lambda *_, share=share: share) for share in (0.5, 0.8)]
    assert smallest(parts).power_at(Region(above=0), 1.0) == pytest.approx(0.4)


def test_the_last_loss_is_compared_with_the_best_one_without_memory():
    """Sequences of T + 20 = 40 steps; the third run diverged, and counts as 1."""
    best = 10 * math.log(8) / 40
    losses = best * np.array([[9.0, 0.5], [9.0, 0.125], [9.0, 7.0]])
    ds = recorded(drawn(3, time_steps={"made up": 40}), test_loss=losses)
    ds["status"][0, 2] = DIVERGED
    estimate = memoryless(Networks(ds), "LEM")
    assert estimate.value == pytest.approx((0.5 * 0.125 * 1.0) ** (1 / 3))


# gradients


def test_gains_are_means_over_records_and_runs():
    ds = recorded(drawn(), gain_first=[[-1.0, -3.0, -8.0], [-2.0, -2.0, -2.0]])
    assert gain(Networks(ds), "LEM").value == pytest.approx(-3.0)


def test_a_network_gains_more_than_another_one():
    """Gains of the first network are -1 and -3 in its two runs, those of the second -4 and -8."""
    draw = group_sampler({"LEM": 0.1, "LSTM": 0.1}, spread=0.0, measure="error", guess=1.0)
    ds = draw(np.random.default_rng(0), 2)
    gains = np.array([[-1.0, -3.0], [-4.0, -8.0]])
    networks = Networks(ds.assign(gain_first=(RECORD, gains[..., None])))
    assert gain(networks, "LEM", "LSTM").value == pytest.approx(-2.0 - -6.0)
    assert gain(networks, "LSTM", "LEM").value == pytest.approx(-6.0 - -2.0)


def test_distances_of_gradients_have_no_sign_and_a_geometric_mean():
    """Distances are 2 and 2 in the records of one run, 8 and 8 in those of the other."""
    ds = recorded(
        drawn(),
        gain_first=[[2.0, -2.0], [-7.0, -8.0]],
        gain_last=[[0.0, 0.0], [1.0, 0.0]],
    )
    assert decay(Networks(ds), "LEM").value == pytest.approx(4.0)


# time steps

DECADES = np.round(np.arange(-4, 0, BIN_WIDTH), 1)


def with_time_steps(trained, untrained=None, **factors):
    """Return two runs whose time steps have these shares: by kind, a mapping from decades."""
    ds = drawn(**factors)
    stages = [untrained or trained, trained]
    shares = np.zeros((2, len(trained), len(DECADES)))
    for stage, kinds in enumerate(stages):
        for kind, of_decade in enumerate(kinds):
            for decade, share in of_decade.items():
                shares[stage, kind, DECADES.tolist().index(decade)] = share
    shares = np.broadcast_to(shares, (1, 2, *shares.shape))
    dims = ("run", "replicate", "stage", "scale", "decade")
    ds = ds.assign(time_step_share=(dims, shares))
    levels = {"stage": ["untrained", "trained"], "scale": range(len(trained)), "decade": DECADES}
    return Networks(ds.assign_coords(levels))


def test_a_peak_is_a_share_of_the_steps_of_all_kinds():
    """Near 10^-1.95 are .6 and .8 of the steps, below .3 and .1, above .1 and .1."""
    kinds = [{-2.6: 0.3, -2.0: 0.6, -1.4: 0.1}, {-2.6: 0.1, -2.0: 0.8, -1.4: 0.1}]
    estimate = peak(with_time_steps(kinds), "LEM", 10**-1.95)
    assert estimate.value == pytest.approx(0.7 - 0.2)


def test_the_range_of_time_steps_leaves_out_the_outermost_percents():
    """The kind with the smaller range has 99% of its steps in the bins at -2 and -1."""
    narrow = {-3.0: 0.005, -2.0: 0.495, -1.0: 0.495, -0.5: 0.005}
    estimate = decades(with_time_steps([narrow, {-3.0: 0.5, -0.5: 0.5}]), "LEM")
    assert (estimate.value, estimate.low) == pytest.approx((1.0, 1 - BIN_WIDTH))


def test_steps_beyond_the_bins_leave_their_range_open():
    estimate = decades(with_time_steps([{-4.0: 0.5, -1.0: 0.5}]), "LEM")
    assert (estimate.value, estimate.high) == (pytest.approx(3.0), math.inf)
    assert "beyond the bins of the histogram" in estimate.notes[0]


def test_the_smallest_step_is_known_up_to_its_bin():
    """Steps may be .1 at most, and the smallest one is in the bin from 10^-3 to 10^-2.9."""
    networks = with_time_steps([{-3.0: 0.5, -1.1: 0.5}], [{-1.1: 1.0}], dt=["0.1"])
    estimate = span(networks, "LEM")
    assert (estimate.low, estimate.high) == pytest.approx((0.1 / 10**-2.9, 0.1 / 10**-3))
    unmoved = span(with_time_steps([{-3.0: 1.0}], [{-2.9: 1.0}], dt=["0.1"]), "LEM")
    assert unmoved.notes[0].startswith("the smallest time step is still in the histogram bin")


def test_a_power_law_must_fit_every_kind_of_step(monkeypatch):
    """The law's mean log-likelihood ratio over runs is 2 for one kind, 0.6 for the other."""
    fits = pd.DataFrame({"scale": [0, 0, 1, 1], "ratio": [1.0, 3.0, 0.5, 0.7]})
    monkeypatch.setattr(time_steps, "likelihood_ratios", lambda rows: fits)
    networks = with_time_steps([{-2.0: 1.0}, {-2.0: 1.0}])
    assert time_steps.power_law(networks, "LEM").value == pytest.approx(0.6)


def test_a_run_whose_smallest_step_moved_is_enough_for_a_range():
    """Training moves the smallest step of the second of two runs, from 10^-1 to 10^-3."""
    networks = with_time_steps([{-3.0: 1.0}], [{-1.0: 1.0}], dt=["0.1"])
    shares = networks.ds["time_step_share"]
    still = shares.sel(stage="untrained").isel(replicate=0)
    networks.ds["time_step_share"] = shares.where(shares["replicate"] > 0, still)
    assert span(networks, "LEM").known


# training steps


def test_a_run_that_diverged_may_have_needed_its_own_steps_alone():
    """Neither run solves the problem; one ends after 900 steps, the other diverges after 100."""
    ds = recorded(drawn(), test_loss=[[0.1, 0.1], [0.1, 0.1]], step=[[100, 900], [100, 900]])
    ds["records"][0, 1] = 1
    ds["status"][0, 1] = DIVERGED
    estimate = steps_needed(Networks(ds), "LEM")
    # 500 is the mean of 900 and 100, 400 their standard error.
    assert estimate.low == pytest.approx(500 - stats.t.isf(0.025, 1) * 400)
    assert (estimate.value, estimate.high) == (900, math.inf)


@pytest.mark.parametrize(
    ("region", "names", "expected"),
    [
        ({"above": 2.0}, ("slow", "fast"), Losers(agrees=("slow",), differs=("fast",))),
        ({"below": 0.5}, ("fast", "slow"), Losers(agrees=("slow",), differs=("fast",))),
    ],
)
def test_a_claim_of_many_steps_goes_against_the_slower_network(region, names, expected):
    claim = made_claim("longer", region=region, networks=names[:1], others=names[1:])
    assert losers(claim, names, ()) == expected


# the factorial experiment


def attempts_of_robust_networks(learning_rates):
    """Return attempts of three architectures; of one, 2 of 10 diverge and 5 more are missing."""
    ds = factorial(architecture=[*ROBUST], learning_rate=learning_rates, replicate=[*range(15)])
    status = ds["status"].sel(architecture=ROBUST[0], learning_rate=learning_rates[-1])
    of_one = np.array([DIVERGED] * 2 + [COMPLETED] * 8 + [MISSING] * 5)
    ds["status"].loc[{"architecture": ROBUST[0], "learning_rate": learning_rates[-1]}] = (
        of_one.reshape(status.shape)
    )
    return ds


def test_error_rates_are_shares_of_the_attempts_that_entered():
    estimate = robust_error_rate(attempts_of_robust_networks([0.1]))
    assert (estimate.value, estimate.n) == (0.2, 10)


@pytest.mark.parametrize(("largest_rate", "tested"), [(0.1, True), (0.2, True), (0.05, False)])
def test_error_rates_need_the_papers_largest_learning_rate(largest_rate, tested):
    """The paper's largest one is 0.1 (Table 3.2)."""
    estimate = robust_error_rate(attempts_of_robust_networks([largest_rate]))
    assert estimate.known == tested
    assert any("our learning rates go up to" in note for note in estimate.notes) == (not tested)


def test_a_basic_rnn_is_compared_with_the_nearest_of_the_others():
    distances = np.array([1.0, 3.0, 10.0]).reshape(-1, *[1] * 7)  # basic RNN, exponential RNN, GRU
    draw = with_metric(lambda rng, accuracy: -distances + 0 * accuracy)
    assert basic_rnn_nearest(draw(np.random.default_rng(0))).value == pytest.approx(2.0)


def test_errors_of_two_independent_correlations_add_as_squares(monkeypatch):
    """The mean of both has half the root of the sum of squares: of .3 and .4, of .4 and .3."""
    correlations = iter([Estimate(0.5, 0.2, 0.9), Estimate(-0.1, -0.5, 0.2)])

    def choose(rows, architecture, task, threshold):
        one = {"architecture": [architecture], "accuracy": [0.5], "metric": [1.0]}
        return pd.DataFrame(one), ""

    monkeypatch.setattr(counterexamples, "terminal", lambda ds: None)
    monkeypatch.setattr(counterexamples, "choose_treatment", choose)
    monkeypatch.setattr(counterexamples, "correlation", lambda *both: next(correlations))
    estimate = counterexamples.nearer_is_worse(None)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.2, -0.05, 0.45))


def test_the_best_of_many_guessing_attempts_is_not_beyond_chance():
    """One of 50 attempts has 60 of 100 answers right, as has the only attempt at another task."""
    rows = pd.DataFrame({"dataset": "mnist", "order": "sequential", "accuracy": [0.5] * 49 + [0.6]})
    alone = pd.DataFrame({"dataset": "imdb", "order": "sequential", "accuracy": [0.6]})
    rows = pd.concat([rows, alone], ignore_index=True).assign(noise="none")
    datasets = {"dataset": ["mnist", "imdb"]}
    ds = xr.Dataset(
        {"largest_class": ("dataset", [0.5, 0.5]), "examples": (("split", "dataset"), [[100] * 2])},
        {**datasets, "split": ["test"]},
    )
    assert stats.binom.sf(59, 100, 0.5) < 0.05 < 50 * stats.binom.sf(59, 100, 0.5)
    assert beyond_chance(rows, ds).tolist() == [False] * 50 + [True]


def test_attempts_at_chance_are_not_among_the_best():
    """All gradients vanish. On one of the two data sets, no attempt is better than chance."""
    draw = with_metric(lambda rng, accuracy: -100.0 + 0 * accuracy)
    ds = draw(np.random.default_rng(0))
    assert best_had_vanished_in_training(ds).n == 12  # tasks
    ds["accuracy"].loc[{"dataset": "imdb"}] = 0.1
    assert ds["largest_class"].sel(dataset="imdb") == 0.1
    assert best_had_vanished_in_training(ds).n == 6


@pytest.mark.parametrize(("below", "expected"), [(np.inf, 0.5), (0.3, 1.0), (-0.7, 0.0)])
def test_attempts_that_had_vanished_end_in_the_lower_half(below, expected):
    """Accuracies are uniform from 0 to 1. All gradients vanish, or those of the worst or best."""
    sign = np.sign(below)
    draw = with_metric(lambda rng, a: np.where(sign * a < below, -100.0, 0.0))
    estimate = vanished_in_training_are_poor(draw(np.random.default_rng(0)))
    assert estimate.value == pytest.approx(expected)


def test_a_treatment_counts_once_among_those_that_vanished_and_once_among_the_others(monkeypatch):
    """There are 36 treatments of 20 replicates; the metric vanishes in half of these."""
    groups = []
    monkeypatch.setattr(counterexamples, "odds_ratio", lambda *both: groups.extend(both))
    draw = with_metric(lambda rng, a: np.where(np.arange(20) % 2, -100.0, 0.0) + 0 * a)
    counterexamples.vanished_are_among_the_best(draw(np.random.default_rng(0)))
    assert [trials for _, trials in groups] == [36, 36]


def quantity(name, **slopes):
    """Return a quantity of the models whose slopes, by number, are an estimate and one draw."""
    by_name = {}
    for quantities in models.QUANTITIES.values():
        by_name |= quantities

    def slope(number, view="all attempts"):
        return np.array(slopes[f"{view.partition(' ')[0]}_{number}"])

    return by_name[f"diss-3.5-{name}"].draws(SimpleNamespace(slope=slope)).tolist()


def test_slopes_of_models_are_combined_draw_by_draw():
    assert quantity("terminal-sign", all_5=[2.0, -1.0], within_5=[1.0, 3.0]) == [1.0, -1.0]
    assert quantity("reverse-training-size", all_7=[1.0, -2.0], all_8=[-3.0, 1.0]) == [3.0, 2.0]
    assert quantity("reverse-terminal-drop", all_10=[2.0, 4.0], all_11=[1.0, 1.0]) == [0.5, 0.25]


# long time gaps, latching and padded images


def test_only_networks_without_a_penalty_count_as_learners():
    ds = linear(np.random.default_rng(0))
    ds["accuracy"].loc[{"orthogonality": 0.0}] = 0.5
    ds["accuracy"].loc[{"orthogonality": 0.1}] = 0.9
    assert deciding_input_emphasized(ds).notes == ("no network is better than chance",)


def test_the_best_of_twenty_guessing_networks_did_not_learn():
    """With 4,000 test sequences, .5135 is rare for one network that guesses, not for twenty."""
    ds = linear(np.random.default_rng(0))
    ds["accuracy"][:] = 0.5135
    correct = round(0.5135 * 4000)
    assert stats.binom.sf(correct - 1, 4000, 0.5) < 0.05 < 20 * stats.binom.sf(correct, 4000, 0.5)
    assert deciding_input_emphasized(ds).notes == ("no network is better than chance",)


def test_weights_beyond_the_figure_do_not_count():
    """A weight of 100 is 102,400 in the figure's units, beyond its 10,000; nobody learns there."""
    ds = coadjoint(np.random.default_rng(0))
    assert smallest_share_learned(ds).value == 1
    ds["kappa"][3] = 100.0
    ds["test_metric"][3] = 0.5
    assert smallest_share_learned(ds).value == 1


@pytest.mark.parametrize("orders", [-4.0, 4.0])
def test_adjoints_that_explode_do_not_stay_either(orders):
    ds = latching(np.random.default_rng(0), latch=1.0)
    assert adjoints_stay(ds).value == 1
    ds["adjoint_median"].loc[{"time": 23}] += orders
    assert adjoints_stay(ds).value == 0


def test_the_sweep_ends_with_the_largest_weight_of_the_figure():
    """A weight of 1 is 1,024 in the figure's units, within its range; a weight of 2 is not."""
    ds = sweep(np.random.default_rng(0), together=True)
    expected = [estimate.value for estimate in nearness(ds.isel(run=slice(4, None)), 0)]
    ds["kappa"][4:] = 1.0
    ds["kappa"][:4] = 2.0
    assert [estimate.value for estimate in nearness(ds, 0)] == expected


def test_no_relation_must_hold_for_both_initializations(monkeypatch):
    both = [Estimate(-0.3, -0.5, -0.1), Estimate(0.1, -0.1, 0.3)]
    monkeypatch.setattr(padding, "nearness", lambda ds, rows: both)
    estimate = padding.unrelated_without_padding(None)
    assert (estimate.value, estimate.high) == (0.3, 0.5)
