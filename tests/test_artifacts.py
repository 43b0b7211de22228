"""Artifacts on disk, their manifests, and how architectures look in figures."""

import json
import re
from unittest.mock import Mock

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from longrnn.cells import cell_class, cell_names
from random_groups import group_sampler
from study import figures as plotting
from study.claims.intervals import proportion
from study.claims.judging import Judges, show_claims
from study.results import names
from study.results.artifact_files import style_table
from study.results.artifacts import Artifacts

SUFFIXES = (".png", ".svg", ".csv")


def make(out, **changes):
    run = {"notebook": "22_x", "result_set": "rebuilt", "profile": "quick", "runs": 12}
    return Artifacts(out, **run | changes)


def draw():
    plotting.use_style()
    figure, ax = plt.subplots()
    ax.plot([0, 1, 2], [1, 3, 2], label="a line")
    ax.legend()
    return figure


FRAME = pd.DataFrame({"architecture": ["rnn", "lstm"], "rate": [0.1, None]})


def manifest(path):
    return json.loads(path.with_suffix(".json").read_text("utf-8"))


def test_a_table_and_its_manifest(tmp_path):
    path = make(tmp_path).save_table(FRAME, "diss-tab-1.7", caption="Rates × runs.")
    assert path.read_text() == "architecture,rate\nrnn,0.1\nlstm,\n"
    record = {"artifact": "diss-tab-1.7", "kind": "table", "profile": "quick", "runs": 12}
    assert manifest(path) == record | {"file": path.as_posix(), "caption": "Rates × runs."}


NUMBERS = pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": [3.0, 1.0, 2.0]})
NESTED = pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([("a", 1)]))


@pytest.mark.parametrize(
    ("frame", "first"),
    [
        (NUMBERS.describe(), ("row,x,y", "count,3.0,3.0")),
        (NUMBERS.corr(), ("row,x,y", "x,1.0,")),
        (NESTED, ("row,row_2,x", "a,1,1")),
        (NUMBERS[NUMBERS["x"] > 1], ("x,y", "2.0,1.0")),
        (NUMBERS.set_index("x"), ("x,y", "1.0,3.0")),
    ],
)
def test_row_labels_are_saved_but_not_row_numbers(tmp_path, frame, first):
    path = make(tmp_path).save_table(frame, "own-x", caption="")
    lines = path.read_text().splitlines()
    assert lines[0] == first[0] and lines[1].startswith(first[1])


