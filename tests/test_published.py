"""The transcribed tables: whole, traceable, and consistent wherever the text can be checked."""

import pandas as pd
import pytest

from lib.paths import PUBLISHED
from lib.results.published import PublishedError, artefacts, beside, layout, load_published, sources
from lib.training.profile import load_profile

TASK = ["dataset", "order", "noise"]
ARCHITECTURES = {"rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn"}
ORDERS, NOISES = {"sequential", "permuted"}, {"none", "post", "uniform"}
DATASETS = {"cifar10", "fashion_mnist", "imdb", "mnist", "reuters"}


def test_every_file_has_a_source_and_every_source_a_file():
    listed = set(sources()["file"])
    assert listed == {path.name for path in PUBLISHED.glob("*.csv")} - {
        "artefacts.csv",
        "claims.csv",
        "questions.csv",
        "sources.csv",
    }
    assert (sources()[["text", "table", "page"]] != "").all(axis=None)
    assert not sources()["file"].duplicated().any()


def test_transcribed_tables_belong_to_listed_artefacts_or_extend_one():
    ids = set(artefacts()["id"])
    stems = sources()["file"].str.removesuffix(".csv")
    extra = {
        stem
        for stem in stems
        if stem.removesuffix("-thresholds").removesuffix("-curves") not in ids
    }
    settings = {"diss-tab-3.2", "diss-sec-3.5", "unicornn-tab-6"}
    assert extra == settings, "only designs are transcribed without being a result"


def test_artefact_ids_are_distinct():
    assert artefacts()["id"].is_unique


@pytest.mark.parametrize(
    ("name", "keys", "rows"),
    [
        ("A4", [*TASK, "architecture", "quartile"], 5 * 6 * 7 * 4),
        ("A5", [*TASK, "architecture", "quartile"], 5 * 6 * 7 * 4),
        ("A6", [*TASK, "architecture", "regime"], 5 * 6 * 7 * 2),
        ("A7", [*TASK, "architecture", "regime"], 5 * 6 * 7 * 2),
        ("A4-thresholds", [*TASK, "quartile"], 5 * 6 * 4),
        ("A5-thresholds", [*TASK, "quartile"], 5 * 6 * 4),
        ("A6-thresholds", [*TASK, "quartile"], 5 * 6),
        ("A7-thresholds", [*TASK, "quartile"], 5 * 6),
    ],
)
def test_appendix_tables_are_complete(name, keys, rows):
    table = load_published(f"diss-tab-{name}")
    assert len(table) == rows
    assert not table.duplicated(keys).any()
    assert set(table["dataset"]) == DATASETS
    assert set(table["order"]) == ORDERS
    assert set(table["noise"]) == NOISES
    assert "architecture" not in table or set(table["architecture"]) == ARCHITECTURES
    assert table.notna().all(axis=None)


@pytest.mark.parametrize("name", ["A4", "A5"])
def test_thresholds_rise_with_the_quartile(name):
    table = load_published(f"diss-tab-{name}-thresholds")
    for _, rows in table.groupby(TASK):
        assert rows.sort_values("quartile")["accuracy"].is_monotonic_increasing
    assert table["accuracy"].between(0, 1).all()


# Single numbers read from the page by eye, at the corners and in the middle of each table.
@pytest.mark.parametrize(
    ("name", "dataset", "order", "noise", "architecture", "last", "count"),
    [
        ("A4", "cifar10", "sequential", "none", "exponential", "Q0.25", 1420),
        ("A4", "mnist", "sequential", "none", "exponential", "Q1.00", 3919),
        ("A4", "imdb", "permuted", "post", "lipschitz", "Q1.00", 21),
        ("A4", "imdb", "permuted", "post", "gru", "Q1.00", 1195),
        ("A4", "reuters", "permuted", "uniform", "rnn", "Q1.00", 586),
        ("A5", "mnist", "sequential", "none", "exponential", "Q1.00", 114),
        ("A5", "reuters", "permuted", "uniform", "exponential", "Q0.50", 64),
        ("A6", "cifar10", "sequential", "none", "unicornn", "stable", 3998),
        ("A6", "reuters", "permuted", "uniform", "rnn", "vanished", 586),
        ("A7", "reuters", "permuted", "uniform", "unicornn", "stable", 1),
        ("A7", "mnist", "sequential", "post", "exponential", "vanished", 49),
    ],
)
def test_single_numbers(name, dataset, order, noise, architecture, last, count):
    table = load_published(f"diss-tab-{name}")
    column = "quartile" if "quartile" in table else "regime"
    row = table[
        (table["dataset"] == dataset)
        & (table["order"] == order)
        & (table["noise"] == noise)
        & (table["architecture"] == architecture)
        & (table[column] == last)
    ]
    assert row["count"].item() == count


