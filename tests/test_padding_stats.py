"""The tables and figures of experiment 2.3, from results made up so that the answers are known."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from lib.experiments.padding import CELLS as TRAINED
from lib.experiments.padding import MEASURED, SCHEMA

from lib.analysis.balance import (
    balance,
    balance_by_padding,
    count_balanced,
    kappa_effect,
    plot_balance,
    plot_kappa,
)
from lib.analysis.padding import (
    METHODS,
    attempts,
    coadjoint_gain,
    constant_answers,
    learners,
    learning_bound,
    plot_accuracy,
    summarise,
    sweep_attempts,
    table_cells,
)
from lib.results.published import load_published
from lib.results.schema import COMPLETED, DIVERGED, MISSING, NOT_PLANNED

LEVELS = {
    "dataset": ["mnist"],
    "padding": [0, 4],
    "method": ["adjoint", "coadjoint"],
    "width": [60, 100],
    "input_scale": ["1/T"],
    "replicate": [0, 1, 2],
    "sweep_padding": [0, 3],
    "initialisation": ["orthogonal", "glorot"],
    "kappa": [0.0, 0.1, 10.0],
    "sweep_replicate": [0, 1],
    "split": ["train", "test"],
    "epoch": [1, 2],
}


@pytest.fixture
def ds():
    """Width 60 has padding 0 alone; at 4x, d = 100, the coadjoint method diverged once and balances."""
    ds = SCHEMA.empty(LEVELS, profile="smoke")
    for prefix in ("", "sweep_"):
        ds[f"{prefix}status"][:] = COMPLETED
        ds[f"{prefix}epochs_completed"][:] = 2
        for name in MEASURED[1:]:
            ds[prefix + name][:] = 0.0
    accuracy = ds["accuracy"].sel(split="test", epoch=2)
    for k, value in enumerate((0.5, 0.6, 0.8)):
        accuracy[{"replicate": k}] = value
    accuracy.loc[{"padding": 4, "method": "adjoint"}] = 0.11
    ds["accuracy"].loc[{"split": "test", "epoch": 2}] = accuracy
    ds["adjoint_first"].loc[{"method": "adjoint"}] = -30.0
    ds["adjoint_first"].loc[{"method": "adjoint", "replicate": 2}] = -np.inf
    _end(ds, "", {"padding": 4, "method": "coadjoint", "width": 100, "replicate": 2}, DIVERGED)
    _end(ds, "", {"padding": 4, "width": 60}, NOT_PLANNED)
    swept = {"sweep_padding": 3, "split": "test", "epoch": 2}
    for kappa, value in ((0.0, 0.1), (0.1, 0.7), (10.0, 0.3)):
        ds["sweep_accuracy"].loc[swept | {"kappa": kappa}] = value
    _end(ds, "sweep_", {"sweep_padding": 3, "initialisation": "glorot", "kappa": 10.0}, DIVERGED)
    ds["examples"][:] = 1000
    ds["largest_class"][:] = 0.11
    ds["first_class"][:] = 0.098
    return SCHEMA.validate(ds)


def _end(ds, prefix, at, status):
    ds[f"{prefix}status"].loc[at] = status
    ds[f"{prefix}epochs_completed"].loc[at] = 0
    for name in MEASURED[1:]:
        ds[prefix + name].loc[at] = np.nan


def test_medians_are_over_completed_attempts_and_all_are_counted(ds):
    rows = attempts(ds)
    assert len(rows) == int((ds["status"] != NOT_PLANNED).sum()) == 18
    table = summarise(rows, ["padding", "method", "width"]).set_index(
        ["padding", "method", "width"]
    )
    whole = table.loc[0, "coadjoint", 100]
    assert (whole["planned"], whole["diverged"]) == (3, 0)
    assert whole[["median", "mad"]].tolist() == pytest.approx([60, 10])
    part = table.loc[4, "coadjoint", 100]
    assert (part["planned"], part["completed"], part["diverged"]) == (3, 2, 1)
    assert part[["median", "mad"]].tolist() == pytest.approx([55, 5])
    assert (4, "adjoint", 60) not in table.index


def test_an_attempt_that_never_ran_is_counted_and_one_that_no_grid_has_is_not(ds):
    _end(ds, "", {"padding": 0, "method": "adjoint", "width": 60, "replicate": 0}, MISSING)
    rows = attempts(SCHEMA.validate(ds))
    table = summarise(rows, ["padding", "method", "width"]).set_index(
        ["padding", "method", "width"]
    )
    assert table.loc[0, "adjoint", 60][["planned", "completed", "missing"]].tolist() == [3, 2, 1]
    assert table["planned"].sum() == 18


def test_a_group_of_failures_has_no_median(ds):
    rows = sweep_attempts(ds)
    table = summarise(rows, ["padding", "initialisation", "kappa"])
    failed = table.set_index(["padding", "initialisation", "kappa"]).loc[3, "glorot", 10.0]
    assert (failed["diverged"], failed["completed"]) == (2, 0)
    assert np.isnan(failed["median"]) and np.isnan(failed["mad"])


def test_the_bound_is_what_guessing_hardly_ever_reaches():
    draws = np.random.default_rng(0).binomial(1000, 0.11, 200_000) / 10
    assert (draws > learning_bound(0.11, 1000)).mean() <= 0.001
    assert (draws > learning_bound(0.11, 1000) - 1).mean() > 0.001


def test_who_learned_here_and_in_the_text(ds):
    published = load_published("diss-tab-2.2")
    summary = summarise(attempts(ds), ["dataset", "padding", "method", "width"])
    table = learners(summary, published, ds, width=100).set_index(["padding", "method"])
    assert table["learned"].to_dict() == {
        (0, "adjoint"): True,
        (0, "coadjoint"): True,
        (4, "adjoint"): False,
        (4, "coadjoint"): True,
    }
    assert table["published"].to_dict()[4, "coadjoint"] == 81.5
    assert table["published_learned"].all()
    nothing = learners(summary.assign(dataset="digits"), published, ds, width=100)
    assert nothing["published_learned"].isna().all()


def test_constant_answers_are_found_in_the_text_s_table():
    shares = {"mnist": 0.098, "fashion_mnist": 0.1}
    found = constant_answers(load_published("diss-tab-2.2"), shares)
    cells = set(found[["dataset", "padding", "width"]].itertuples(index=False, name=None))
    assert set(found["method"]) == {"coadjoint"}
    assert cells == {
        ("mnist", 4, 20),
        ("mnist", 8, 20),
        ("mnist", 8, 40),
        ("fashion_mnist", 8, 20),
        ("fashion_mnist", 8, 40),
    }


def test_the_published_table_is_whole():
    table = load_published("diss-tab-2.2")
    keys = ["dataset", "padding", "method", "width"]
    assert not table.duplicated(keys).any()
    assert set(table["method"]) == set(TRAINED) - {"linear", "fixed_w"}
    counts = table.groupby("padding").size().to_dict()
    assert counts == {0: 50, 4: 50, 8: 50, 12: 20}
    assert table["median"].between(9, 100).all()
    bold = table.set_index(keys)["median"]  # the text's bold cells and two of its oddities
    assert bold["mnist", 0, "lstm", 100] == 98.6
    assert bold["fashion_mnist", 12, "coadjoint", 100] == 47.7
    assert bold["mnist", 0, "adjoint", 60] == 91.4
    assert table.set_index(keys)["mad"]["mnist", 8, "adjoint", 100] == 19.4


def test_balance_takes_further_paddings_from_the_sweep(ds):
    rows = balance(ds, "mnist", 100, 0.1)
    assert rows.groupby(["padding", "method"]).size().to_dict() == {
        (0, "adjoint"): 3,
        (0, "coadjoint"): 3,
        (3, "adjoint"): 2,
        (3, "coadjoint"): 2,
        (4, "adjoint"): 3,
        (4, "coadjoint"): 2,
    }
    table = balance_by_padding(rows, learning_bound(0.11, 1000)).set_index("padding")
    assert table.loc[4, "metric_adjoint"] == -30
    assert table.loc[4, "rho"] < 0
    assert table.loc[4, ["balanced", "balanced_not_learned"]].tolist() == [2, 0]
    assert table.loc[3, ["balanced", "balanced_not_learned"]].tolist() == [4, 2]
    assert np.isnan(table.loc[3, "rho"]), "the metric does not vary"


def test_balance_is_counted_beside_learning():
    rows = pd.DataFrame(
        {
            "method": ["adjoint"] * 3 + ["lstm"],
            "metric": [0.5, -0.9, -30.0, -np.inf],
            "accuracy": [0.9, 0.1, 0.1, 0.9],
        }
    )
    table = count_balanced(rows, 11.0).set_index("method")
    assert table.loc["adjoint"].tolist() == [3, 2, 1, 0]
    assert table.loc["lstm"].tolist() == [1, 0, 0, 1]


def test_methods_are_compared_start_by_start(ds):
    table = coadjoint_gain(attempts(ds), 100).set_index("padding")
    assert table.loc[0, ["median", "pairs", "better"]].tolist() == [0, 3, 0]
    # The third start diverged by the coadjoint method and is no pair.
    assert table.loc[4, ["min", "max", "pairs", "better"]].tolist() == pytest.approx([39, 49, 2, 2])


def test_the_effect_of_kappa_by_setting(ds):
    summary = summarise(sweep_attempts(ds), ["padding", "initialisation", "kappa"])
    effect = kappa_effect(summary, learning_bound(0.11, 1000))
    effect = effect.set_index(["padding", "initialisation"])
    hard = effect.loc[3, "orthogonal"]
    assert (hard["best_kappa"], hard["learned"], hard["learned_with"]) == (0.1, False, 2)
    assert effect.loc[3, "glorot"][["no_worse", "learned_with"]].tolist() == [1, 1]
    assert effect.loc[0, "glorot"]["no_worse"] == 2


def test_a_weight_within_the_noise_of_the_test_images_does_no_harm():
    summary = pd.DataFrame(
        {
            "padding": 0,
            "initialisation": "orthogonal",
            "kappa": [0.0, 0.1, 1.0, 10.0],
            "median": [50.0, 48.0, 47.0, 49.0],
        }
    )
    exact = kappa_effect(summary, 11.0).iloc[0]
    assert exact[["no_worse", "harmless_to"]].tolist() == [0, 0]
    noisy = kappa_effect(summary, 11.0, 2500).iloc[0]  # one standard error is a point
    assert noisy[["no_worse", "harmless_to"]].tolist() == [2, 0.1]


def test_figures_draw_failures_and_infinite_ratios(ds):
    curves = ds["accuracy"].sel(split="test", width=100, dataset="mnist", drop=True)
    figure, data = plot_accuracy(curves, load_published("diss-tab-2.2"), 0.11)
    assert [ax.get_title() for ax in figure.axes] == ["padding 0x", "padding 4x"]
    last = data.set_index(["padding", "method", "epoch"]).loc[4, "coadjoint", 2]
    assert last[["median", "lowest", "highest"]].tolist() == pytest.approx([55, 50, 60])
    published = [line for line in figure.axes[1].lines if line.get_linewidth() == 3]
    at_end = {
        np.mean(line.get_ydata()) for line in published if min(line.get_xdata(), default=0) > 2
    }
    assert 81.5 in at_end and len(at_end) > 1
    rows = balance(ds, "mnist", 100, 0.1)
    for shown in (
        rows,
        rows.assign(metric=rows["metric"] / 1000),
    ):  # with logarithmic ends, without
        balanced = plot_balance(shown)
        drawn = [points.get_offsets()[:, 0] for ax in balanced.axes for points in ax.collections]
        assert sum(map(len, drawn)) == len(rows)
        low, high = balanced.axes[0].get_xlim()
        assert all(low < place < high for place in np.concatenate(drawn))
        near = {-2, 0, 2} <= set(balanced.axes[0].get_xticks())
        assert near == (balanced.axes[0].get_xscale() == "symlog")
    swept = plot_kappa(sweep_attempts(ds), 0.11, {"orthogonal": "orthogonal", "glorot": "Glorot"})
    assert len(swept.axes) == 4
    plt.close("all")


def test_a_cell_of_the_table_says_what_there_is():
    columns = ["ours", "mad", "completed", "diverged", "published", "published_mad", "width"]
    table = pd.DataFrame(
        [
            [91.25, 1.0, 2, 1, 80.0, 2.0, 20],
            [90.0, 0.0, 1, 0, np.nan, np.nan, 40],
            [np.nan] * 6 + [60],
        ],
        columns=columns,
    ).assign(dataset="mnist", padding=0, method="adjoint", diverged=[1, 0, 0])
    assert table_cells(table).iloc[0].tolist()[-3:] == [
        "91.2 ± 1.0 (1 failed) | 80.0 ± 2.0",
        "90.0 (one) | –",
        "– | –",
    ]


def test_every_method_has_a_name():
    assert set(METHODS) == set(TRAINED)


def test_rows_keep_the_text_of_the_status(ds):
    assert attempts(ds)["status"].value_counts().to_dict() == {"completed": 17, "diverged": 1}