def test_displayed_tables_show_row_labels(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("study.results.artifacts.display", shown.append)
    for frame in (NUMBERS.describe(), NUMBERS):
        make(tmp_path).show_table(frame, "own-x", caption="")
    described, numbered = (styler.to_html() for styler in shown)
    assert ">count</th>" in described
    assert "row_heading" not in numbered


def test_labels_that_are_numbers_have_the_digits_that_they_need():
    rates = pd.MultiIndex.from_tuples([("LEM", 0.0026), ("coRNN", np.nan)], names=["label", "rate"])
    shown = style_table(pd.DataFrame({0.01: [1.0, 2.0]}, index=rates), precision=1).to_html()
    assert ">0.0026</th>" in shown and ">0.01</th>" in shown
    assert "0.00" not in shown.replace("0.0026", "") and "nan" not in shown


def test_displayed_numbers_have_no_negative_zero_and_p_values_no_zero():
    values = {"metric": [-0.0004, -1234.5], "robust_p": [3e-12, 0.01234], "count": [2520, 1]}
    shown = style_table(pd.DataFrame(values), precision=2).to_html()
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", shown)
    assert cells == ["0.00", "&lt; 0.0001", "2,520", "-1,234.50", "0.012", "1"]


def test_displayed_tables_have_words_for_names_and_truth_values():
    columns = {"architecture": ["rnn", None], "is_ok": [True, False]}
    shown = style_table(pd.DataFrame(columns)).to_html()
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", shown)
    assert cells == ["Basic RNN", "yes", "–", "no"]
    assert ">is ok</th>" in shown
    wide = pd.DataFrame({"architecture": ["rnn"], "dataset": ["fashion_mnist"], "best_rate": [0.5]})
    wide = wide.pivot(index="architecture", columns="dataset", values=["best_rate"])
    shown = style_table(wide).to_html()
    assert ">best rate</th>" in shown and ">Fashion MNIST</th>" in shown
    assert ">Basic RNN</th>" in shown


def test_displayed_values_of_several_kinds_have_their_own_format():
    values = {"mixed": [np.nan, True, "text", np.float32(-0.0), 1e6]}
    shown = style_table(pd.DataFrame(values, dtype=object)).to_html()
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", shown)
    assert cells == ["–", "yes", "text", "0.000", "1,000,000.000"]


def test_paths_parts_and_own_artifacts(tmp_path, monkeypatch):
    monkeypatch.setattr("study.results.artifacts.ROOT", tmp_path)
    made = make(tmp_path / "data")
    how = {"part": "by-task", "caption": ""}
    path = made.save_table(FRAME.set_index("architecture"), "diss-tab-1.7", **how)
    assert path.read_text().startswith("architecture,rate\n")
    record = manifest(path)
    assert record["file"] == "data/made/22_x/rebuilt/tables/diss-tab-1.7-by-task.csv"
    assert (record["artifact"], record["part"]) == ("diss-tab-1.7", "by-task")
    assert made.save_table(FRAME, "own-speed", caption="").exists()


def test_equal_figures_are_equal_files(tmp_path):
    contents = []
    for name in ("one", "two"):
        made = make(tmp_path / name)
        made.show_figure(draw(), "diss-fig-3.3", data=FRAME, caption="")
        path = made.figures / "diss-fig-3.3.png"
        contents.append([path.with_suffix(suffix).read_bytes() for suffix in SUFFIXES])
    assert contents[0] == contents[1] and all(contents[0])
    assert contents[0][0].startswith(b"\x89PNG") and b"<dc:date>" not in contents[0][1]
    assert (manifest(path)["kind"], manifest(path)["file"]) == ("figure", path.as_posix())


TWO_ROWS = pd.concat({"ours": FRAME}, axis="columns")


@pytest.mark.parametrize(
    ("run", "table", "complaint"),
    [
        ({}, {"artifact": "diss-tab-3.44"}, "artifact 'diss-tab-3.44'; expected"),
        ({}, {"frame": TWO_ROWS}, "expected one row of column names"),
        ({}, {"part": "../up"}, "the file is 'own-x-../up'"),
        ({"result_set": "../up"}, {}, "result_set is '../up'"),
        ({"notebook": "a\n"}, {}, "notebook is 'a"),
        ({"notebook": ".22"}, {}, "notebook is '.22'; .*, beginning with a letter or a digit$"),
    ],
)
def test_wrong_names_are_refused(tmp_path, run, table, complaint):
    given = {"frame": FRAME, "artifact": "own-x", "caption": ""} | table
    with pytest.raises(ValueError, match=complaint):
        make(tmp_path, **run).save_table(**given)
    assert list(tmp_path.rglob("*.*")) == []


def test_a_failed_figure_leaves_no_manifest(tmp_path, monkeypatch):
    made = make(tmp_path)
    figure = draw()
    made.show_figure(figure, "diss-fig-3.3", data=FRAME, caption="whole")
    path = made.figures / "diss-fig-3.3.png"
    monkeypatch.setattr(figure, "draw", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        made.show_figure(figure, "diss-fig-3.3", data=FRAME, caption="broken")
    assert not path.with_suffix(".json").exists()
    assert [file.name for file in made.figures.iterdir() if "partial" in file.name] == []


def test_judged_claims_are_kept_for_the_report(tmp_path, capsys):
    made = make(tmp_path)
    judges = Judges({"diss-3.6-latch": lambda ds: proportion(9, 10)})
    show_claims(made, judges(xr.Dataset(attrs={"profile": "real"})))
    path = made.tables / "own-claims.csv"
    assert pd.read_csv(path).loc[0, ["id", "verdict"]].tolist() == ["diss-3.6-latch", "agrees"]
    assert manifest(path)["kind"] == "claims"


def test_unknown_learning_counts_as_not_learned(tmp_path):
    ds = xr.Dataset(attrs={"schema": "made_up/1", "settings": "{}"})
    assert "learned" not in manifest(make(tmp_path, ds=ds).save_table(FRAME, "own-x", caption=""))


def test_artifacts_of_some_runs_describe_those(tmp_path):
    """Half of the runs read a stand-in and stay at chance, the others learned the paper's data."""
    make_runs = group_sampler({("LEM", "images"): 60.0, ("LEM", "digits"): 10.0}, spread=0.1)
    ds = make_runs(np.random.default_rng(0))
    ds = ds.assign_attrs(schema="rows/1", settings="{}")
    ds["task_settings"] = "run", ['{"dataset": "mnist"}', '{"dataset": "digits"}']
    both = make(tmp_path, ds=ds)
    assert manifest(both.save_table(FRAME, "own-x", caption=""))["stand_in"]
    images = both.of_runs(ds.isel(run=[0]))
    described = manifest(images.save_table(FRAME, "own-y", caption=""))
    assert described["learned"] and "stand_in" not in described and described["runs"] == 6
    assert "learned" not in manifest(both.save_table(FRAME, "own-z", caption=""))


def test_panels_get_letters_but_color_bars_do_not(tmp_path):
    figure, axes = plt.subplots(1, 2)
    axes[1].twinx()
    figure.colorbar(axes[0].imshow([[1.0, 2.0]]), ax=axes[0])
    make(tmp_path).show_figure(figure, "own-x", data=FRAME, caption="")
    letters = []
    for ax in figure.axes:
        letters.append([text.get_text() for text in ax.texts])
    assert letters == [["a"], ["b"], [], []]


def test_a_single_panel_gets_no_letter(tmp_path):
    figure = draw()
    make(tmp_path).show_figure(figure, "own-x", data=FRAME, caption="")
    assert not list(figure.axes[0].texts)


def test_each_architecture_has_its_own_color_and_marker():
    cells = sorted(names.LOOKS)
    assert {"rnn", "lem", "dt_lstm"} <= set(cells)
    looks = {(plotting.color_of(cell), plotting.marker_of(cell)) for cell in cells}
    assert len(looks) == len(cells)
    for name in {*cell_names()} & {*names.LABELS} - {"irnn"}:  # others go by their file's name
        assert plotting.label(name).lower() == cell_class(name).title.lower(), name
    assert plotting.task_label("mnist", "permuted", "uniform") == "MNIST, permuted × uniform"
    assert plotting.task_label("fashion_mnist", "sequential", "none") == "Fashion MNIST, sequential"
    assert (plotting.color_of("eighth"), plotting.marker_of("eighth")) == names.OTHERS
    assert names.OTHERS not in names.LOOKS.values() and plotting.label("eighth") == "eighth"
