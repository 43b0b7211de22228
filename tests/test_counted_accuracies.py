"""The binomial error of accuracies in the models of task accuracy: against statsmodels, by hand, and where it decides."""

import chapter1_data
import numpy as np
import pandas as pd
import pytest
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.meta_analysis import combine_effects
from test_task_accuracy import results

from lib.analysis import comparisons, task_models
from lib.analysis.accuracy import at_best, entered, grade
from lib.analysis.attempts import TASK
from lib.analysis.design import design
from lib.analysis.linear import with_known_variance


def columns(response, groups=None):
    table = pd.DataFrame({"architecture": pd.Categorical(groups or ["rnn"] * len(response))})
    return design(("architecture",) if groups else (), table, np.asarray(response, float))


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_a_mean_of_known_variances_is_that_of_a_meta_analysis(spread):
    rng = np.random.default_rng(2)
    variance = rng.uniform(0.001, 0.05, 12)
    values = 0.5 + rng.normal(0, np.sqrt(variance + spread**2))
    estimate, error, shared = with_known_variance(columns(values), variance)
    theirs = combine_effects(values, variance, method_re="iterated")
    assert shared == pytest.approx(theirs.tau2, abs=1e-5)
    assert estimate.item() == pytest.approx(theirs.mean_effect_re, abs=1e-5)
    assert error.item() == pytest.approx(theirs.sd_eff_w_re, rel=1e-4)


def test_without_known_variances_it_is_least_squares():
    made = columns([0.1, 0.3, 0.7, 0.4], ["a", "a", "b", "b"])
    estimate, error, _ = with_known_variance(made, np.full(4, np.nan))
    theirs = OLS(made.response, made.matrix()).fit()
    np.testing.assert_allclose(estimate, theirs.params)
    np.testing.assert_allclose(error, theirs.bse)


def test_one_attempt_for_each_mean_has_the_error_of_counting_alone():
    estimate, error, shared = with_known_variance(
        columns([0.5, 0.7], ["a", "b"]), np.array([4e-4, 5e-4])
    )
    assert shared == 0
    np.testing.assert_allclose(estimate, [0.5, 0.2])
    np.testing.assert_allclose(error, [0.02, 0.03])


def test_the_error_of_a_counted_accuracy_by_hand():
    ds = results()
    ds["examples"][:] = 400
    frame = entered(grade(ds))
    # Two labels: the unit of task accuracy is the best accuracy less a half.
    unit = frame.groupby(list(TASK))["accuracy"].transform("max") - 0.5
    plain = np.sqrt(frame["accuracy"] * (1 - frame["accuracy"]) / 400) / unit
    middle = frame["accuracy"].between(0.2, 0.8)
    np.testing.assert_allclose(frame["sampling_error"][middle], plain[middle], rtol=0.01)
    assert (frame["sampling_error"] > 0).all(), "no accuracy is known exactly, not even 0 or 1"
    ds["examples"][:] = 0
    assert grade(ds)["sampling_error"].isna().all()


@pytest.mark.parametrize("crossed", [False, True])
def test_counting_on_few_sequences_takes_rejections_away(crossed):
    ds = chapter1_data.dataset(chapter1_data.read())
    rejected = {}
    for examples in (0, 10, 100_000):
        ds["examples"][:] = examples
        fits = task_models.fit_first_order(grade(ds), crossed=crossed)
        pairs = comparisons.compare_tasks(fits.coefficients)
        rejected[examples] = int(pairs["weighted_rejected"].sum())
        if examples == 0:
            assert (pairs["weighted_rejected"] == pairs["rejected"]).all()
    assert rejected[10] < rejected[100_000] == rejected[0]


def test_an_error_of_counting_that_explains_all_scatter_leaves_no_luck():
    ds = chapter1_data.dataset(chapter1_data.read())
    ds["examples"][:] = 10
    summary = task_models.fit_first_order(grade(ds)).summary
    assert (summary["luck"] == 0).all()
    ds["examples"][:] = 10**8
    summary = task_models.fit_first_order(grade(ds)).summary
    np.testing.assert_allclose(summary["luck"], summary["sigma"], rtol=1e-3)
    assert (summary["ceiling"] > 0.999).all()


def test_a_deviation_from_the_mean_of_architectures_knows_it_too():
    ds = chapter1_data.dataset(chapter1_data.read())
    ds["examples"][:] = 1000
    frame = grade(ds)
    fits = task_models.fit_first_order(frame)
    table = task_models.deviations(at_best(frame), fits).dropna(subset=["se"])
    ratio = table["weighted_se"] / table["se"]
    assert ratio.between(0.5, 2).all() and not np.allclose(ratio, 1)
