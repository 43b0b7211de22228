"""The twelve models: next to the paper, on results with everything that can go wrong, against R.

Also the results that are drawn from the published models: notebook 15 counts them, and notebook 34
recovers their coefficients. R's lme4 fits random intercepts, stats fits least squares.

The values of R are stored next to the small dataset and the script that made them (tests/data/r):
attempts of four architectures and two data sets, drawn from the published models, each with one to
six of its epochs, so that groups differ in size. ``unrelated`` is noise of equal mean in every
attempt: its random intercept has a variance of zero.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused
from scipy import stats
from study.claims.counterexamples import mean_share
from study.claims.estimates import Estimate
from study.claims.extremes import smallest
from study.claims.factorial import Evidence
from study.claims.intervals import odds_ratio, proportion
from study.claims.listed import claims
from study.claims.models import JUDGES, QUANTITIES, estimate_quantity
from study.claims.verdict import AGREES, decide
from study.paths import ROOT
from study.results.datasets import load
from study.results.factorial import ATTEMPT, FACTORIAL, SIMULATED
from study.results.netcdf import ResultsError
from study.results.published import load_published
from study.results.schema import COMPLETED, DIVERGED, MISSING
from study.stats import tenet
from study.stats.covariates import with_covariates
from study.stats.design import INTERCEPT, NothingToFit
from study.stats.observations import (
    CENTERED,
    CLIPPED,
    FLOAT32,
    RANKS,
    REFERENCE,
    SPLINE,
    UNROUNDED,
    WITHIN_TASKS,
    WITHOUT_EXTREMES,
    Observations,
    select_observations,
)
from study.stats.published_models import (
    published_coefficient,
    published_treatments,
    terminal_covariance,
    training_covariances,
)
from study.stats.regimes import LOG10_SMALLEST
from study.stats.reml import fit_random_intercept, moments
from study.stats.resample import interval, resample, stretch
from study.stats.simulated import PROFILE, caution, draw_statuses, simulate
from study.stats.tenet import Fits, fit_model
from study.stats.tenet_models import FAMILIES, MODELS
from synthetic_results import LEVELS, empty, make_results

CLAIMS = claims()
VIEWS = UNROUNDED, FLOAT32, RANKS, CLIPPED, WITHOUT_EXTREMES, CENTERED


@pytest.fixture(scope="module")
def reference():
    return load(ROOT / "data" / "reference" / "real" / "short_factorial.nc")


@pytest.fixture(scope="module")
def fitted(reference):
    return Fits(reference)


@pytest.fixture(scope="module")
def odd():
    return make_results()


@pytest.mark.parametrize("number", MODELS)
def test_published_tables_are_consistent(number, fitted):
    # t values are estimates over errors: this checks every digit of the transcription.
    table = load_published(MODELS[number].table)
    half = 0.5e-6
    reach = (half + table["t_value"].abs() * half) / table["standard_error"] + 0.05 + 1e-9
    miss = (table["t_value"] - table["estimate"] / table["standard_error"]).abs()
    assert (miss <= reach).all(), table[miss > reach]
    summary = load_published(MODELS[number].summary).set_index("model")
    assert summary["parameters"][number] == len(table) == table["term"].nunique()
    result = fitted.fit(number)
    terms = [term for term in table["term"] if term not in result.design.dropped]
    assert list(result.coefficients["term"]) == terms


@pytest.mark.parametrize("kind", ["training", "terminal"])
def test_account_covers_every_attempt(kind, odd):
    observations = select_observations(odd, kind)
    account = observations.account.set_index("what")
    assert account["attempts"]["planned"] == odd["status"].size
    assert account["attempts"]["planned"] == account["attempts"].iloc[1:].sum()
    done = {"training": odd["epochs_completed"], "terminal": odd["status"] == 0}
    assert account["rows"].sum() == int(done[kind].sum())
    assert (
        account["rows"]["entered"] == len(observations)
        and np.isfinite(observations.column("metric")).all()
    )
    assert account["rows"]["the adjoint of the first step is exactly zero"] > 0
    row = {
        name: observations.column(name)[len(observations) // 3]
        for name in (*ATTEMPT, *observations.measured)
    }
    split, at = ("train", "epoch") if kind == "training" else ("test", "training_length")
    point = odd.sel({name: row[name] for name in ATTEMPT}).sel(split=split, epoch=row[at])
    assert point["accuracy"] == row["accuracy"]
    assert point["adjoint_first"] - point["adjoint_last"] == pytest.approx(row["metric"])


def test_views_change_the_metric_as_described(reference, odd):
    for ds in (reference, odd):
        views = (select_observations(ds, "training", view=view) for view in VIEWS)
        true, single, ranks, clipped, mild, centered = views
        within = select_observations(ds, "training", view=WITHIN_TASKS).column("metric")
        np.testing.assert_array_equal(within, single.column("metric"))
        zero = true.account.set_index("what")["rows"].filter(like="first step is").sum()
        assert single.account["rows"].sum() == true.account["rows"].sum()
        assert len(true) + zero <= len(ranks)
        kept = single.account.set_index("what")["rows"]
        assert kept.filter(like="first step is").sum() == 0, "what vanished stays"
        ranked = ranks.column("metric")
        assert ranked.min() >= 0 and ranked.max() <= 1
        assert (ranked == ranked.min()).sum() >= zero, "what vanished ranks last"
        metric = true.column("metric")
        np.testing.assert_array_equal(clipped.column("metric"), np.maximum(metric, -5))
        np.testing.assert_array_equal(mild.column("metric"), metric[metric >= -10])
        shifted = centered.column("log_rate") - true.column("log_rate")
        np.testing.assert_allclose(shifted, -np.log(0.01))


def test_zero_norm_is_clamped(odd):
    ds = odd.copy(deep=True)
    for name, norm in (("adjoint_first", -np.inf), ("adjoint_last", -2.0)):
        ds[name] = xr.where(ds[name].notnull(), norm, np.nan).transpose(*odd[name].dims)
    observations = select_observations(ds, "terminal", view=FLOAT32)
    stored = -2 - np.log10(32 * np.maximum(ds["examples"].sel(split="test"), 1))
    assert set(np.round(observations.column("metric"), 9)) <= set(
        np.round(LOG10_SMALLEST - stored.values, 9)
    )


def everywhere(ds, **values):
    return Fits(ds.assign({k: ds[k].where(ds[k].isnull(), v) for k, v in values.items()}))


test_refusals_name_their_cause = refused(
    (NothingToFit, ValueError),
    ("is 0.5 in all 5,670 rows", lambda reference: everywhere(reference, accuracy=0.5).fit(2)),
    (
        "finite adjoint metric",
        lambda reference: everywhere(reference, adjoint_first=-np.inf).fit(8),
    ),
    ("accuracy are not finite", lambda reference: everywhere(reference, accuracy=np.inf).fit(7)),
    (
        "no attempt was measured",
        lambda: select_observations(empty(LEVELS, profile="x"), "training"),
    ),
    (
        "terminal rows, got tr",
        lambda reference: fit_model(MODELS[4], select_observations(reference, "training")),
    ),
    ("validation", lambda reference: select_observations(reference, "validation")),
    ("half", lambda reference: select_observations(reference, "terminal", view="half")),
    ("replicates is 11", lambda: simulate(1, replicates=11)),
)


def test_faulty_synthetic_results_are_fitted(odd, reference):
    for number in MODELS:
        result = Fits(odd).fit(number)
        assert result.coefficients["estimate"].notna().all()
        assert {"architecture[brandnew]", "noise[post]"}.isdisjoint(result.design.dropped)
    alone = Fits(reference.sel(architecture=["rnn"])).fit(6)
    assert not any("architecture" in term for term in alone.coefficients["term"])


def test_coefficients_of_all_views_in_one_table(fitted):
    group_variances = tenet.GROUP_VARIANCES
    ranks = RANKS
    spline = SPLINE
    table = fitted.coefficients(FAMILIES[2], (UNROUNDED, ranks, spline, group_variances))
    table = table.set_index(["view", "model", "term"])
    assert table["estimate"][UNROUNDED, 5, "metric"] == fitted.fit(5).estimate("metric")
    assert (spline, 5, "spline 4") in table.index and (spline, 5, "metric") not in table.index
    assert table["estimate"][spline, 6, "intercept"] == table["estimate"][UNROUNDED, 6, "intercept"]
    assert {group_variances, ranks} <= set(table.index.get_level_values("view"))
    # A curve explains at least as much as a line of the same rows.
    assert fitted.fit(5, spline).r2 > fitted.fit(5).r2 > fitted.fit(6).r2
    # Two regressions of a pair on each other explain the same share.
    assert fitted.fit(4).r2 == pytest.approx(fitted.fit(10).r2, rel=1e-10)
    product = fitted.fit(4).estimate("metric") * fitted.fit(10).estimate("accuracy")
    assert product == pytest.approx(fitted.fit(4).r2, rel=1e-10)


def test_spread_of_draws_equals_robust_error(fitted):
    for number in (5, 2):
        result = fitted.fit(number, FLOAT32)
        drawn = resample(result, draws=300)
        place = result.design.names.index("metric")
        assert drawn.coefficients[0, place] == pytest.approx(result.estimate("metric"), rel=1e-6)
        spread = drawn.coefficients[1:, place].std()
        assert spread == pytest.approx(result.estimate("metric", "robust_error"), rel=0.15)
        assert drawn.r2[0] == pytest.approx(result.r2, rel=1e-3)
    # Few attempts stretch an interval: each end is the farther one of the draws' and of their
    # mirror image's.
    expected = np.sqrt(20 / 15) * stats.t.ppf(0.975, 15) / stats.norm.ppf(0.975)
    assert stretch(20, 5) == pytest.approx(expected)
    assert interval(np.array([1.0, *np.linspace(0, 3, 1001)])) == pytest.approx((1, -0.925, 2.925))


def test_equal_replicates_do_not_narrow_intervals(reference):
    more = reference.assign_coords(replicate=reference["replicate"] + 1)
    twice = xr.concat([reference, more], "replicate", data_vars="minimal", combine_attrs="override")
    for number in (4, 10):
        once, both = (interval(Evidence(ds).r2(number)) for ds in (reference, twice))
        assert both == pytest.approx(once, rel=1e-6)


def verdict_of(claim, estimate):
    return decide(estimate, CLAIMS[claim].region).verdict


def test_judges_accept_the_published_models():
    """Data drawn from the published coefficients have a tenth of the paper's attempts."""
    fits = Evidence(simulate(7, replicates=2, training_length=[25]))
    of_text = set()
    of_law = set()
    for quantities in QUANTITIES.values():
        for claim, quantity in quantities.items():
            value = CLAIMS[claim].published
            if verdict_of(claim, Estimate(value, value, value)) != AGREES:
                of_text.add(claim)
            if verdict_of(claim, estimate_quantity(fits, quantity)) != AGREES:
                of_law.add(claim)
    alone, omission, slope = (judge(fits).of_variance for judge in JUDGES[1].values())
    assert alone and omission and not slope
    # The text's own slope times its own range is 6.6%, where it says one.
    assert of_text == of_law == {"diss-3.5-training-range"}


