"""The linear models of chapter 1: what they estimate, and that what cannot be told stays empty with its cause."""

import chapter1_data
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from lib.analysis import task_models
from lib.analysis.accuracy import at_best, entered, grade
from lib.analysis.attempts import TASK
from lib.analysis.design import estimable, independent
from lib.plotting.task_models import plot_residuals


@pytest.fixture
def frame():
    return grade(chapter1_data.dataset(chapter1_data.read()))


def causes(fits, **where):
    """Return the causes of the terms of some rows, by term and architecture."""
    rows = fits.coefficients
    for name, value in where.items():
        rows = rows[rows[name] == value]
    return dict(
        zip(zip(rows["term"], rows["architecture"], strict=True), rows["cause"], strict=True)
    )


# Estimability


def test_independent_columns_of_a_hand_made_matrix():
    matrix = np.array([[1, 1, 0, 2, 0], [1, 0, 1, 3, 0], [1, 0, 1, 3, 0], [1, 1, 0, 2, 0.0]])
    # The second and third column add up to the first, the fourth is a combination, the fifth is empty.
    assert independent(matrix).tolist() == [True, True, False, False, False]


def test_estimable_coefficients_of_a_hand_made_matrix():
    # Groups a and b with their sum, and a column of its own: only the latter has one value.
    matrix = np.array([[1, 1, 0, 5], [1, 1, 0, 7], [1, 0, 1, 6], [1, 0, 1, 1.0]])
    assert estimable(matrix).tolist() == [False, False, False, True]
    assert estimable(matrix[:, 1:]).tolist() == [True, True, True]


def test_units_do_not_change_what_can_be_told():
    matrix = np.random.default_rng(0).normal(size=(20, 5))
    matrix[:, 4] = matrix[:, 0] + matrix[:, 1]
    expected = [False, False, True, True, False]
    assert estimable(matrix).tolist() == expected
    assert estimable(matrix * [1e6, 1, 1e-9, 1e3, 1e-3]).tolist() == expected
    assert independent(matrix * [1e6, 1, 1e-9, 1e3, 1e-3]).sum() == 4


def test_terms_as_a_reader_calls_them():
    assert task_models.describe("intercept") == ("intercept", "")
    assert task_models.describe("architecture[gru]") == ("architecture", "gru")
    assert task_models.describe("architecture[gru]:log_rate") == (
        "architecture × log(learning rate)",
        "gru",
    )


# Fits


def test_first_order_coefficients_are_differences_of_means(frame):
    fits = task_models.fit_first_order(frame)
    means = entered(at_best(frame)).groupby([*TASK, "architecture"])["task_accuracy"].mean()
    for row in fits.coefficients[fits.coefficients["cause"] == ""].itertuples():
        base = means[row.dataset, row.order, row.noise, "antisymmetric"]
        own = means[row.dataset, row.order, row.noise, row.architecture or "antisymmetric"]
        assert row.estimate == pytest.approx(own - base if row.architecture else base)


def test_the_reference_changes_the_effects_and_not_the_fit(frame):
    one = task_models.fit_first_order(frame)
    other = task_models.fit_first_order(frame, reference="rnn")
    columns = ["attempts", "adj_r2", "sigma", "df_residual"]
    pd.testing.assert_frame_equal(one.summary[columns], other.summary[columns])
    effect = one.coefficients.query("architecture == 'rnn'")["estimate"].to_numpy()
    reverse = other.coefficients.query("architecture == 'antisymmetric'")["estimate"].to_numpy()
    assert_allclose(effect, -reverse)


def test_a_reference_without_attempts_is_no_reference(frame):
    task = (frame["dataset"] == "imdb") & (frame["order"] == "permuted")
    gone = frame["architecture"].eq("antisymmetric") & task
    lost = frame.assign(left_out=frame["left_out"].mask(gone, "diverged"))
    fits = task_models.fit_second_order(lost)
    told = causes(fits, dataset="imdb", order="permuted")
    kept = {("recurrent dimension", ""), ("training length", "")}
    assert {term for term, cause in told.items() if cause == ""} == kept
    assert set(told.values()) == {"", "no attempt of antisymmetric entered"}
    assert fits.summary["adj_r2"].notna().all(), "the fit itself needs no reference"


def test_one_learning_rate_one_width_one_length(frame):
    few = frame[(frame["learning_rate"] == 0.001) & (frame["width"] == 8)]
    few = few[few["training_length"] == 3]
    fits = task_models.fit_second_order(few)
    told = causes(fits, dataset="digits", order="sequential")
    assert told["log(learning rate)", ""] == "the attempts have one learning rate (0.001)"
    assert told["architecture × log(learning rate)²", "gru"].endswith("one learning rate (0.001)")
    assert told["recurrent dimension", ""] == "the attempts have one width (8)"
    assert told["training length", ""] == "the attempts have one training length (3)"
    assert told["architecture", "gru"] == told["intercept", ""] == ""


