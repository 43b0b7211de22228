"""`make compare`: two rebuilds in a sentence."""

import subprocess

import numpy as np
import pandas as pd
import pytest
from study.report import compare as module
from study.report import rebuild_numbers
from study.report.compare import compare
from study.report.contents import ReportError
from study.report.rebuild_numbers import COLUMNS, MACHINE, VERDICT, collect_numbers

REBUILT = "a/rebuilt/tables/x"


def _numbers(values=(1.0, 2.0, 3.0, 4.0), verdict="agrees", item=REBUILT):
    table = pd.DataFrame({"label": ["a"] * len(values), "score": values})
    claim = {"item": VERDICT, "quantity": "claim", "text": verdict}
    return pd.DataFrame([*rebuild_numbers._column_rows(item, table), claim], columns=COLUMNS)


STORED = "a/reference/tables/x"


@pytest.mark.parametrize(
    ("item", "values", "state"),
    [
        (REBUILT, (1.0, 2.0, 3.0, 4.0 + 1e-8), "equal"),
        (REBUILT, (1.1, 2.0, 3.2, 4.0), "similar"),
        (REBUILT, (1.01, 2.0, 3.0, 4.01), "similar"),  # not close, which is for stored results
        (STORED, (1.0, 2.0, 3.0, 4.0 + 1e-8), "equal"),
        (STORED, (1.01, 2.0, 3.0, 4.01), "close"),
    ],
)
def test_tables_are_equal_close_or_similar(item, values, state):
    result = compare(_numbers(item=item), _numbers(values, item=item))
    assert getattr(result, state) == [item]
    assert sum(map(len, result)) == 1


@pytest.mark.parametrize(
    "values",
    [
        (0.75, 1.75, 2.75, 3.75),  # shifted
        (1.02, 2.04, 3.06, 4.08),  # two percent larger
        (0.9, 2.0, 3.0, 4.1),  # of the same mean
    ],
)
def test_other_values_of_stored_results_are_different(values):
    result = compare(_numbers(item=STORED), _numbers(values, item=STORED))
    assert len(result.different) == 1 and sum(map(len, result)) == 1


@pytest.mark.parametrize("item", [STORED, REBUILT])
def test_swapped_rows_are_different(item):
    result = compare(_numbers(item=item), _numbers((2.0, 1.0, 3.0, 4.0), item=item))
    assert result.different == [f"{item}: score has the same values in other rows"]
    assert sum(map(len, result)) == 1


@pytest.fixture(scope="module")
def longest():
    """Return as many values as the longest table has, and what `collect` keeps of them."""
    stored = pd.read_csv(module.NUMBERS)
    rows = int(stored.loc[stored["item"] != MACHINE, "count"].max())
    values = 5 + np.random.default_rng(1).normal(size=rows)
    return values, _numbers(values, item=STORED)


@pytest.mark.parametrize("noise", [0.0, 1e-9])
@pytest.mark.parametrize("count", [2, 10])
@pytest.mark.parametrize("neighbors", [True, False])
def test_swapped_rows_of_the_longest_table_are_different(longest, count, noise, neighbors):
    values, stored = longest
    rng = np.random.default_rng(2)
    first = rng.integers(len(values) - count) if neighbors else 0
    last = first + count if neighbors else len(values)
    rows = rng.choice(np.arange(first, last), count, replace=False)
    swapped = values * (1 + noise * rng.normal(size=len(values)))
    swapped[rows] = swapped[np.roll(rows, 1)]
    result = compare(stored, _numbers(swapped, item=STORED))
    assert result.different == [f"{STORED}: score has the same values in other rows"]


def test_one_changed_value_of_the_longest_table_is_close(longest):
    values, stored = longest
    changed = values.copy()
    changed[3] *= 1.01
    assert compare(stored, _numbers(changed, item=STORED)).close == [STORED]


@pytest.mark.parametrize(
    ("stored", "values", "column"),
    [
        ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 90.0), "score 2.5 -> 24"),
        ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0), "score has 3 values, not 4"),
        ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, np.nan, 4.0), "score has 3 values, not 4"),
        ((2.0,), (2.1,), "score 2 -> 2.1"),
        ((2.0, 2.0), (2.0, 2.1), "score 2 -> 2.05"),
    ],
)
def test_different_tables_name_their_worst_column(stored, values, column):
    result = compare(_numbers(stored), _numbers(values))
    assert result.different == [f"{REBUILT}: {column}"]
    assert sum(map(len, result)) == 1


@pytest.mark.parametrize("count", [3, 6, 100])
def test_noise_is_rarely_called_different(count):
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=count), rng.normal(size=count)) for _ in range(100)]
    different = sum(bool(compare(_numbers(a), _numbers(b)).different) for a, b in pairs)
    assert different <= 3


