"""Benchmarks: what is timed is the same computation, every measurement is kept at once, and the table says what it must."""

import pytest

from lib.bench.counts import PROBES, TRAINING, count
from lib.bench.race import COLUMNS, Ledger, engines_on, race, read_rows, wall


def entrant(*milliseconds):
    times = iter(milliseconds)
    return lambda: next(times)


def fails():
    raise RuntimeError("no device\nand a long story")


def test_rounds_are_interleaved_and_ratios_are_of_one_round():
    order = []

    def logged(name, timer):
        return lambda: order.append(name) or timer()

    slow, base = entrant(99.0, 10.0, 40.0, 90.0), entrant(99.0, 1.0, 5.0, 3.0)
    entrants = {"slow": logged("slow", slow), "base": logged("base", base)}
    found = race(entrants, Ledger(), size="B1", rounds=3, baselines={"slow": ["base"]})
    assert order == ["slow", "base"] * 4
    by_name = {row["what"]: row for row in found}
    assert by_name["slow"]["value"] == 40
    assert by_name["slow"]["ratio"] == 10  # the median of 10, 8, 30, not the medians' ratio
    assert by_name["base"]["ratio"] is None
    assert {row["size"] for row in found} == {"B1"} and {row["rounds"] for row in found} == {3}
    assert all(row["machine"] and "torch" in row["versions"] for row in found)


def test_an_entrant_that_fails_is_a_row_and_the_others_go_on(tmp_path):
    ledger = Ledger(tmp_path / "times.csv")
    entrants = {"bad": fails, "good": entrant(1.0, 1.0, 2.0)}
    found = race(entrants, ledger, size="", rounds=2, baselines=["bad"])
    (row,) = found
    assert (row["what"], row["baseline"], row["ratio"]) == ("good", "bad", None)
    (failure,) = [row for row in read_rows(tmp_path / "times.csv") if row["failure"]]
    assert (failure["what"], failure["failure"]) == ("bad", "RuntimeError: no device")


def test_a_run_that_is_cut_short_keeps_what_it_measured(tmp_path):
    def cut():
        if len(ledger.rows) == 4:
            raise KeyboardInterrupt
        return 1.0

    path = tmp_path / "new" / "times.csv"
    ledger = Ledger(path)
    with pytest.raises(KeyboardInterrupt):
        race({"one": cut, "two": entrant(5.0, 6.0, 7.0)}, ledger, size="B1", rounds=9)
    kept = [(row["what"], row["round"], float(row["value"])) for row in read_rows(path)]
    assert kept == [("one", "1", 1), ("two", "1", 6), ("one", "2", 1), ("two", "2", 7)]


def test_rows_are_added_to_a_table_or_begin_it_anew(tmp_path):
    path = tmp_path / "times.csv"
    Ledger(path, anew=False, where="here").add("a", "speed", value=1 / 3, passed=False)
    Ledger(path, anew=False).add("b", "speed")
    first, second = read_rows(path)
    assert tuple(first) == COLUMNS
    assert (first["value"], first["passed"], first["machine"]) == ("0.333333", "False", "here")
    assert second["what"] == "b" and second["machine"] != "here"
    Ledger(path)
    assert read_rows(path) == []
    with pytest.raises(ValueError, match="unknown column 'speed'; known: what, size"):
        Ledger().add("a", "b", speed=1)


def test_a_timer_counts_milliseconds_of_its_clock_and_other_devices_are_not_timed():
    ticks = iter([2.0, 2.5])
    assert wall(lambda: None, lambda: next(ticks))() == 500
    assert engines_on("rnn") == ["reference", "numba-cpu", "library"]


def test_products_of_a_step_are_those_counted_by_hand():
    d, p, batch = 16, 3, 32
    found = count("rnn", d, p, TRAINING, batch)
    # W x forward, its two products back; R u forward and the gradient of R: 2 operations each.
    assert found.flop == 2 * batch * (3 * d * d + 2 * d * p)
    assert found.products == 5
    # The probe computes the state twice and pulls one vector back.
    probe = count("rnn", d, p, PROBES, batch)
    assert probe.flop == pytest.approx(2 * batch * (3 * d * d + 2 * d * p), rel=0.01)
