"""Linear fits against statsmodels.

Robust errors, known variances, a variance per group, random intercepts.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from statsmodels.regression.linear_model import GLS, OLS
from statsmodels.regression.mixed_linear_model import MixedLM
from statsmodels.stats.meta_analysis import combine_effects
from study.stats.covariates import with_covariates
from study.stats.design import NothingToFit
from study.stats.estimability import estimable, independent
from study.stats.linear import fit
from study.stats.reml import ConvergenceError, fit_random_intercept, moments
from study.stats.terms import build_design
from study.stats.variances import fit_group_variances, fit_known_variance

TERMS = ("architecture", "log_rate", "log_rate_squared", "epoch")
NAMES = np.array(["rnn", "gru", "lstm"])


def make(seed=0, attempts=60, offset=0.0, epochs=5, treatment=None):
    """Return a design of attempts of unequal length; architectures differ in variance."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"architecture": NAMES[np.arange(attempts) % 3]})
    table["learning_rate"] = 10.0 ** -rng.integers(1, 5, attempts)
    table = with_covariates(table, {"architecture": "gru"})
    attempt = np.repeat(np.arange(attempts), rng.integers(1, epochs + 1, attempts))
    epoch = np.arange(len(attempt)) % 7 + 1.0
    spread = np.where(table["architecture"] == "rnn", 5.0, 0.2)
    response = 0.1 * epoch + (spread * rng.normal(size=attempts))[attempt]
    response += rng.normal(size=len(attempt)) + offset
    of_rows = {"attempt": attempt, "measured": {"epoch": epoch}}
    return build_design(TERMS, table, response, treatment=treatment, **of_rows)


def simple(response, architectures=None):
    """Return the design of a mean, or of the means of architectures."""
    names = architectures or ["rnn"] * len(response)
    table = pd.DataFrame({"architecture": pd.Categorical(names), "learning_rate": 0.1})
    return build_design(
        ("architecture",) if architectures else (), table, np.asarray(response, float)
    )


# columns that are independent, and coefficients that can be estimated


def test_independent_and_estimable_columns_of_small_matrices():
    matrix = np.array([[1, 1, 0, 2, 0], [1, 0, 1, 3, 0], [1, 0, 1, 3, 0], [1, 1, 0, 2, 0.0]])
    # The second and third column add up to the first, the fourth is a combination of others, and
    # the fifth is empty.
    assert independent(matrix).tolist() == [True, True, False, False, False]
    # Groups a and b with their sum, and a column of its own: only the latter has one value.
    matrix = np.array([[1, 1, 0, 5], [1, 1, 0, 7], [1, 0, 1, 6], [1, 0, 1, 1.0]])
    assert estimable(matrix).tolist() == [False, False, False, True]
    assert estimable(matrix[:, 1:]).tolist() == [True, True, True]
    matrix = np.random.default_rng(0).normal(size=(20, 5)) * [1e6, 1, 1e-9, 1e3, 1e-3]
    matrix[:, 4] = 1e-9 * (matrix[:, 0] / 1e6 + matrix[:, 1])  # units change nothing
    assert estimable(matrix).tolist() == [False, False, True, True, False]
    assert independent(matrix).sum() == 4


LEVELS = {"architecture": ["antisymmetric", "gru", "lstm"], "learning_rate": [0.001, 0.01, 0.1]}
LEVELS |= {"noise": ["none", "post"], "width": [8], "replicate": [0, 1]}
WHOLE = pd.MultiIndex.from_product(LEVELS.values(), names=LEVELS).to_frame(index=False)
MAIN = LINE, SQUARE, POST = "log_rate", "log_rate_squared", "noise[post]"
GRU = ["architecture[gru]", *(f"architecture[gru]:{main}" for main in MAIN)]
LSTM = ["architecture[lstm]", *(f"architecture[lstm]:{main}" for main in MAIN)]
"""Names of an architecture's own column and of its interactions, in the order of `MAIN`."""
REST = ["intercept", *MAIN, *GRU]
NO_POST = "noise != 'post' or architecture != '{}'"
TWO_RATES = "2 levels of learning rate, log(learning rate)² needs 3"
OVERLAP = "its column is a combination of others"


