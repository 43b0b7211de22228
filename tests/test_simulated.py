"""The simulated dataset: the numbers of the text exactly, its coefficients within chance, and the same again."""

import numpy as np
import pytest

from lib.analysis.simulated import PROFILE, caution, law
from lib.analysis.simulated.draw import SCHEMA, simulate
from lib.analysis.tenet.fits import Fits
from lib.results.factorial import FACTORIAL
from lib.results.published import load_published
from lib.results.schema import COMPLETED, DIVERGED, MISSING, ResultsError


@pytest.fixture(scope="module")
def small():
    return simulate(1, replicates=2)


def test_completed_attempts_and_rows_are_those_of_the_text():
    status = law.statuses(np.random.default_rng(0))
    table, completed = law.treatments(), status == COMPLETED
    assert completed.sum() == 29_566
    assert completed.sum(axis=1) @ table["training_length"] == 1_072_475
    own = {name: status[table["architecture"] == name] for name in ("antisymmetric", "rnn", "gru")}
    assert (own["antisymmetric"] == COMPLETED).all(), "Table 1.7: it never failed"
    assert (own["rnn"] == DIVERGED).any() and not (own["rnn"] == MISSING).any()
    rates = load_published("diss-tab-1.7").set_index("architecture")["error_rate"]
    share = {name: (own[name] == COMPLETED).mean() for name in ("rnn", "gru")}
    assert (share["rnn"] < share["gru"]) == (rates["rnn"] > rates["gru"])


def test_the_published_condition_number_is_that_of_natural_logarithms():
    stated = law.summary(6)["condition_number"]
    assert abs(np.linalg.cond(law.columns()[1]) - stated) < 0.1 * stated


def test_regressions_on_each_other_have_the_published_slopes():
    covariance = law.terminal_covariance()
    assert covariance[0, 1] / covariance[1, 1] == pytest.approx(law.estimate(5, "metric"))
    assert covariance[0, 1] / covariance[0, 0] == pytest.approx(law.estimate(11, "accuracy"))
    for covariance in law.training_covariances():
        assert covariance[0, 1] / covariance[1, 1] == pytest.approx(law.estimate(2, "metric"))
        assert np.linalg.eigvalsh(covariance).min() > 0


def test_the_dataset_follows_the_schema_and_says_what_it_is(small):
    SCHEMA.validate(small)
    assert small.attrs["profile"] == PROFILE and "No network was trained" in caution(PROFILE)
    assert caution("quick") == ""
    with pytest.raises(ResultsError, match="factorial/2"):
        FACTORIAL.validate(small)
    assert small.sizes["replicate"] == 2
    ran = small["status"].sel(architecture="unicornn", dataset="mnist", noise="post")
    assert (ran == MISSING).all()
    assert small["accuracy"].min() < 0, "normal accuracies are not cut off"
    parameters = load_published("diss-tab-3.3").set_index(["architecture", "width"])["parameters"]
    point = {"architecture": "gru", "width": 256, "dataset": "imdb"}
    assert small["parameters"].sel(point) == parameters["gru", 256]
    assert small["time_steps"].sel(dataset="imdb", noise="post") == 1500


def test_the_same_seed_gives_the_same_dataset_and_another_another(small):
    kept = {"replicates": 1, "dataset": ["imdb"], "training_length": [25]}
    one, again, other = (simulate(seed, **kept) for seed in (1, 1, 2))
    assert one.identical(again) and not np.array_equal(other["status"], one["status"])
    assert one["epoch"].max() == 25 and one["dataset"].values.tolist() == ["imdb"]
    with pytest.raises(ValueError, match="replicates is 11"):
        simulate(1, replicates=11)


def test_estimates_lie_about_the_truth(small):
    fits = Fits(small)
    for number in (2, 3, 5, 6, 9, 11, 12):
        table, truth = fits.fit(number).coefficients.set_index("term"), law.truth(number)
        assert list(truth.index) == [*(n for n in truth.index if n in table.index)] or number == 9
        z = (table["estimate"] - truth.reindex(table.index)) / table["standard_error"]
        assert z.notna().all()
        # A wrong sign, reference level or unit would leave next to nothing near the truth.
        assert (z.abs() < 3.5).all() and (z**2).mean() < 3