def test_judges_accept_the_published_counts():
    task = ["dataset", "order", "noise"]
    once, vanished, best = (
        load_published(f"diss-tab-{name}").groupby([*task, mark])["count"].sum().unstack()
        for name, mark in (("A4", "quartile"), ("A5", "quartile"), ("A6", "regime"))
    )
    kinds = vanished.groupby(["order", "noise"]).sum()
    in_top = load_published("diss-tab-A7").groupby("regime")["count"].sum()
    failed = load_published("diss-tab-1.7")["error_rate"]
    others = int((6000 * (1 - failed)).sum()) - int(vanished.to_numpy().sum())
    result = {
        "training-quartile": mean_share(best["vanished"], best.sum(axis=1)),
        "training-majority": mean_share(once["Q0.25"] + once["Q0.50"], once.sum(axis=1)),
        "terminal-quartile": odds_ratio(
            (int(in_top["vanished"]), int(vanished.to_numpy().sum())),
            (int(in_top["stable"]), others),
        ),
        "terminal-median": smallest(
            proportion(row["Q0.75"] + row["Q1.00"], row.sum()) for _, row in kinds.iterrows()
        ),
    }
    for name, finding in result.items():
        assert verdict_of(f"diss-3.4-{name}", finding) == AGREES, name
    for name in ("training-majority", "terminal-quartile"):
        published = CLAIMS[f"diss-3.4-{name}"].published
        assert result[name].value == pytest.approx(published, abs=0.005)