@pytest.mark.parametrize(
    ("entered", "cause", "dropped", "changed"),
    [
        ("learning_rate != 0.01", f"the attempts have {TWO_RATES}", [SQUARE, GRU[2], LSTM[2]], []),
        (
            "learning_rate < 0.1 or architecture != 'gru'",
            f"gru entered with {TWO_RATES}",
            GRU[2:3],
            GRU[:2],
        ),
        ("architecture != 'lstm'", "no attempt of lstm entered", LSTM, []),
        ("architecture != 'antisymmetric'", "no attempt of antisymmetric entered", LSTM, REST),
        (NO_POST.format("lstm"), "no attempt of lstm with post entered", LSTM[3:], []),
        (NO_POST.format("antisymmetric"), OVERLAP, LSTM[3:], [POST, GRU[3]]),
    ],
)
def test_inestimable_coefficients_have_a_cause(entered, cause, dropped, changed):
    """Without post noise on the reference architecture, interactions absorb the noise's effect."""
    table = with_covariates(WHOLE, {"architecture": "antisymmetric", "noise": "none"})
    table = table.query(entered).reset_index(drop=True)
    terms = ["log_rate", "log_rate_squared", "noise"]
    terms = ["architecture", "width", *terms, *(f"architecture:{term}" for term in terms)]
    design = build_design(terms, table, np.arange(float(len(table))))
    width = {"width": "the attempts have one width (8)"}
    assert design.dropped == dict.fromkeys(dropped, cause) | width
    assert design.changed == dict.fromkeys(changed, cause)
    assert np.linalg.matrix_rank(design.matrix()) == len(design.names)


# columns far from zero, and masked rows


