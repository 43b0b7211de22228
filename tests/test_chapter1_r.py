"""Chapter 1 against R: the stored values of `tests/data/r/chapter1.R`."""

import json

import chapter1_data
import numpy as np
import pytest

from lib.analysis import accuracy, comparisons, task_models
from lib.analysis.attempts import attempts

STORED = chapter1_data.FOLDER / "chapter1.json"
TESTS = ["statistic", "df_between", "df_within", "p_value"]
COLUMNS = ["estimate", "se", "low", "high", "p_value"]
CLOSE = {"rtol": 1e-8, "atol": 1e-12}


@pytest.fixture(scope="module")
def stored():
    return json.loads(STORED.read_text("utf-8"))


@pytest.fixture(scope="module")
def ds():
    return chapter1_data.dataset(chapter1_data.read())


@pytest.fixture(scope="module")
def frame(ds):
    return accuracy.grade(ds)


@pytest.fixture(scope="module")
def first(frame):
    return task_models.fit_tasks(accuracy.at_best(frame), task_models.FIRST)


@pytest.fixture(scope="module")
def second(frame):
    return task_models.fit_tasks(frame, task_models.SECOND)


def by_task(table):
    """Return the rows of each task, under the name that R gave it."""
    return {f"{task[0]} {task[1]}": rows for task, rows in table.groupby(["dataset", "order"])}


def r_name(row):
    """Return how R calls a term."""
    term = row.term.replace("architecture", f"architecture{row.architecture}").replace(" × ", ":")
    for ours, theirs in (
        ("log(learning rate)²", "I(log(learning_rate)^2)"),
        ("log(learning rate)", "log(learning_rate)"),
        ("recurrent dimension", "width"),
        ("training length", "training_length"),
        ("intercept", "(Intercept)"),
    ):
        term = term.replace(ours, theirs)
    return term


def test_best_configurations(frame, stored):
    table = accuracy.best_configurations(frame)
    assert len(table) == 4 * 4 - 1, "one architecture completed nothing at one task"
    for row in table.itertuples():
        theirs = stored["configurations"][f"{row.dataset} {row.order}"][row.architecture]
        assert theirs == f"{row.width} {row.learning_rate:g} {row.training_length}"


@pytest.mark.parametrize("order", ["first", "second"])
def test_models(order, stored, request):
    fits = request.getfixturevalue(order)
    summaries, coefficients = by_task(fits.summary), by_task(fits.coefficients)
    assert set(summaries) == set(stored[order])
    for task, theirs in stored[order].items():
        ours = summaries[task].iloc[0]
        for name in ("sigma", "r2", "adj_r2", "condition_number"):
            np.testing.assert_allclose(ours[name], theirs[name], err_msg=f"{task} {name}", **CLOSE)
        assert ours["df_residual"] == theirs["df"]
        for row in coefficients[task].query("cause == ''").itertuples():
            for name in COLUMNS:
                expected = theirs[name][r_name(row)]
                where = f"{task} {r_name(row)} {name}"
                np.testing.assert_allclose(getattr(row, name), expected, err_msg=where, **CLOSE)


def test_r_leaves_out_an_absent_architecture_without_a_word(second, stored):
    rows = by_task(second.coefficients)["imdb permuted"]
    empty = {r_name(row) for row in rows.itertuples() if row.cause}
    assert empty == {name for name in map(r_name, rows.itertuples()) if "lipschitz" in name}
    assert set(rows["cause"]) == {"", "no attempt of lipschitz entered"}
    assert empty.isdisjoint(stored["second"]["imdb permuted"]["estimate"])


def test_r_drops_one_term_where_three_have_lost_their_meaning(second, stored):
    rows = by_task(second.coefficients)["digits permuted"]
    theirs = stored["second"]["digits permuted"]["estimate"]
    aliased = [name for name, value in theirs.items() if value is None]
    assert aliased == ["architecturegru:I(log(learning_rate)^2)"]
    empty = {r_name(row) for row in rows.itertuples() if row.cause}
    assert empty == {name for name in theirs if "gru" in name} and len(empty) == 3
    needs = "gru entered with 2 levels of learning rate, log(learning rate)² needs 3"
    assert set(rows["cause"]) == {"", needs}


@pytest.mark.parametrize(("name", "architecture"), [("intercept", ""), ("gru", "gru")])
def test_pairwise_tests(name, architecture, first, stored):
    rows = first.coefficients
    rows = rows[
        rows["architecture"].eq(architecture) & rows["term"].isin(["intercept", "architecture"])
    ]
    pairs = comparisons.compare_tasks(rows)
    theirs = stored["pairwise"][name]
    # R and Python list the same pairs in the same order: that of the tasks in the design.
    for column in ("p_value", "p_bonferroni"):
        np.testing.assert_allclose(pairs[column], theirs[column], **CLOSE)


def test_variance_tests(frame, stored):
    table = comparisons.compare_variances(accuracy.at_best(frame)).set_index(
        ["architecture", "test"]
    )
    assert len(table) == 4 * 3
    for (architecture, test), row in table.iterrows():
        theirs = stored["variances"][architecture][test]
        expected = [theirs[name] for name in TESTS]
        # The issue asks for 1e-6; the only difference is rounding.
        np.testing.assert_allclose(
            row[TESTS].astype(float), expected, err_msg=f"{architecture} {test}", **CLOSE
        )


def test_convergence_times(ds, frame, stored):
    at_best = accuracy.at_best(frame)
    times = comparisons.convergence_times(ds, at_best)
    tests = comparisons.compare_times(at_best, times).set_index("architecture")
    for row in comparisons.summarise_times(at_best, times).itertuples():
        theirs = stored["times"][row.architecture]
        task = f"{row.dataset} {row.order}"
        assert theirs["median"].get(task, None) == (None if np.isnan(row.median) else row.median)
        np.testing.assert_allclose(row.deviation, _number(theirs["deviation"].get(task)), **CLOSE)
    for architecture, theirs in stored["times"].items():
        found = tests.loc[architecture, ["statistic", "p_value"]].astype(float)
        np.testing.assert_allclose(found, [theirs["statistic"], theirs["p_value"]], **CLOSE)


def test_error_rates(ds, stored):
    table = comparisons.compare_error_rates(attempts(ds))
    for row in table.itertuples():
        np.testing.assert_allclose(row.statistic, stored["errors"][row.architecture], **CLOSE)


def _number(value):
    return np.nan if value is None else value
