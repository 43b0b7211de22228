"""A variance for each architecture, against statsmodels' weighted and generalised least squares, and where it decides."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.regression.linear_model import GLS, WLS
from test_robust_errors import make

from lib.analysis.design import design, with_covariates
from lib.analysis.linear import fit
from lib.analysis.reml import ConvergenceError
from lib.analysis.unequal import with_own_variances

NAMES = np.array(["rnn", "gru", "lstm"])


def test_weights_are_those_of_statsmodels_and_agree_with_the_residuals():
    made = make(epochs=1)
    groups = NAMES[np.arange(60) % 3]
    found = with_own_variances(fit(made), groups)
    deviation = found.variances.set_index("group")["residual_sd"][groups].to_numpy()
    theirs = WLS(made.response, made.matrix(), weights=deviation**-2.0).fit(cov_type="fixed scale")
    np.testing.assert_allclose(found.coefficients["estimate"], theirs.params, rtol=1e-6)
    np.testing.assert_allclose(found.coefficients["standard_error"], theirs.bse, rtol=1e-6)
    leverage = np.einsum("np,pn->n", theirs.model.wexog, theirs.model.pinv_wexog)
    for name in NAMES:
        own = groups == name
        expected = np.sum(theirs.resid[own] ** 2) / (own.sum() - leverage[own].sum())
        assert deviation[own][0] ** 2 == pytest.approx(expected, rel=1e-5)
    # The basic RNN's response has a standard deviation of about 5, the others' of about 1.
    assert deviation[groups == "rnn"][0] > 3 * deviation[groups == "gru"][0]


def test_with_intercepts_it_is_generalised_least_squares():
    made = make(attempts=90)
    groups = NAMES[np.arange(90) % 3]
    found = with_own_variances(fit(made, random=True), groups)
    sizes = found.variances.set_index("group")
    same = made.attempt[:, None] == made.attempt
    of_row = groups[made.attempt]
    between = sizes["group_sd"][of_row].to_numpy() ** 2
    sigma = same * between + np.diag(sizes["residual_sd"][of_row].to_numpy() ** 2)
    theirs = GLS(made.response, made.matrix(), sigma=sigma).fit(cov_type="fixed scale")
    np.testing.assert_allclose(found.coefficients["estimate"], theirs.params, rtol=1e-5)
    np.testing.assert_allclose(found.coefficients["standard_error"], theirs.bse, rtol=1e-5)
    assert sizes.loc["rnn", "group_sd"] > 10 * sizes.loc["lstm", "group_sd"]


def test_an_effect_within_a_quiet_architecture_is_found_where_a_loud_one_drowns_it():
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"architecture": np.repeat(NAMES[:2], 100), "learning_rate": 0.1})
    table = with_covariates(table, {"architecture": "gru"})
    x = rng.normal(size=200)
    response = 0.1 * x + np.where(table["architecture"] == "gru", 0.2, 20.0) * rng.normal(size=200)
    made = design(("architecture", "accuracy"), table, response, measured={"accuracy": x})
    common = fit(made).coefficients.set_index("term").loc["accuracy"]
    own = with_own_variances(fit(made), np.repeat(NAMES[:2], 100)).coefficients
    own = own.set_index("term").loc["accuracy"]
    assert common["p_value"] > 0.05 and common["robust_p"] > 0.05
    assert own["p_value"] < 1e-3 and own["estimate"] == pytest.approx(0.1, abs=0.06)


def test_a_group_that_is_fitted_exactly_has_no_variance():
    table = pd.DataFrame({"architecture": ["rnn", "gru", "gru", "gru"], "learning_rate": 0.1})
    made = design(("architecture",), with_covariates(table, {}), np.array([1.0, 2.0, 2.5, 3.1]))
    with pytest.raises(ConvergenceError, match="rnn has no attempt left"):
        with_own_variances(fit(made), table["architecture"].to_numpy())