def _covariate_model(shift, *, varying):
    """Return the design of y = 2 + 3 x + group + noise, x given as x + shift."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(30), 20)
    x = rng.normal(size=600)
    if not varying:
        x = x[:30][group]
    y = 2 + 3 * x + rng.normal(size=30)[group] + 0.5 * rng.normal(size=600)
    table = pd.DataFrame({"learning_rate": np.full(30, 0.1)})
    if varying:
        return build_design(("x",), table, y, attempt=group, measured={"x": x + shift})
    return build_design(("x",), table.assign(x=x[::20] + shift), y, attempt=group)


@pytest.mark.parametrize("random", [True, False], ids=["mixed", "least squares"])
@pytest.mark.parametrize("varying", [True, False])
@pytest.mark.parametrize("shift", [4e6, 3.3e7, -1e9])
def test_shifted_covariate_keeps_its_coefficient(shift, varying, random):
    plain = fit(_covariate_model(0.0, varying=varying), random=random)
    shifted = fit(_covariate_model(shift, varying=varying), random=random)
    columns = ["estimate", "standard_error", "robust_error"]
    ours, theirs = (one.coefficients.set_index("term")[columns] for one in (shifted, plain))
    np.testing.assert_allclose(ours.loc["x"], theirs.loc["x"], rtol=1e-6)
    intercept = theirs.loc["intercept", "estimate"] - shift * theirs.loc["x", "estimate"]
    assert ours.loc["intercept", "estimate"] == pytest.approx(intercept, rel=1e-6)
    for name in ("residual_sd", "group_sd") if random else ("residual_sd",):
        assert shifted.summary[name] == pytest.approx(plain.summary[name], rel=1e-6)
    np.testing.assert_allclose(shifted.fitted, plain.fitted, atol=1e-6)


def test_slope_of_shifted_covariate_equals_statsmodels():
    design = _covariate_model(0.0, varying=True)
    theirs = MixedLM(design.response, design.matrix(), groups=design.attempt).fit(reml=True)
    ours = fit(_covariate_model(3.3e7, varying=True), random=True)
    assert ours.estimate("x") == pytest.approx(theirs.params[1], rel=1e-5)
    assert ours.estimate("x", "standard_error") == pytest.approx(theirs.bse[1], rel=1e-3)


def test_moments_of_uncentered_columns_are_refused():
    design = _covariate_model(0.0, varying=True)
    columns = np.column_stack([design.varying + 3.3e7, design.response])
    with pytest.raises(ConvergenceError, match="subtract a constant from those far from zero"):
        fit_random_intercept(moments(np.ones((30, 1)), columns, design.attempt))


@pytest.mark.parametrize("random", [True, False])
def test_masked_rows_are_left_out(random):
    design = make()
    masked = np.ma.masked_greater(design.response, np.quantile(design.response, 0.8))
    table = pd.DataFrame({"learning_rate": np.full(60, 0.1)})
    left_out = ~masked.mask
    attempt = pd.factorize(design.attempt[left_out])[0]
    ours = fit(build_design((), table, masked, attempt=design.attempt), random=random)
    kept = design.response[left_out]
    theirs = fit(build_design((), table[: attempt.max() + 1], kept, attempt=attempt), random=random)
    assert ours.coefficients.equals(theirs.coefficients) and ours.summary == theirs.summary
    with pytest.raises(NothingToFit, match="all values of the response are masked"):
        build_design((), table, np.ma.masked_all(len(design.response)), attempt=design.attempt)


# Yield of dyestuff in grams from five samples of six batches (Davies, 1947), lme4's `Dyestuff`.
DYESTUFF = np.array(
    [
        [1545, 1440, 1440, 1520, 1580],
        [1540, 1555, 1490, 1560, 1495],
        [1595, 1550, 1605, 1510, 1560],
        [1445, 1440, 1595, 1465, 1545],
        [1595, 1630, 1515, 1635, 1625],
        [1520, 1455, 1450, 1480, 1445],
    ],
    dtype=float,
)


@pytest.mark.parametrize(
    ("limit", "mean", "standard_error"), [(2000, 1527.5, 19.38), (1600, 1514.5, 13.1)]
)
def test_masked_dyestuff_equals_lme4(limit, mean, standard_error):
    batch = np.repeat(np.arange(6), 5)
    table = pd.DataFrame({"learning_rate": np.full(6, 0.1)})
    yields = np.ma.masked_greater(DYESTUFF.ravel(), limit)
    mixed = fit(build_design((), table, yields, attempt=batch), random=True)
    assert mixed.estimate("intercept") == pytest.approx(mean, abs=0.05)
    error = mixed.estimate("intercept", "standard_error")
    assert error == pytest.approx(standard_error, abs=0.05)


# least squares and robust errors


@pytest.mark.parametrize("offset", [0, 1e6])
def test_hc3_equals_statsmodels_with_large_mean(offset):
    design = make(epochs=1, offset=offset)
    result = fit(design).coefficients
    # statsmodels loses digits to the offset; the subtraction is exact.
    theirs = OLS(design.response - offset, design.matrix()).fit(cov_type="HC3")
    np.testing.assert_allclose(result["robust_error"], theirs.bse, rtol=1e-10)
    expected = theirs.params + np.where(result["term"] == "intercept", offset, 0.0)
    np.testing.assert_allclose(result["estimate"], expected, rtol=1e-10)


def test_jackknife_leaves_out_one_treatment():
    design = make(epochs=1, treatment=np.arange(60) % 17)
    result = fit(design).coefficients
    matrix = design.matrix()
    left = [design.treatment != treatment for treatment in range(17)]
    every = np.array([OLS(design.response[one], matrix[one]).fit().params for one in left])
    expected = np.sqrt(((every - result["estimate"].to_numpy()) ** 2).sum(axis=0))
    np.testing.assert_allclose(result["robust_error"], expected, rtol=1e-8)
    assert (result["robust_df"] == 17 - len(result)).all()


@pytest.mark.parametrize("treatment", [None, np.arange(60) % 17])
def test_clustered_errors_equal_statsmodels(treatment):
    design = make(treatment=treatment)
    result = fit(design, random=True)
    ratio = (result.summary["group_sd"] / result.summary["residual_sd"]) ** 2
    n = np.bincount(design.attempt)

    def transform(column):
        means = np.bincount(design.attempt, weights=column) / n
        return column - ((1 - 1 / np.sqrt(1 + n * ratio)) * means)[design.attempt]

    matrix = np.apply_along_axis(transform, 0, design.matrix())
    groups = {"groups": design.treatment[design.attempt]}
    theirs = OLS(transform(design.response), matrix).fit(cov_type="cluster", cov_kwds=groups)
    np.testing.assert_allclose(result.coefficients["estimate"], theirs.params, rtol=1e-6)
    np.testing.assert_allclose(result.coefficients["robust_error"], theirs.bse, rtol=1e-6)


def test_saturated_coefficient_has_no_robust_error():
    design = simple(np.arange(8.0) ** 2, ["gru"] * 4 + ["rnn"] * 3 + ["lstm"])
    errors = fit(design).coefficients.set_index("term")["robust_error"]
    assert np.isnan(errors["architecture[lstm]"])
    assert errors[["intercept", "architecture[rnn]"]].gt(0).all()


# variances that are known in part


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_known_variances_give_a_meta_analysis(spread):
    rng = np.random.default_rng(2)
    variance = rng.uniform(0.001, 0.05, 12)
    values = 0.5 + rng.normal(0, np.sqrt(variance + spread**2))
    estimate, error, shared = fit_known_variance(simple(values), variance)
    theirs = combine_effects(values, variance, method_re="iterated")
    assert shared == pytest.approx(theirs.tau2, abs=1e-5)
    assert estimate.item() == pytest.approx(theirs.mean_effect_re, abs=1e-5)
    assert error.item() == pytest.approx(theirs.sd_eff_w_re, rel=1e-4)


def test_unknown_variances_give_least_squares():
    design = simple([0.1, 0.3, 0.7, 0.4], ["a", "a", "b", "b"])
    theirs = OLS(design.response, design.matrix()).fit()
    result = fit_known_variance(design, np.full(4, np.nan))
    np.testing.assert_allclose(result[:2], [theirs.params, theirs.bse])
    result = fit_known_variance(simple([0.5, 0.7], ["a", "b"]), np.array([4e-4, 5e-4]))
    np.testing.assert_allclose(result[:2], [[0.5, 0.2], [0.02, 0.03]])
    assert result[2] == 0


# a variance for each group


@pytest.mark.parametrize("random", [False, True])
def test_group_variances_equal_generalized_least_squares(random):
    design = make(attempts=90, epochs=5 if random else 1)
    groups = NAMES[np.arange(90) % 3]
    design = replace(design, response=3 * design.response)
    result = fit_group_variances(fit(design, random=random), groups)
    sizes = result.variances.set_index("group").fillna(0.0)
    of_row = groups[design.attempt]
    between, within = (sizes[name][of_row].to_numpy() ** 2 for name in ("group_sd", "residual_sd"))
    sigma = (design.attempt[:, None] == design.attempt) * between + np.diag(within)
    theirs = GLS(design.response, design.matrix(), sigma=sigma).fit(cov_type="fixed scale")
    close = {"rtol": 1e-5 if random else 1e-6}
    np.testing.assert_allclose(result.coefficients["estimate"], theirs.params, **close)
    np.testing.assert_allclose(result.coefficients["standard_error"], theirs.bse, **close)
    leverage = np.einsum("np,pn->n", theirs.model.wexog, theirs.model.pinv_wexog)
    for in_group in (of_row == name for name in NAMES if not random):
        expected = np.sum(theirs.resid[in_group] ** 2) / (in_group.sum() - leverage[in_group].sum())
        assert within[in_group][0] == pytest.approx(expected, rel=1e-5)
    # Standard deviations: about 15 for attempts of the basic RNN, 0.6 for the others, 3 for rows.
    if random:
        result = sizes["group_sd"][["rnn", "lstm"]].tolist()
        assert result == pytest.approx([15, 0.6], rel=0.4, abs=1)
    else:
        assert sizes.loc["rnn", "residual_sd"] > 3 * sizes.loc["gru", "residual_sd"]


# random intercepts; their estimates and criterion are held to lme4 in `test_tenet`


def groups_of(seed=0, groups=12, deviation=1.0):
    """Return a small unbalanced example.

    It has constant columns, varying columns, group numbers and a response.
    """
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), rng.integers(1, 7, groups))
    constant = np.column_stack([np.ones(groups), rng.normal(size=groups)])
    varying = rng.normal(size=(len(group), 1))
    noise = deviation * rng.normal(size=groups)[group] + rng.normal(size=len(group))
    return constant, varying, group, constant[group] @ [2.0, -1.0] + 0.5 * varying[:, 0] + noise


def fit_groups(constant, varying, group, response):
    return fit_random_intercept(moments(constant, np.column_stack([varying, response]), group))


@pytest.mark.parametrize("ratio", [1e6, 1e10])
def test_large_variance_ratios_are_estimated(ratio):
    constant, varying, group, _ = groups_of(groups=60)
    rng = np.random.default_rng(2)
    response = np.sqrt(ratio) * rng.normal(size=60)[group] + rng.normal(size=len(group))
    result = fit_groups(constant, varying, group, response)
    logs = np.log10(result.group_variance / result.residual_variance)
    assert logs == pytest.approx(np.log10(ratio), abs=0.3)
    assert result.residual_variance == pytest.approx(1, rel=0.5)


# refusals


def without_intercept(**changed):
    constant, varying, group, response = groups_of()
    given = {"constant": constant, "varying": varying, "group": group, "response": response}
    return lambda: fit_groups(**given | changed)


CONSTANT, _, GROUP, _ = groups_of()
ONES = np.ones((9, 1))
NINE = np.arange(9.0)
ALONE = ["rnn", "gru", "gru", "gru"]
test_unfittable_models_are_refused = refused(
    (ConvergenceError, NothingToFit),
    ("there is one group", lambda: fit_groups(ONES[:1], NINE[:, None], np.zeros(9, int), NINE**2)),
    (
        "cannot separate a random inter",
        lambda: fit_groups(ONES, np.sin(NINE)[:, None], range(9), NINE),
    ),
    ("does not vary within any group beyond", without_intercept(response=np.sin(GROUP))),
    ("not independent", without_intercept(constant=CONSTANT[:, [0, 1, 1]])),
    ("column is zero", without_intercept(constant=CONSTANT * [1, 0])),
    (
        "rnn has no attempt to measure its variance",
        lambda: fit_group_variances(fit(simple([1.0, 2.0, 2.5, 3.1], ALONE)), np.array(ALONE)),
    ),
    ("1 of 3 values of the response are not fin", lambda: simple([1.0, np.nan, 2.0])),
)