def test_simulated_dataset_follows_schema_and_published_counts():
    small, other = (simulate(seed, replicates=2) for seed in (1, 2))
    kept = {"replicates": 1, "dataset": ["imdb"], "training_length": [25]}
    assert simulate(1, **kept).identical(part := simulate(1, **kept))
    assert part["epoch"].max() == 25 and not other["status"].equals(small["status"])
    SIMULATED.validate(small)
    assert small.attrs["profile"] == PROFILE and "No network was trained" in caution(PROFILE)
    assert caution("quick") == ""
    with pytest.raises(ResultsError, match="factorial/2"):
        FACTORIAL.validate(small)
    never = small["status"].isel(replicate=0).sel(architecture="antisymmetric")
    assert (never != DIVERGED).all(), "Table 1.7: it never failed"
    rates = load_published("diss-tab-1.7").set_index("architecture")["error_rate"]
    ended = {of: (small["status"].sel(architecture=of) == DIVERGED).sum() for of in ("rnn", "gru")}
    assert (ended["rnn"] > ended["gru"]) == (rates["rnn"] > rates["gru"])
    ran = small["status"].sel(architecture="unicornn", dataset="mnist", noise="post")
    assert (ran == MISSING).all()
    assert small["accuracy"].min() < 0, "normal accuracies are not cut off"
    parameters = load_published("diss-tab-3.3").set_index(["architecture", "width"])["parameters"]
    point = {"architecture": "gru", "width": 256, "dataset": "imdb"}
    assert small["parameters"].sel(point) == parameters["gru", 256]
    assert small["time_steps"].sel(dataset="imdb", noise="post") == 1500


