"""The transcribed tables are whole, traceable, and consistent if the paper can be checked."""

import numpy as np
import pandas as pd
import pytest
from designs import sections
from refusals import refused
from study.config.factorial import Factorial
from study.config.section import parse_section
from study.paths import PUBLISHED
from study.results.published import (
    PublishedError,
    artifacts,
    join_published,
    layout,
    load_published,
    sources,
)
from study.training.plans import plan_jobs

TASK = ["dataset", "order", "noise"]
CELL = [*TASK, "architecture"]
LEVELS = {
    "architecture": {"rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn"},
    "dataset": {"cifar10", "fashion_mnist", "imdb", "mnist", "reuters"},
    "order": {"sequential", "permuted"},
    "noise": {"none", "post", "uniform"},
}


def test_every_published_file_has_a_source():
    listed = sources()
    ids = artifacts()["id"]
    lists = {f"{name}.csv" for name in ("artifacts", "sources")}
    assert set(listed["file"]) == {path.name for path in PUBLISHED.glob("*.csv")} - lists
    assert (listed[["paper", "table", "page"]] != "").all(axis=None)
    assert listed["file"].is_unique and ids.is_unique
    stems = listed["file"].str.replace(r"(-thresholds)?(-curves)?\.csv$", "", regex=True)
    # Only designs are transcribed without being a result.
    assert set(stems) - set(ids) == {"diss-tab-3.2", "diss-sec-3.5", "unicornn-tab-6"}


@pytest.mark.parametrize(
    ("name", "keys", "rows", "sums"),
    [
        ("A1", TASK, 30, [22.8, 2.41]),
        ("A2", CELL, 210, [3569.5, 575.2]),
        ("A3", TASK, 30, [5.62e18, 24.63, 3.55]),
        ("1.5", ["architecture"], 7, [3.06, 3.94]),
        ("1.6", ["architecture"], 7, [2465.38, 63, 210.28, 0.002]),
        ("A4", [*CELL, "quartile"], 210 * 4, [236911]),
        ("A5", [*CELL, "quartile"], 210 * 4, [6634]),
        ("A6", [*CELL, "regime"], 210 * 2, [271625]),
        ("A7", [*CELL, "regime"], 210 * 2, [7408]),
        ("A4-thresholds", [*TASK, "quartile"], 30 * 4, [74.038]),
        ("A5-thresholds", [*TASK, "quartile"], 30 * 4, [64.39]),
        ("A6-thresholds", [*TASK, "quartile"], 30, [21.202]),
        ("A7-thresholds", [*TASK, "quartile"], 30, [17.406]),
        ("2.2", ["dataset", "padding", "method", "width"], 170, [7745.39, 425.285]),
    ],
)
def test_published_tables_are_complete(name, keys, rows, sums):
    """The sums are those of the numbers as they were compared with the pages."""
    table = load_published(f"diss-tab-{name}")
    assert len(table) == rows and not table.duplicated(keys).any()
    numbers = table.drop(columns=keys).select_dtypes("number")
    assert numbers.sum().tolist() == pytest.approx(sums, rel=1e-9)
    for key in set(keys) & set(LEVELS) if name != "2.2" else ():
        assert set(table[key]) == LEVELS[key]
    assert name in ("A2", "A3") or table.notna().all(axis=None)
    if name in ("A4-thresholds", "A5-thresholds"):
        for _, part in table.groupby(TASK):
            assert part.sort_values("quartile")["accuracy"].is_monotonic_increasing


@pytest.mark.parametrize(("by_quartile", "by_regime"), [("A4", "A6"), ("A5", "A7")])
def test_published_tables_agree_on_counts(by_quartile, by_regime):
    top = load_published(f"diss-tab-{by_quartile}").query("quartile == 'Q1.00'")
    vanished = load_published(f"diss-tab-{by_regime}").query("regime == 'vanished'")
    table = join_published(top, vanished, on=CELL, value="count")
    assert len(table) == 210 and (table["difference"] == 0).all()


def test_paper_profile_is_the_published_design():
    # Not `load_profile`, which also checks all groups and takes much longer; test_params.py does.
    design = parse_section(Factorial, sections("paper")["factorial"], "factorial")
    printed = load_published("diss-tab-3.2").groupby("factor")["level"].agg(list)
    for factor in ("architecture", "dataset", "order", "noise"):
        assert set(getattr(design, factor)) == set(printed[factor])
    for factor in ("width", "learning_rate", "training_length"):
        assert sorted(getattr(design, factor)) == sorted(map(float, printed[factor]))
    assert design.replicates == len(printed["replicate"])
    assert design.job_count == len(plan_jobs([design])) == 42000
    assert design.batch_size == 32
    assert design.train_size == design.test_size == design.probe_size == 0, "all of the data"


OURS = pd.DataFrame({"architecture": ["rnn", "own"], "rate": [0.2, 0.3], "n": [5, 6]})
TWICE = pd.concat([OURS, OURS])
THEIRS = OURS.assign(architecture=["rnn", "lstm"], rate=[0.1, 0.4])
KEY = ["architecture"]


@pytest.mark.parametrize(("theirs", "first"), [(THEIRS, [0.1, 0.1]), (None, [np.nan, np.nan])])
def test_join_keeps_our_rows(theirs, first):
    table = join_published(OURS, theirs, on=KEY, value="rate")
    assert list(table) == ["architecture", "ours", "n", "published", "difference"]
    assert table["architecture"].tolist() == ["rnn", "own"]
    np.testing.assert_allclose(table[["published", "difference"]], [first, [np.nan] * 2])


test_what_is_not_there_or_twice_is_named = refused(
    (PublishedError, ValueError),
    ("numbers of 'diss-fig-1.2' are not transcribed", lambda: load_published("diss-fig-1.2")),
    ("several rows with the same", lambda: join_published(OURS, TWICE, on=KEY, value="rate")),
)


def test_layout_writes_ours_and_published():
    table = pd.DataFrame({"architecture": ["rnn", "rnn", "gru", "gru"], "width": [64, 8, 64, 8]})
    table = table.assign(ours=[4224, 1, 2, 0.5], published=[4224, None, 3, 0.25])
    arranged = layout(table, rows=["architecture"], columns=["width"])
    assert arranged.index.tolist() == ["rnn", "gru"] and arranged.columns.tolist() == [64, 8]
    assert arranged.to_numpy().tolist() == [["4,224 | 4,224", "1 | –"], ["2 | 3", "0.5 | 0.25"]]
