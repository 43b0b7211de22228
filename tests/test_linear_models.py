"""The linear models of chapter 1: that what cannot be told stays empty with its cause; their numbers are held to R's in `test_chapter1_r`."""

import chapter1_data
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from synthetic_results import make_results

from lib.analysis import comparisons, task_models
from lib.analysis.accuracy import at_best, entered, grade
from lib.analysis.attempts import TASK


@pytest.fixture(scope="module")
def stored():
    return chapter1_data.dataset(chapter1_data.read())


@pytest.fixture(scope="module")
def frame(stored):
    return grade(stored)


def fit_first_order(frame, reference="antisymmetric", **how):
    return task_models.fit_tasks(at_best(frame, **how), task_models.FIRST, reference)


def fit_second_order(frame):
    return task_models.fit_tasks(frame, task_models.SECOND)


def causes(fits, dataset, order):
    """Return the causes of the terms at a task, by term and architecture."""
    rows = fits.coefficients.query("dataset == @dataset and order == @order")
    keys = zip(rows["term"], rows["architecture"], strict=True)
    return dict(zip(keys, rows["cause"], strict=True))


def test_the_reference_is_the_text_s_where_it_entered():
    assert task_models.choose_reference(["rnn", "antisymmetric"]) == "antisymmetric"
    assert task_models.choose_reference(["rnn", "gru"]) == "rnn"


def test_another_reference_changes_the_effects_and_not_the_fit(frame):
    one, other = (fit_first_order(frame, reference=r) for r in ("antisymmetric", "rnn"))
    columns = ["attempts", "adj_r2", "sigma", "df_residual"]
    pd.testing.assert_frame_equal(one.summary[columns], other.summary[columns])
    effect = one.coefficients.query("architecture == 'rnn'")["estimate"].to_numpy()
    reverse = other.coefficients.query("architecture == 'antisymmetric'")["estimate"].to_numpy()
    assert_allclose(effect, -reverse)


def test_a_reference_without_attempts_is_no_reference(frame):
    task = (frame["dataset"] == "imdb") & (frame["order"] == "permuted")
    gone = frame["architecture"].eq("antisymmetric") & task
    lost = frame.assign(left_out=frame["left_out"].mask(gone, "diverged"))
    fits = fit_second_order(lost)
    told = causes(fits, "imdb", "permuted")
    kept = {("recurrent dimension", ""), ("training length", "")}
    assert {term for term, cause in told.items() if cause == ""} == kept
    assert set(told.values()) == {"", "no attempt of antisymmetric entered"}
    assert fits.summary["adj_r2"].notna().all(), "the fit itself needs no reference"


LOG = "log(learning rate)"
ONE_RATE = "the attempts have one learning rate (0.001)"
TWO_RATES = "the attempts have 2 levels of learning rate, log(learning rate)² needs 3"


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (
            "learning_rate == 0.001 and width == 8 and training_length == 3",
            {
                ("log(learning rate)", ""): ONE_RATE,
                ("architecture × log(learning rate)²", "gru"): ONE_RATE,
                ("recurrent dimension", ""): "the attempts have one width (8)",
                ("training length", ""): "the attempts have one training length (3)",
                ("architecture", "gru"): "",
                ("intercept", ""): "",
            },
        ),
        ("learning_rate < 0.05", {(LOG, ""): "", (f"{LOG}²", ""): TWO_RATES}),
    ],
)
def test_factors_without_levels_have_causes(frame, which, expected):
    told = causes(fit_second_order(frame.query(which)), "digits", "sequential")
    assert {term: told[term] for term in expected} == expected


def test_what_leaves_no_error_to_measure_says_so(frame):
    alone = fit_first_order(frame[frame["replicate"] == 0])
    table = alone.coefficients[alone.coefficients["estimate"].notna()]
    assert len(table) and table[["se", "low", "high", "p_value"]].isna().all(axis=None)
    assert set(table["cause"]) == {"no attempt is left over to measure the error"}
    assert alone.summary[["adj_r2", "sigma"]].isna().all(axis=None)
    same = frame["width"] / 100 + frame["architecture"].map(len) / 50
    equal = fit_first_order(frame.assign(task_accuracy=same, accuracy=same))
    assert equal.coefficients["se"].isna().all()
    assert "the residuals are all zero" in set(equal.coefficients["cause"])


def test_a_task_of_constant_accuracy_is_refused_and_the_others_are_fitted(frame):
    task = (frame["dataset"] == "imdb") & (frame["order"] == "permuted")
    constant = frame["task_accuracy"].mask(task & frame["task_accuracy"].notna(), 1.0)
    fits = fit_second_order(frame.assign(task_accuracy=constant))
    refused = fits.summary[fits.summary["refused"] != ""]
    assert len(refused) == 1 and "have the same accuracy" in refused["refused"].item()
    told = causes(fits, "imdb", "permuted")
    assert len(told) == 4 + 3 + 4 * 2 - 1 and len(set(told.values())) == 1
    assert fits.summary["adj_r2"].notna().sum() == 3


def test_one_architecture_has_an_intercept_alone(frame):
    fits = fit_first_order(frame[frame["architecture"] == "rnn"], reference="rnn")
    assert fits.coefficients["term"].tolist() == ["intercept"] * 4
    assert (fits.coefficients["cause"] == "").all()


@pytest.mark.parametrize(
    ("changed", "reference", "word"),
    [
        ({"task_accuracy": 1.0}, "rnn", r"no task can be fitted by \(1.8\): all .* same accuracy"),
        ({"left_out": "diverged"}, "rnn", "no attempt entered"),
        ({}, "lem", "the reference architecture is 'lem'; expected one of rnn"),
    ],
)
def test_what_cannot_be_fitted_at_all_is_refused_in_one_sentence(frame, changed, reference, word):
    with pytest.raises(ValueError, match=word):
        fit_first_order(frame.assign(**changed), reference=reference)


def test_the_error_of_a_counted_accuracy_by_hand():
    ds = make_results()
    ds["classes"][:], ds["largest_class"][:], ds["examples"][:] = 2, 0.5, 400
    frame = entered(grade(ds))
    # Two labels: the unit of task accuracy is the best accuracy less a half.
    unit = frame.groupby(list(TASK))["accuracy"].transform("max") - 0.5
    plain = np.sqrt(frame["accuracy"] * (1 - frame["accuracy"]) / 400) / unit
    middle = frame["accuracy"].between(0.2, 0.8)
    assert_allclose(frame["sampling_error"][middle], plain[middle], rtol=0.01)
    assert (frame["sampling_error"] > 0).all(), "no accuracy is known exactly, not even 0 or 1"
    ds["examples"][:] = 0
    assert grade(ds)["sampling_error"].isna().all()


@pytest.mark.parametrize("crossed", [False, True])
def test_counting_on_few_sequences_explains_scatter_and_takes_rejections_away(stored, crossed):
    ds, rejected = stored.copy(deep=True), {}
    for examples in (0, 10, 10**8):
        ds["examples"][:] = examples
        fits = fit_first_order(grade(ds), crossed=crossed)
        pairs = comparisons.compare_tasks(fits.coefficients)
        rejected[examples] = int(pairs["weighted_rejected"].sum())
        if examples == 0:
            assert (pairs["weighted_rejected"] == pairs["rejected"]).all()
        elif examples == 10 and not crossed:
            assert (fits.summary["luck"] == 0).all()
        elif not crossed:
            assert_allclose(fits.summary["luck"], fits.summary["sigma"], rtol=1e-3)
            assert (fits.summary["ceiling"] > 0.999).all()
    assert rejected[10] < rejected[10**8] == rejected[0]
