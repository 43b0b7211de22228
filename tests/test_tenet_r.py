"""The twelve models against R: lme4 for random intercepts, stats for least squares.

The values of R are stored beside the small dataset and the script that made them (tests/data/r); `tests/r_dataset.py` made
the dataset. One test runs the script again where R is installed.
"""

import io
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from r_dataset import FOLDER, read

from lib.analysis.design import INTERCEPT
from lib.analysis.reml import fit_random_intercept, moments
from lib.analysis.tenet.fits import fit
from lib.analysis.tenet.models import MODELS

TOLERANCE = {
    "estimate": 1e-6,
    "standard_error": 1e-4,
    "group_variance": 1e-3,
    "residual_variance": 1e-3,
    "criterion": 1e-8,
    "rmse": 1e-4,
    "r2": 1e-4,
    "r2_adjusted": 1e-4,
    "r2_marginal": 1e-4,
    "r2_conditional": 1e-4,
    "condition_number": 1e-6,
}
"""Relative, by quantity."""


def read_values(text) -> pd.DataFrame:
    table = pd.read_csv(text, dtype={"model": str, "term": str}, keep_default_na=False)
    table = table[table["quantity"] != "version"]
    return table.assign(value=table["value"].astype(float))


@pytest.fixture(scope="module")
def values():
    return read_values(FOLDER / "values.csv")


@pytest.fixture(scope="module")
def observations():
    return {kind: read(kind) for kind in ("training", "terminal")}


def name_in_r(term: str) -> str:
    return "(Intercept)" if term == INTERCEPT else term.replace("[", "").replace("]", "")


def assert_close(ours: float, theirs: float, quantity: str, what: str) -> None:
    assert ours == pytest.approx(theirs, rel=TOLERANCE[quantity]), f"{what}: {quantity}"


@pytest.mark.parametrize("number", MODELS)
def test_coefficients_and_their_errors_are_those_of_r(number, values, observations):
    model = MODELS[number]
    found = fit(model, observations[model.rows][0])
    table = found.coefficients.assign(term=found.coefficients["term"].map(name_in_r))
    theirs = values[values["model"] == str(number)]
    for quantity in ("estimate", "standard_error"):
        stored = theirs[theirs["quantity"] == quantity].set_index("term")["value"]
        assert set(stored.index) == set(table["term"])
        for row in table.itertuples():
            assert_close(getattr(row, quantity), stored[row.term], quantity, row.term)


@pytest.mark.parametrize("number", MODELS)
def test_variances_and_summaries_are_those_of_r(number, values, observations):
    model = MODELS[number]
    found = fit(model, observations[model.rows][0])
    ours = dict(found.summary)
    if model.random:
        ours["group_variance"] = ours["group_sd"] ** 2
        ours["residual_variance"] = ours["residual_sd"] ** 2
    theirs = values[(values["model"] == str(number)) & (values["term"] == "")]
    compared = theirs[theirs["quantity"] != "criterion"].set_index("quantity")["value"]
    assert len(compared) == (6 if model.random else 4)
    for quantity, value in compared.items():
        assert_close(ours[quantity], value, quantity, model.name)


@pytest.mark.parametrize("number", [1, 7])
def test_the_criterion_is_that_of_lme4(number, values, observations):
    model = MODELS[number]
    made, _ = observations["training"]
    predictor, response = made.column(model.predictor), made.column(model.response)
    columns = np.column_stack([predictor, response])
    ours = fit_random_intercept(moments(np.ones((len(made.attempts), 1)), columns, made.attempt))
    stored = values.query(f"model == '{number}' and quantity == 'criterion'")["value"].item()
    assert_close(ours.criterion, stored, "criterion", model.name)


def test_a_variance_of_zero_is_found_and_said(values, observations):
    made, table = observations["training"]
    columns = np.column_stack([made.epoch, table["unrelated"]])
    ours = fit_random_intercept(moments(np.ones((len(made.attempts), 1)), columns, made.attempt))
    assert ours.boundary and ours.group_variance == 0.0 and ours.gradient > 0
    theirs = values[values["model"] == "boundary"].set_index(["quantity", "term"])["value"]
    assert theirs["group_variance", ""] < 1e-9
    assert_close(ours.residual_variance, theirs["residual_variance", ""], "residual_variance", "")
    assert_close(ours.criterion, theirs["criterion", ""], "criterion", "")
    # The intercept is zero up to rounding; the slope is a number.
    assert_close(ours.coefficients[1], theirs["estimate", "epoch"], "estimate", "epoch")


@pytest.mark.parametrize("number", [1, 2, 8])
def test_statsmodels_mixed_models_agree(number, observations):
    model = MODELS[number]
    made, _ = observations["training"]
    ours, theirs = fit(model, made), fit(model, made, engine="statsmodels")
    np.testing.assert_allclose(
        ours.coefficients["estimate"], theirs.coefficients["estimate"], rtol=1e-6
    )
    for name in ("group_sd", "residual_sd", "r2_marginal", "r2_conditional", "rmse"):
        assert ours.summary[name] == pytest.approx(theirs.summary[name], rel=1e-5), name
    # Its standard errors come from second derivatives over all parameters, variances included; lme4 and we take the
    # variances as known.
    np.testing.assert_allclose(
        ours.coefficients["standard_error"], theirs.coefficients["standard_error"], rtol=2e-2
    )


@pytest.mark.r
@pytest.mark.slow
def test_the_stored_values_are_what_r_says_today(values):
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed: apt-get install r-base-core r-cran-lme4")
    command = ["Rscript", str(FOLDER / "fit.R"), str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "there is no package called" in done.stderr:
        pytest.skip("lme4 is not installed: apt-get install r-cran-lme4")
    assert done.returncode == 0, done.stderr
    today = read_values(io.StringIO(done.stdout))
    keys = ["model", "quantity", "term"]
    both = values.merge(today, on=keys, suffixes=("_stored", "_today"))
    assert len(both) == len(values) == len(today)
    for row in both[both["model"] != "boundary"].itertuples():
        assert_close(row.value_today, row.value_stored, row.quantity, f"{row.model} {row.term}")
