"""The simulated dataset: the numbers of the text exactly, its coefficients within chance, and the same again."""

import numpy as np
import pytest

from lib.analysis.simulated import PROFILE, caution, covariances, entered, published
from lib.analysis.simulated.draw import SCHEMA, simulate
from lib.analysis.simulated.recovery import coverage, fitted_to, recover
from lib.analysis.tenet import compare
from lib.analysis.tenet.fits import fit_models
from lib.analysis.tenet.models import MODELS
from lib.results.factorial import COMPLETED, MISSING, validate
from lib.results.published import load_published
from lib.results.schema import ResultsError


@pytest.fixture(scope="module")
def small():
    return simulate(1, replicates=2)


def test_completed_attempts_and_rows_are_those_of_the_text():
    completed = entered.completed()
    lengths = published.treatments()["training_length"].to_numpy()
    assert completed.sum() == 29_566
    assert completed @ lengths == 1_072_475
    assert completed.min() >= 0 and completed.max() <= 10
    assert (completed[~entered.possible()] == 0).all()


def test_the_standard_errors_tell_nearly_the_number_of_the_text():
    told = entered.by_errors()
    assert sum(told.values()) == pytest.approx(29_566, rel=0.02)
    # UnICORNN never failed numerically by Table 1.7, and yet far from all of its attempts entered.
    assert told["unicornn"] < 3000


def test_reference_architecture_always_completes():
    table = published.treatments()
    assert (entered.completed()[table["architecture"] == "antisymmetric"] == 10).all()


def test_the_published_condition_number_is_that_of_natural_logarithms():
    names, matrix = published.columns()
    weight = np.sqrt(entered.completed())[:, None]
    decimal = published.in_decimal_logarithms(names, matrix)
    stated = published.summary(6)["condition_number"]
    for columns, other in ((matrix, decimal), (matrix * weight, decimal * weight)):
        natural = np.linalg.cond(columns)
        assert abs(natural - stated) < 0.1 * stated < abs(np.linalg.cond(other) - stated)


def test_the_design_s_moments_are_those_that_the_simple_models_imply():
    names, matrix = published.columns()
    n = entered.completed()
    accuracy = np.average(matrix @ published.vector(6, names), weights=n)
    metric = np.average(matrix @ published.vector(12, names), weights=n)
    whole = published.terminal()
    assert accuracy == pytest.approx(whole.accuracy, abs=1e-3)
    assert metric == pytest.approx(whole.metric, abs=0.05)
    correlation = whole.covariance**2 / (whole.var_accuracy * whole.var_metric)
    assert correlation == pytest.approx(load_published("diss-tab-3.6")["r2"][0], abs=1e-3)


def test_expected_fits_have_the_published_coefficients():
    fits = covariances.expected_fits(covariances.training_process(), (1, 2, 3, 7, 8, 9))
    for number, found in fits.items():
        errors = published.errors(number)
        for term, value in published.estimates(number).items():
            assert abs(found[term] - value) < 0.5 * errors[term], f"{MODELS[number].name} {term}"
        for name in ("rmse", "r2_conditional", "r2_marginal"):
            assert found[name] == pytest.approx(
                published.summary(number)[name], abs=0.005, rel=0.01
            )


def test_the_dataset_follows_the_schema_and_says_what_it_is(small):
    SCHEMA.validate(small)
    assert small.attrs["profile"] == PROFILE and "No network was trained" in caution(PROFILE)
    assert caution("quick") == ""
    with pytest.raises(ResultsError, match="expected results of schema 'factorial/2'"):
        validate(small)
    assert small.sizes["replicate"] == 2
    ran = small["status"].sel(architecture="unicornn", dataset="mnist", noise="post")
    assert (ran == MISSING).all()
    assert small["accuracy"].min() < 0, "normal accuracies are not cut off"


def test_the_same_seed_gives_the_same_dataset_and_another_another(small):
    assert simulate(1, replicates=2).identical(small)
    other = simulate(2, replicates=2)
    assert not np.array_equal(other["status"], small["status"])


def test_replicates_out_of_range_are_refused():
    with pytest.raises(ValueError, match="replicates is 11; expected 1 to 10"):
        simulate(1, replicates=11)


def test_intervals_hold_what_the_simulation_was_not_fitted_to():
    drawn = recover(range(4))
    assert drawn["z"].notna().all() and drawn.groupby("seed").size().nunique() == 1
    assert not any(fitted_to(row.model, row.term) for row in drawn.itertuples())
    table = coverage(drawn)
    # A wrong sign, reference level or unit would leave next to nothing covered.
    assert table["covered"].between(0.85, 1).all() and table["rms"].between(0.75, 1.3).all()


def test_what_the_simulation_was_fitted_to_is_named():
    assert fitted_to(6, "intercept") and fitted_to(2, "metric") and fitted_to(1, "RMSE")
    assert not fitted_to(2, "intercept") and not fitted_to(6, "R²") and not fitted_to(5, "RMSE")


def test_the_whole_published_table_is_estimated_on_a_part_of_the_dataset(small):
    table = compare.recovery(fit_models(small, MODELS)[1])
    assert table["z"].notna().all()
    assert len(table) == sum(len(load_published(m.table)) for m in MODELS.values())


def test_labels_of_status_are_consistent(small):
    done = small["status"] == COMPLETED
    assert (small["epochs_completed"].where(~done, 0) == 0).all()
