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

TOLERANCE = {"estimate": 1e-6, "condition_number": 1e-6}
TOLERANCE |= {"group_variance": 1e-3, "residual_variance": 1e-3}
"""Relative, by quantity; a ten-thousandth for all others."""


def observed(kind: str) -> tuple[Rows, pd.DataFrame]:
    """Return the stored observations of `kind`, as `Rows` and as the table they come from."""
    factors = [name for name in ATTEMPT if name != "replicate"]
    table = pd.read_csv(FOLDER / f"{kind}.csv")
    made = Rows(
        kind=kind,
        attempts=with_covariates(table.drop_duplicates("attempt")[factors], REFERENCE),
        attempt=pd.factorize(table["attempt"])[0],
        measured={name: table[name].to_numpy(float) for name in ("epoch", "accuracy", "metric")},
        account=pd.DataFrame(),
    )
    return made, table


@pytest.fixture(scope="module")
def values():
    """What R found, by model, quantity and term; of no term are the summaries."""
    types = {"model": str, "term": str}
    table = pd.read_csv(FOLDER / "values.csv", dtype=types, keep_default_na=False)
    table = table[table["quantity"] != "version"].astype({"value": float})
    return table.set_index(["model", "quantity", "term"])["value"].sort_index()


def assert_close(ours: dict, theirs: pd.Series) -> None:
    """Hold numbers by quantity and term to R's."""
    assert set(ours) == set(theirs.index)
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=TOLERANCE.get(key[0], 1e-4)), key


@pytest.mark.parametrize("number", MODELS)
def test_coefficients_their_errors_and_summaries_are_those_of_r(number, values):
    model = MODELS[number]
    found = fit(model, observed(model.rows)[0])
    terms = found.coefficients["term"].replace(INTERCEPT, "(Intercept)")
    table = found.coefficients.set_index(terms.str.replace(r"[\[\]]", "", regex=True))
    ours = {
        (name, term): value
        for name in ("estimate", "standard_error")
        for term, value in table[name].items()
    }
    theirs, summary = values[str(number)].drop("criterion", errors="ignore"), dict(found.summary)
    if model.random:
        summary["group_variance"] = summary["group_sd"] ** 2
        summary["residual_variance"] = summary["residual_sd"] ** 2
    names = [quantity for quantity, term in theirs.index if term == ""]
    assert len(names) == (6 if model.random else 4)
    assert_close(ours | {(name, ""): summary[name] for name in names}, theirs)


def random_intercepts(*columns):
    made, table = observed("training")
    held = table.assign(metric=made.column("metric"))[[*columns]].to_numpy()
    return fit_random_intercept(moments(np.ones((len(made.attempts), 1)), held, made.attempt))


def test_a_variance_of_zero_is_found_and_said(values):
    ours, theirs = random_intercepts("epoch", "unrelated"), values["boundary"]
    assert ours.group_variance == 0.0 and theirs["group_variance", ""] < 1e-9
    # The intercept is zero up to rounding; the slope is a number.
    found = {("estimate", "epoch"): ours.coefficients[1]}
    found["residual_variance", ""] = ours.residual_variance
    assert_close(found, theirs[list(found)])
