"""The attempts of experiment 2.3, from results made up so that the answers are known."""

import numpy as np
import pytest
import xarray as xr

from lib.analysis.padding import METHODS, attempts, learning_bound, of_table, summarise
from lib.results.published import load_published
from lib.results.schema import COMPLETED, DIVERGED, MISSING, NOT_PLANNED

RUNS = {  # method, padding, input scale, kappa -> test accuracies of three replicates
    ("adjoint", 0, "1/T", np.nan): (0.5, 0.6, 0.8),
    ("adjoint", 0, "0.1", np.nan): (0.1, 0.1, 0.1),
    ("coadjoint", 4, "1/T", 0.1): (0.5, 0.6, 0.8),
    ("lstm", 4, "", np.nan): (0.9, 0.7, 0.7),
    ("sweep", 3, "1/T", 0.0): (0.1, 0.1, 0.1),
}


@pytest.fixture
def ds():
    """The coadjoint network diverged once in its second epoch; of the LSTM two trainings were planned, of which one is missing."""
    method, padding, scale, kappa = (list(level) for level in zip(*RUNS, strict=True))
    status = np.full((len(RUNS), 3), COMPLETED)
    status[2, 2], status[3, 1], status[3, 2] = DIVERGED, MISSING, NOT_PLANNED
    records = np.where(status == COMPLETED, 2, 0)
    records[2, 2] = 1
    last = np.array(list(RUNS.values()))
    accuracy = np.stack([0.1 + 0 * last, last], -1)
    accuracy = np.where(np.arange(2) < records[..., None], accuracy, np.nan)
    run, training = ("run",), ("run", "replicate")
    adjoints = np.where(status == COMPLETED, -30.0, np.nan)
    adjoints[0, 0] = -np.inf
    norms = np.stack([np.full_like(adjoints, 7.0), adjoints], -1)
    return xr.Dataset(
        {
            "network": (run, method),
            "width": (run, [100] * len(RUNS)),
            "status": (training, status),
            "records": (training, records),
            "test_metric": ((*training, "record"), accuracy),
            "adjoint_norm_first": ((*training, "stage"), norms),
            "adjoint_norm_last": ((*training, "stage"), 0 * norms.clip(-1)),
        },
        {
            "run": [f"{i}" for i in range(len(RUNS))],
            "stage": ["untrained", "trained"],
            "padding": (run, np.array(padding, float)),
            "input_scale": (run, scale),
            "kappa": (run, kappa),
        },
    )


def test_every_planned_attempt_is_a_row_and_only_completed_ones_have_values(ds):
    rows = attempts(ds)
    assert len(rows) == 14 and set(rows["padding"]) == {0, 3, 4}
    assert rows["status"].value_counts().to_dict() == {
        "completed": 12,
        "diverged": 1,
        "missing": 1,
    }
    done = rows["status"] == "completed"
    assert rows.loc[~done, ["accuracy", "metric"]].isna().all(axis=None)
    assert rows.loc[done, "accuracy"].tolist() == [
        0.5,
        0.6,
        0.8,
        *[0.1] * 3,
        0.5,
        0.6,
        0.9,
        *[0.1] * 3,
    ]
    assert set(rows.loc[done, "metric"]) == {-30, -np.inf}, "after training, not before"


def test_the_table_has_the_author_s_input_weights_and_no_sweep(ds):
    rows = of_table(attempts(ds))
    assert rows.groupby("method").size().to_dict() == {"adjoint": 3, "coadjoint": 3, "lstm": 2}


def test_medians_are_over_completed_attempts_and_all_are_counted(ds):
    table = summarise(of_table(attempts(ds)), ["method", "padding"]).set_index("method")
    assert table.index.tolist() == ["adjoint", "coadjoint", "lstm"], "in order of appearance"
    counted = table[["planned", "completed", "diverged", "missing"]]
    assert counted.to_numpy().tolist() == [[3, 3, 0, 0], [3, 2, 1, 0], [2, 1, 0, 1]]
    assert table["median"].tolist() == pytest.approx([60, 55, 90])
    assert table["mad"].tolist() == pytest.approx([10, 5, 0])


def test_a_group_of_failures_has_no_median(ds):
    ds["status"][:] = DIVERGED
    table = summarise(attempts(ds), ["method"])
    assert (table["diverged"] == table["planned"]).all()
    assert table[["median", "mad"]].isna().all(axis=None)


def test_the_bound_is_what_guessing_hardly_ever_reaches():
    draws = np.random.default_rng(0).binomial(1000, 0.11, 200_000) / 10
    assert (draws > learning_bound(0.11, 1000)).mean() <= 0.001
    assert (draws > learning_bound(0.11, 1000) - 1).mean() > 0.001


def test_the_published_table_is_whole():
    table = load_published("diss-tab-2.2")
    keys = ["dataset", "padding", "method", "width"]
    assert not table.duplicated(keys).any()
    assert set(table["method"]) == set(METHODS) - {"linear", "fixed_w"}
    assert table.groupby("padding").size().to_dict() == {0: 50, 4: 50, 8: 50, 12: 20}
    assert table["median"].between(9, 100).all()
    bold = table.set_index(keys)["median"]  # the text's bold cells and one of its oddities
    assert bold["mnist", 0, "lstm", 100] == 98.6
    assert bold["fashion_mnist", 12, "coadjoint", 100] == 47.7
    assert bold["mnist", 0, "adjoint", 60] == 91.4
    assert table.set_index(keys)["mad"]["mnist", 8, "adjoint", 100] == 19.4
