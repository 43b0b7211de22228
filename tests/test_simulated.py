"""The simulated dataset: who fails, its form, and the same again; notebook 15 counts it, notebook 34 finds its coefficients."""

import numpy as np
import pytest

from lib.analysis.simulated import PROFILE, caution, law
from lib.analysis.simulated.draw import SCHEMA, simulate
from lib.results.factorial import FACTORIAL
from lib.results.published import load_published
from lib.results.schema import COMPLETED, DIVERGED, MISSING, ResultsError


@pytest.fixture(scope="module")
def small():
    return simulate(1, replicates=2)


def test_architectures_fail_as_in_the_text():
    status = law.statuses(np.random.default_rng(0))
    table = law.treatments()
    own = {name: status[table["architecture"] == name] for name in ("antisymmetric", "rnn", "gru")}
    assert (own["antisymmetric"] == COMPLETED).all(), "Table 1.7: it never failed"
    assert (own["rnn"] == DIVERGED).any() and not (own["rnn"] == MISSING).any()
    rates = load_published("diss-tab-1.7").set_index("architecture")["error_rate"]
    share = {name: (own[name] == COMPLETED).mean() for name in ("rnn", "gru")}
    assert (share["rnn"] < share["gru"]) == (rates["rnn"] > rates["gru"])


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
