"""The twelve models against R: lme4 for random intercepts, stats for least squares.

The values of R are stored beside the small dataset and the script that made them (tests/data/r): attempts of four architectures and two
data sets, drawn from the published models, each with one to six of its epochs, so that groups differ in size. ``unrelated`` is noise of
equal mean in every attempt: its random intercept has a variance of zero.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.analysis.design import INTERCEPT, with_covariates
from lib.analysis.reml import fit_random_intercept, moments
from lib.analysis.tenet import MODELS, REFERENCE, Rows, fit
from lib.results.factorial import ATTEMPT

FOLDER = Path(__file__).parent / "data" / "r"

TOLERANCE = {
    "estimate": 1e-6,
    "standard_error": 1e-4,
    "group_variance": 1e-3,
    "residual_variance": 1e-3,
    "rmse": 1e-4,
    "r2": 1e-4,
    "r2_adjusted": 1e-4,
    "r2_marginal": 1e-4,
    "r2_conditional": 1e-4,
    "condition_number": 1e-6,
}
"""Relative, by quantity."""


def read(kind: str) -> tuple[Rows, pd.DataFrame]:
    """Return the stored observations of `kind`, as `Rows` and as the table they come from."""
    factors = [name for name in ATTEMPT if name != "replicate"]
    table = pd.read_csv(FOLDER / f"{kind}.csv")
    attempts = with_covariates(table.drop_duplicates("attempt")[factors], REFERENCE)
    made = Rows(
        kind=kind,
        attempts=attempts,
        attempt=pd.factorize(table["attempt"])[0],
        measured={name: table[name].to_numpy(float) for name in ("epoch", "accuracy", "metric")},
        account=pd.DataFrame(),
    )
    return made, table


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
def test_coefficients_their_errors_and_summaries_are_those_of_r(number, values, observations):
    model = MODELS[number]
    found = fit(model, observations[model.rows][0])
    table = found.coefficients.assign(term=found.coefficients["term"].map(name_in_r))
    theirs = values[values["model"] == str(number)].set_index("quantity")
    for quantity in ("estimate", "standard_error"):
        stored = theirs.loc[[quantity]].set_index("term")["value"]
        assert set(stored.index) == set(table["term"])
        for row in table.itertuples():
            assert_close(getattr(row, quantity), stored[row.term], quantity, row.term)
    ours = dict(found.summary)
    if model.random:
        ours["group_variance"] = ours["group_sd"] ** 2
        ours["residual_variance"] = ours["residual_sd"] ** 2
    summaries = theirs[theirs["term"] == ""]["value"].drop("criterion", errors="ignore")
    assert len(summaries) == (6 if model.random else 4)
    for quantity, value in summaries.items():
        assert_close(ours[quantity], value, quantity, model.name)


def test_a_variance_of_zero_is_found_and_said(values, observations):
    made, table = observations["training"]
    columns = np.column_stack([made.column("epoch"), table["unrelated"]])
    ours = fit_random_intercept(moments(np.ones((len(made.attempts), 1)), columns, made.attempt))
    assert ours.group_variance == 0.0
    theirs = values[values["model"] == "boundary"].set_index(["quantity", "term"])["value"]
    assert theirs["group_variance", ""] < 1e-9
    assert_close(ours.residual_variance, theirs["residual_variance", ""], "residual_variance", "")
    # The intercept is zero up to rounding; the slope is a number.
    assert_close(ours.coefficients[1], theirs["estimate", "epoch"], "estimate", "epoch")