def test_changed_verdicts_and_missing_tables_are_named():
    result = compare(_numbers(), _numbers(verdict="differs", item="b"))
    assert result.verdicts == ["claim: agrees -> differs"]
    assert result.missing == [REBUILT, "b"]
    assert result.describe() == [
        "1 table of stored and simulated results: 0 equal to 1e-6, 0 to 1%, 0 different, "
        "1 on one side only",
        "1 table of this rebuild's runs: 0 equal to 1e-6, 0 similar, 0 different, "
        "1 on one side only",
        "1 verdict changed",
    ]


def _rebuild(*tables, processor="x", profile="quick"):
    """Return the numbers of a rebuild: its machine, and these tables."""
    machine = [
        {"item": MACHINE, "quantity": "processor", "text": processor},
        {"item": MACHINE, "quantity": "profile", "text": profile},
    ]
    return pd.concat([pd.DataFrame(machine, columns=COLUMNS), *tables], ignore_index=True)


@pytest.fixture
def run_main(monkeypatch, tmp_path):
    """Return a function that runs the command on the numbers of two rebuilds."""
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "NUMBERS", tmp_path / "numbers.csv")

    def run(stored, current, *arguments):
        if stored is not None:
            stored.to_csv(module.NUMBERS, index=False)
        monkeypatch.setattr(module, "collect_numbers", lambda: current)
        return module.main([*arguments])

    return run


@pytest.mark.parametrize(("verdict", "status"), [("agrees", 0), ("differs", 1)])
def test_a_changed_verdict_is_an_error(run_main, verdict, status):
    assert run_main(_rebuild(_numbers()), _rebuild(_numbers(verdict=verdict))) == status


def test_rebuilds_of_different_profiles_are_not_compared(run_main, capsys):
    stored = _rebuild(_numbers(), profile="real")
    assert run_main(stored, _rebuild(_numbers(verdict="differs"))) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("compare: the committed numbers are of the profile real, so ")


def test_ten_different_tables_are_listed_those_of_stored_results_first(run_main, capsys):
    items = [f"a/rebuilt/tables/{number}" for number in range(12)]
    stored = [_numbers(item=item) for item in (*items, STORED)]
    current = [_numbers((1.0, 2.0, 3.0, 90.0), item=item) for item in (*items, STORED)]
    assert run_main(_rebuild(*stored), _rebuild(*current)) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "score 2.5" in line]
    assert len(lines) == 10 and lines[0].startswith(f"compare: {STORED}: ")


def test_different_tables_that_are_not_listed_are_counted(run_main, capsys):
    items = [f"a/rebuilt/tables/{number}" for number in range(12)]
    stored = [_numbers(item=item) for item in items]
    current = [_numbers((1.0, 2.0, 3.0, 90.0), item=item) for item in items]
    run_main(_rebuild(*stored), _rebuild(*current))
    assert capsys.readouterr().out.endswith("compare: and 2 more different tables\n")


@pytest.mark.parametrize("processor", ["x", "y"])
def test_the_lock_of_another_processor_is_explained(run_main, monkeypatch, capsys, processor):
    monkeypatch.setattr(module, "_hide_lock_changes", lambda: True)
    assert run_main(_rebuild(_numbers()), _rebuild(_numbers(), processor=processor)) == 0
    explained = "dvc.lock now lists the hashes of this machine" in capsys.readouterr().out
    assert explained == (processor == "y")


def test_numbers_of_another_version_are_named(run_main, capsys):
    assert run_main(_rebuild(_numbers()).drop(columns=["random_sum"]), _rebuild(_numbers())) == 1
    words = capsys.readouterr().err
    assert words.startswith("compare: numbers.csv has no column random_sum, so another version")
    assert words.endswith("with `python -m study.report.compare --keep`\n")


def test_numbers_are_kept_for_later_rebuilds(run_main, capsys):
    rebuild = _rebuild(_numbers())
    assert run_main(None, rebuild) == 0
    assert "no stored numbers" in capsys.readouterr().out
    assert run_main(None, rebuild, "--keep") == 0
    assert f"wrote {len(rebuild)} numbers to numbers.csv" in capsys.readouterr().out
    assert run_main(None, rebuild) == 0
    assert "0 different" in capsys.readouterr().out


def test_without_a_rebuild_one_sentence_says_so(tmp_path):
    with pytest.raises(ReportError, match="run `make repro` first"):
        collect_numbers(tmp_path)


def test_numbers_survive_their_file(tmp_path):
    numbers = _numbers((0.1, 1 / 3, 2e-17, 5e30))
    numbers.to_csv(tmp_path / "numbers.csv", index=False)
    result = compare(pd.read_csv(tmp_path / "numbers.csv"), numbers)
    assert result.equal and not result.verdicts


def test_another_machine_keeps_a_clean_clone(tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a"]

    def run(*words):
        return subprocess.run(
            [*git, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    run("init", "-q")
    (tmp_path / "dvc.lock").write_text("committed")
    run("add", ".")
    run("commit", "-qm", "a")
    assert not module._hide_lock_changes(tmp_path)
    (tmp_path / "dvc.lock").write_text("this machine")
    assert run("status", "--short")
    assert module._hide_lock_changes(tmp_path)
    assert not run("status", "--short")
    assert (tmp_path / "dvc.lock").read_text() == "this machine"
