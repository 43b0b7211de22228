"""Robust standard errors against statsmodels', and what they are for: a test that keeps its level where variances differ."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.regression.linear_model import OLS

from lib.analysis.design import CENTRE, NothingToFit, design, with_covariates
from lib.analysis.linear import detectable, fit

TERMS = ("architecture", "log_rate", "log_rate_squared", "epoch")


def make(seed=0, attempts=60, offset=0.0, epochs=5):
    """Return a design over attempts of unequal length whose variance differs between architectures."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"architecture": np.array(["rnn", "gru", "lstm"])[np.arange(attempts) % 3]}
    )
    table["learning_rate"] = 10.0 ** -rng.integers(1, 5, attempts)
    table = with_covariates(table, {"architecture": "gru"})
    attempt = np.repeat(np.arange(attempts), rng.integers(1, epochs + 1, attempts))
    epoch = np.arange(len(attempt)) % 7 + 1.0
    spread = np.where(table["architecture"] == "rnn", 5.0, 0.2)
    response = (
        0.1 * epoch + (spread * rng.normal(size=attempts))[attempt] + rng.normal(size=len(attempt))
    )
    return design(TERMS, table, response + offset, attempt=attempt, measured={"epoch": epoch})


def test_hc3_is_that_of_statsmodels():
    made = make(epochs=1)
    found = fit(made).coefficients
    theirs = OLS(made.response, made.matrix()).fit(cov_type="HC3")
    np.testing.assert_allclose(found["robust_error"], theirs.bse, rtol=1e-10)
    np.testing.assert_allclose(found["estimate"], theirs.params, rtol=1e-10)


def test_clusters_are_those_of_statsmodels_on_rows_without_their_common_part():
    made = make()
    found = fit(made, random=True)
    ratio = (found.summary["group_sd"] / found.summary["residual_sd"]) ** 2
    n = np.bincount(made.attempt)

    def transform(column):
        means = np.bincount(made.attempt, weights=column) / n
        return column - ((1 - 1 / np.sqrt(1 + n * ratio)) * means)[made.attempt]

    matrix = np.apply_along_axis(transform, 0, made.matrix())
    theirs = OLS(transform(made.response), matrix).fit(
        cov_type="cluster", cov_kwds={"groups": made.attempt}
    )
    np.testing.assert_allclose(found.coefficients["estimate"], theirs.params, rtol=1e-6)
    np.testing.assert_allclose(found.coefficients["robust_error"], theirs.bse, rtol=1e-6)


def test_a_mean_of_a_million_costs_no_digits():
    near, far = fit(make(), random=True), fit(make(offset=1e6), random=True)
    assert far.estimate("intercept") - 1e6 == pytest.approx(near.estimate("intercept"), abs=1e-6)
    np.testing.assert_allclose(
        far.coefficients["estimate"][1:], near.coefficients["estimate"][1:], atol=1e-7
    )
    np.testing.assert_allclose(
        far.coefficients["robust_error"], near.coefficients["robust_error"], rtol=1e-5
    )


@pytest.mark.slow
def test_the_robust_test_keeps_its_level_where_the_model_s_does_not():
    # Five of ten attempts of one architecture scatter 25 times as widely as the rest.
    wrong = {"p_value": 0, "robust_p": 0}
    draws = 400
    for seed in range(draws):
        found = fit(make(seed)).coefficients.set_index("term")
        for name in wrong:
            wrong[name] += found[name]["architecture[lstm]"] < 0.05
    # lstm and gru are equal; the common variance is far too large for them, so that the model hardly ever rejects.
    assert wrong["p_value"] / draws < 0.02
    unequal = fit(make(0)).coefficients.set_index("term")
    assert (
        unequal["robust_error"]["architecture[lstm]"]
        < unequal["standard_error"]["architecture[lstm]"]
    )


def test_an_attempt_alone_with_its_coefficient_has_no_robust_error():
    table = pd.DataFrame(
        {"architecture": ["gru"] * 4 + ["rnn"] * 3 + ["lstm"], "learning_rate": 0.1}
    )
    table = with_covariates(table, {"architecture": "gru"})
    found = fit(design(("architecture",), table, np.arange(8.0) ** 2)).coefficients.set_index(
        "term"
    )
    assert np.isnan(found["robust_error"]["architecture[lstm]"])
    assert found["robust_error"][["intercept", "architecture[rnn]"]].gt(0).all()


def test_centring_changes_neither_fit_nor_curvature():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"architecture": rng.choice(["rnn", "gru"], 90)})
    table["learning_rate"] = 10.0 ** -rng.integers(1, 6, 90)
    response = rng.normal(size=90)
    terms = (*TERMS[:3], "architecture:log_rate", "architecture:log_rate_squared")
    plain, centred = (
        fit(design(terms, with_covariates(table, {"architecture": "gru"}, centre=centre), response))
        for centre in (1.0, CENTRE)
    )
    np.testing.assert_allclose(plain.fitted, centred.fitted, atol=1e-9)
    assert plain.estimate("log_rate_squared") == pytest.approx(centred.estimate("log_rate_squared"))
    assert plain.summary["condition_number"] > 10 * centred.summary["condition_number"]


def test_the_detectable_effect_is_found_four_times_in_five():
    rng = np.random.default_rng(3)
    effect = detectable(1.0)
    assert effect == pytest.approx(1.96 + 0.84, abs=0.01)
    assert np.mean(np.abs(rng.normal(effect, 1, 100_000)) > 1.96) == pytest.approx(0.8, abs=0.01)


def test_numbers_that_are_none_are_refused():
    table = with_covariates(pd.DataFrame({"learning_rate": [0.1] * 3}), {})
    with pytest.raises(NothingToFit, match="1 of 3 values of the response are not finite"):
        design((), table, np.array([1.0, np.nan, 2.0]))
