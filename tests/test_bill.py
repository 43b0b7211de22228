"""The bill of the factorial: what is counted can be counted by hand, and the tightest bound decides."""

from dataclasses import replace

import pytest

from lib.bench import bill
from lib.bench.bill import PROBES, RATES, TRAINING, Counts, Design

PUBLISHED = Design(
    cells=("rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn"),
    widths=(128, 256),
    epochs=(25, 50),
    alike=100,
    batch=32,
    probe_batch=256,
)


def test_the_published_design_has_42000_attempts():
    assert PUBLISHED.attempts() == 42_000


def test_time_steps_are_those_of_all_data_sets_and_noises():
    one = replace(PUBLISHED, cells=("rnn",), widths=(4,), epochs=(1,), alike=1)
    steps = dict.fromkeys((1, 3, 128), 0.0)
    for features, number in one.steps(TRAINING):
        steps[features] += number
    # MNIST twice: 784 inputs plain and 1,784 with either noise, in 60,000 / 32 mini-batches.
    assert steps[1] == 2 * (784 + 2 * 1784) * 1875
    assert steps[3] == (1024 + 2 * 2024) * 1562.5
    assert steps[128] == (500 + 2 * 1500) * (25_000 + 8_982) / 32
    probed = [number for _, number in one.steps(PROBES)]
    assert probed[0] == (784 + 2 * 1784) * 70_000 / 256


def test_products_of_a_step_are_those_counted_by_hand():
    d, p, batch = 16, 3, 32
    found = bill.count("rnn", d, p, TRAINING, batch)
    # W x forward, its two products back; R u forward and the gradient of R: 2 operations each.
    assert found.flop == 2 * batch * (3 * d * d + 2 * d * p)
    assert found.products == 5
    # The probe computes the state twice and pulls one vector back.
    probe = bill.count("rnn", d, p, PROBES, batch)
    assert probe.flop == pytest.approx(2 * batch * (3 * d * d + 2 * d * p), rel=0.01)


def test_cells_of_more_operators_count_more():
    found = {cell: bill.count(cell, 4, 1, TRAINING, 2).operators for cell in ("lipschitz", "rnn")}
    assert found["lipschitz"] > found["rnn"] > 10


@pytest.mark.parametrize(
    ("way", "cell", "part", "bound", "seconds"),
    [
        (bill.NOW, "rnn", TRAINING, "engine", 10e-6),
        (bill.NOW, "lstm", TRAINING, "engine", 10e-6),
        (bill.NOW, "lstm", PROBES, "launch", 20 * 5e-6),
        (bill.NOW, "lipschitz", TRAINING, "engine", 10e-6),
        (bill.BESIDE, "lipschitz", TRAINING, "node", 20 * 1.5e-6 / 10),
        (bill.BESIDE, "lstm", PROBES, "launch", 20 * 5e-6),
        (bill.FUSED, "lipschitz", TRAINING, "node", 7 * 1.5e-6 / 10),
        (bill.FUSED, "lipschitz", PROBES, "node", 7 * 1.5e-6 / 10),
    ],
)
def test_the_tightest_bound_decides(way, cell, part, bound, seconds):
    counts = Counts(operators=20, products=5, flop=1e3, bytes=1e3)
    assert bill._tightest(way, cell, part, counts, 10, RATES) == (bound, pytest.approx(seconds))
    slow = RATES | {f"float{n}": replace(RATES["float32"], value=1.0) for n in (32, 64)}
    bound, found = bill._tightest(way, cell, part, counts, 10, slow)
    assert (bound, found) == ("float32" if part == TRAINING else "float64", 1e3)


def test_every_rate_says_what_it_rests_on():
    assert {rate.kind for rate in RATES.values()} <= {"measured", "assumed"}
    assert all(rate.unit and rate.source for rate in RATES.values())


def test_a_bill_has_a_line_for_each_cell_width_part_and_way():
    small = replace(PUBLISHED, cells=("rnn",), widths=(4,))
    lines = bill.bill(small, RATES)
    assert len(lines) == 2 * len(bill.WAYS)
    hours = {(line["part"], line["way"]): line["hours"] for line in lines}
    assert hours[PROBES, bill.BESIDE] == hours[PROBES, bill.NOW]
    assert hours[PROBES, bill.STORED] <= hours[PROBES, bill.FUSED] <= hours[PROBES, bill.NOW]