@pytest.mark.parametrize(("by_quartile", "by_regime"), [("A4", "A6"), ("A5", "A7")])
def test_tables_that_print_the_same_counts_agree(by_quartile, by_regime):
    top = load_published(f"diss-tab-{by_quartile}").query("quartile == 'Q1.00'")
    vanished = load_published(f"diss-tab-{by_regime}").query("regime == 'vanished'")
    table = beside(top, vanished, on=[*TASK, "architecture"], value="count")
    assert len(table) == 210
    assert (table["difference"] == 0).all()


def test_table_a4_counts_epochs_not_attempts():
    design = load_published("diss-tab-3.2").groupby("factor")["level"].agg(list)
    treatments = 7 * len(design["width"]) * len(design["learning_rate"]) * len(design["replicate"])
    per_task = load_published("diss-tab-A4").groupby(TASK)["count"].sum()
    assert (per_task > treatments * len(design["training_length"])).any()
    assert (per_task <= treatments * sum(map(int, design["training_length"]))).all()


def test_table_3_4_is_not_the_sum_of_table_a5():
    # A fact about the text that the notebook states; it must not become false unnoticed.
    on = ["order", "noise", "quartile"]
    summed = load_published("diss-tab-A5").groupby(on)["count"].sum().reset_index()
    table = beside(summed, load_published("diss-tab-3.4"), on=on, value="count")
    first = table.query("order == 'sequential' and noise == 'none' and quartile == 'Q1.00'")
    assert (first["ours"].item(), first["published"].item()) == (114, 113)
    assert not (table["difference"] == 0).any()


def test_the_paper_profile_is_the_published_design():
    (design,) = load_profile("paper").designs["factorial"]
    printed = load_published("diss-tab-3.2").groupby("factor")["level"].agg(list)
    for factor in ("architecture", "dataset", "order", "noise"):
        assert set(getattr(design, factor)) == set(printed[factor])
    assert sorted(design.width) == sorted(map(int, printed["width"]))
    assert sorted(design.learning_rate) == sorted(map(float, printed["learning_rate"]))
    assert sorted(design.training_length) == sorted(map(int, printed["training_length"]))
    assert design.replicates == len(printed["replicate"])


def test_unknown_and_untranscribed_artefacts_are_told_apart():
    with pytest.raises(PublishedError, match="the texts have no artefact 'diss-tab-9.9'"):
        load_published("diss-tab-9.9")
    with pytest.raises(PublishedError, match="'diss-fig-1.1' are not transcribed"):
        load_published("diss-fig-1.1")


def test_beside_keeps_our_rows_where_nothing_is_published():
    ours = pd.DataFrame({"architecture": ["rnn", "own"], "rate": [0.2, 0.3], "n": [5, 6]})
    theirs = pd.DataFrame({"architecture": ["rnn", "lstm"], "rate": [0.1, 0.4]})
    table = beside(ours, theirs, on=["architecture"], value="rate")
    assert list(table) == ["architecture", "ours", "n", "published", "difference"]
    assert table["architecture"].tolist() == ["rnn", "own"]
    assert table["difference"].iloc[0] == pytest.approx(0.1)
    assert table.loc[1, ["published", "difference"]].isna().all()


def test_beside_without_anything_published():
    ours = pd.DataFrame({"architecture": ["rnn"], "rate": [0.2]})
    table = beside(ours, None, on=["architecture"], value="rate")
    assert table["ours"].tolist() == [0.2]
    assert table[["published", "difference"]].isna().all(axis=None)


def test_beside_refuses_missing_columns_and_repeated_rows():
    ours = pd.DataFrame({"architecture": ["rnn"], "rate": [0.2]})
    with pytest.raises(ValueError, match="our table has no column 'count'"):
        beside(ours, ours, on=["architecture"], value="count")
    twice = pd.concat([ours, ours])
    with pytest.raises(ValueError, match="several rows for one value of architecture"):
        beside(ours, twice, on=["architecture"], value="rate")


def test_layout_writes_ours_and_published_in_the_order_of_the_table():
    table = pd.DataFrame(
        {
            "architecture": ["rnn", "rnn", "gru", "gru"],
            "width": [64, 8, 64, 8],
            "ours": [4224, 1, 2, 0.5],
            "published": [4224, None, 3, 0.25],
        }
    )
    arranged = layout(table, rows=["architecture"], columns=["width"])
    assert arranged.index.tolist() == ["rnn", "gru"]
    assert arranged.columns.tolist() == [64, 8]
    assert arranged.loc["rnn", 64] == "4,224 | 4,224"
    assert arranged.loc["rnn", 8] == "1 | –"
    assert arranged.loc["gru", 8] == "0.5 | 0.25"