def test_two_learning_rates_leave_a_line(frame):
    fits = task_models.fit_second_order(frame[frame["learning_rate"] < 0.05])
    told = causes(fits, dataset="digits", order="sequential")
    assert told["log(learning rate)", ""] == ""
    assert told["log(learning rate)²", ""] == (
        "the attempts have 2 levels of learning rate, log(learning rate)² needs 3"
    )


def test_one_replicate_has_estimates_and_no_errors(frame):
    alone = frame[frame["replicate"] == 0]
    fits = task_models.fit_first_order(alone)
    table = fits.coefficients[fits.coefficients["estimate"].notna()]
    assert len(table) and table[["se", "low", "high", "p_value"]].isna().all(axis=None)
    assert set(table["cause"]) == {"no attempt is left over to measure the error"}
    assert fits.summary[["adj_r2", "sigma"]].isna().all(axis=None)


def test_equal_replicates_have_no_error_to_test_against(frame):
    same = frame.assign(task_accuracy=frame["width"] / 100 + frame["architecture"].map(len) / 50)
    fits = task_models.fit_first_order(same.assign(accuracy=same["task_accuracy"]))
    assert fits.coefficients["se"].isna().all()
    assert "the residuals are all zero" in set(fits.coefficients["cause"])


def test_one_architecture_has_an_intercept_alone(frame):
    fits = task_models.fit_first_order(frame[frame["architecture"] == "rnn"], reference="rnn")
    assert fits.coefficients["term"].tolist() == ["intercept"] * 4
    assert (fits.coefficients["cause"] == "").all()
    with pytest.raises(ValueError, match="needs two; there is rnn alone"):
        task_models.deviations(at_best(frame[frame["architecture"] == "rnn"]), fits)


def test_a_task_of_constant_accuracy_is_refused_and_the_others_are_fitted(frame):
    task = (frame["dataset"] == "imdb") & (frame["order"] == "permuted")
    flat = frame.assign(
        task_accuracy=frame["task_accuracy"].mask(task & frame["task_accuracy"].notna(), 1.0)
    )
    fits = task_models.fit_second_order(flat)
    refused = fits.summary[fits.summary["refused"] != ""]
    assert len(refused) == 1 and "have the same accuracy" in refused["refused"].item()
    told = causes(fits, dataset="imdb", order="permuted")
    assert len(told) == 4 + 3 + 4 * 2 - 1 and len(set(told.values())) == 1
    assert fits.summary["adj_r2"].notna().sum() == 3


def test_what_cannot_be_fitted_at_all_is_refused_in_one_sentence(frame):
    with pytest.raises(
        ValueError, match=r"no task can be fitted by \(1.8\): all .* the same accuracy"
    ):
        task_models.fit_first_order(frame.assign(task_accuracy=1.0))
    with pytest.raises(ValueError, match="no attempt entered"):
        task_models.fit_first_order(frame.assign(left_out="diverged"))
    with pytest.raises(
        ValueError, match="the reference architecture is 'lem'; expected one of rnn"
    ):
        task_models.fit_tasks(frame, task_models.FIRST, "lem")


def test_choosing_a_reference():
    assert task_models.choose_reference(["rnn", "antisymmetric"]) == "antisymmetric"
    assert task_models.choose_reference(["rnn", "gru"]) == "rnn"


def test_residuals_are_those_of_the_attempts_that_entered(frame):
    fits = task_models.fit_second_order(frame)
    assert len(fits.residuals) == len(entered(frame))
    assert fits.residuals.groupby(list(TASK))["residual"].sum().abs().max() < 1e-9
    assert fits.residuals["standardised"].std() == pytest.approx(1, abs=0.05)


def test_the_residuals_of_each_architecture_are_drawn_and_summed_up(frame):
    fits = task_models.fit_second_order(frame)
    figure, table = plot_residuals(fits.residuals)
    assert table["attempts"].sum() == len(fits.residuals)
    own = fits.residuals.query("architecture == 'gru'")
    row = table.set_index("architecture").loc["gru"]
    assert row["spread"] == pytest.approx(own["residual"].std())
    assert row["outliers"] == pytest.approx((own["standardised"].abs() > 3).mean())
    assert sum(len(line.get_xdata()) for line in figure.axes[0].lines[1:]) == len(fits.residuals)
    figure, table = plot_residuals(
        task_models.fit_first_order(frame[frame["replicate"] == 0]).residuals
    )
    assert [text.get_text() for text in figure.axes[1].texts] == ["no degree of freedom left"]
    assert table["outliers"].isna().all()
    plt.close("all")