def test_simulated_attempts_are_as_many_as_in_the_paper():
    """Of 42,000 attempts 29,566 complete, and their epochs are the 1,072,475 training rows."""
    completed = draw_statuses(np.random.default_rng(0)) == COMPLETED
    assert completed.size == 42_000 and completed.sum() == 29_566
    length = published_treatments()["training_length"].to_numpy()
    assert (completed * length[:, None]).sum() == 1_072_475


def test_simulated_covariances_give_the_published_slopes_and_shares():
    terminal = terminal_covariance()
    assert terminal[0, 1] / terminal[1, 1] == pytest.approx(published_coefficient(5, "metric"))
    assert terminal[0, 1] / terminal[0, 0] == pytest.approx(published_coefficient(11, "accuracy"))
    between, within = training_covariances()
    for covariance in (between, within):
        slope = covariance[0, 1] / covariance[1, 1]
        assert slope == pytest.approx(published_coefficient(2, "metric"))
    for place, model in enumerate((3, 9)):
        summary = load_published(MODELS[model].summary).set_index("model").loc[model]
        # What the factors leave unexplained is split between attempts and their epochs.
        marginal = summary["r2_marginal"]
        share = (summary["r2_conditional"] - marginal) / (1 - marginal)
        variances = between[place, place], within[place, place]
        assert variances[0] / sum(variances) == pytest.approx(share)


FOLDER = Path(__file__).parent / "data" / "r"

TOLERANCE = {"estimate": 1e-6, "condition_number": 1e-6}
TOLERANCE |= {"group_variance": 1e-3, "residual_variance": 1e-3}
"""Relative, by quantity; a ten-thousandth for all others."""


def observed(kind: str) -> tuple[Observations, pd.DataFrame]:
    """Return stored observations of a kind, as `Observations` and as their table."""
    factors = [name for name in ATTEMPT if name != "replicate"]
    table = pd.read_csv(FOLDER / f"{kind}.csv")
    observations = Observations(
        kind=kind,
        attempts=with_covariates(table.drop_duplicates("attempt")[factors], REFERENCE),
        attempt=pd.factorize(table["attempt"])[0],
        measured={name: table[name].to_numpy(float) for name in ("epoch", "accuracy", "metric")},
        account=pd.DataFrame(),
    )
    return observations, table


@pytest.fixture(scope="module")
def values():
    """R's results by model, quantity and term; summaries have an empty term."""
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
def test_tenet_models_equal_those_of_r(number, values):
    model = MODELS[number]
    result = fit_model(model, observed(model.rows)[0])
    terms = result.coefficients["term"].replace(INTERCEPT, "(Intercept)")
    table = result.coefficients.set_index(terms.str.replace(r"[\[\]]", "", regex=True))
    ours = {
        (name, term): value
        for name in ("estimate", "standard_error")
        for term, value in table[name].items()
    }
    theirs = values[str(number)].drop("criterion", errors="ignore")
    summary = dict(result.summary)
    if model.random:
        summary["group_variance"] = summary["group_sd"] ** 2
        summary["residual_variance"] = summary["residual_sd"] ** 2
    names = [quantity for quantity, term in theirs.index if term == ""]
    assert len(names) == (6 if model.random else 4)
    assert_close(ours | {(name, ""): summary[name] for name in names}, theirs)


def test_zero_group_variance_is_estimated(values):
    observations, table = observed("training")
    columns = table[["epoch", "unrelated"]].to_numpy()
    ones = np.ones((len(observations.attempts), 1))
    ours = fit_random_intercept(moments(ones, columns, observations.attempt))
    theirs = values["boundary"]
    assert ours.group_variance == 0.0 and theirs["group_variance", ""] < 1e-9
    # The intercept is zero up to rounding; the slope is a number.
    result = {("estimate", "epoch"): ours.coefficients[1]}
    result["residual_variance", ""] = ours.residual_variance
    assert_close(result, theirs[list(result)])
