"""Engines of cells away from their defaults, and what two threads may and may not change."""

import threading

import numpy as np
import pytest
import torch

from lib import kernels
from lib.cells import make_cell
from lib.kernels import _cpu
from tests.engines import (
    TOLERANCE,
    VARIANTS,
    assert_engine_agrees,
    assert_masks_are_those_of_the_reference,
    by_engine,
    everything,
    random_case,
)

CASES = [(variant, case) for name, variant in VARIANTS for case in by_engine(name, variant)]


@pytest.mark.parametrize(("T", "batch", "hidden"), [(1, 1, 3), (63, 3, 33)])
@pytest.mark.parametrize(("name", "engine", "variant"), [case for _, case in CASES])
def test_variants_equal_the_reference(name, engine, variant, T, batch, hidden):
    assert_engine_agrees(random_case(name, T, batch, hidden, **variant), name, engine)


# What the ways back may lose in float32 is tested by test_reversal.py.
@pytest.mark.parametrize(
    ("name", "engine", "variant"),
    [case for variant, case in CASES if "backward" not in variant],
)
def test_variants_equal_the_reference_in_float32(name, engine, variant):
    assert_engine_agrees(random_case(name, 30, 3, 33, torch.float32, **variant), name, engine)


@pytest.mark.parametrize("variant", [{}, {"rank": 2, "inner_start": "previous"}])
def test_step_sizes_of_irnn_follow_the_rounds_that_each_sequence_has_done(variant):
    cell, u, (h, _) = random_case("irnn", 9, 3, 5, train_eta="time", length=12, **variant)
    with torch.no_grad():
        cell.eta.uniform_(0, 0.5)
    done = torch.tensor([0.0, 3, 1], dtype=h.dtype)[:, None].expand_as(h).clone().requires_grad_()
    assert_engine_agrees((cell, u, (h, done)), "irnn", "numba-cpu")


def test_sru_whose_highway_carries_the_input_itself():
    assert_engine_agrees(random_case("sru", 9, 3, 5, inputs=5, layers=2), "sru", "numba-cpu")


def test_steps_of_lem_are_clipped_on_both_sides_in_the_variants():
    cell, u, _ = random_case("lem", 63, 3, 33, clip=0.6, dt=1.7)
    a = u @ cell.V[:33].T
    steps = 1.7 * torch.sigmoid(a)
    assert (steps < 0.6).any() and (steps > 1).any() and ((steps > 0.6) & (steps < 1)).any()


def test_dropout_runs_on_the_engine_with_the_masks_of_the_reference():
    case = random_case("unicornn", 12, 3, 5, layers=4, skip=2, dropout=0.4)
    assert_masks_are_those_of_the_reference(case, "numba-cpu")


# ---------------------------------------------------------------------------------- options


def test_an_option_that_an_engine_lacks_is_refused_by_name():
    u = torch.zeros(2, 1, 2)
    with pytest.raises(ValueError, match="has no option 'backward'; it has none"):
        kernels.select("rnn", "numba-cpu", u, {"backward": "recovered"})
    assert kernels.choose("rnn", "cpu", u.dtype, {"backward"}) == "reference"


# ---------------------------------------------------------------------------------- threads


@pytest.fixture
def threads(monkeypatch):
    """Yield a function that sets how many threads the kernels use, however small the case."""
    monkeypatch.setattr(_cpu, "PARALLEL_FROM", 0)
    return lambda count: monkeypatch.setattr(_cpu.torch, "get_num_threads", lambda: count)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("backward", ["stored", "recovered", "reversible"])
@pytest.mark.parametrize("name", ["indrnn", "sru", "unicornn"])
def test_threads_change_no_bit(threads, name, backward, dtype):
    variant = {"backward": backward} if name == "unicornn" else {}
    cell, u, state = random_case(name, 20, 5, 67, dtype, **variant)
    found = []
    for count in (1, 3):
        threads(count)
        found.append(everything(cell, u, state, "numba-cpu"))
    for label, expected in found[0].items():
        assert torch.equal(found[1][label], expected), label


def test_stretches_cover_each_chain_once(threads):
    for most, count in [(1, 7), (2, 1), (2, 64), (2, 130), (3, 100), (4, 1000)]:
        threads(most)
        seen = np.zeros(count, int)
        lock = threading.Lock()

        def mark(start, stop, seen=seen, lock=lock):
            assert start % _cpu._VECTORS == 0
            with lock:
                seen[start:stop] += 1

        _cpu.over_chains(mark, 10, count)
        assert (seen == 1).all(), (most, count)


def test_one_thread_stays_one(threads):
    threads(1)
    names = []
    _cpu.over_chains(lambda *_: names.append(threading.current_thread().name), 1000, 1000)
    assert names == [threading.current_thread().name]


def test_what_fails_on_another_thread_is_raised(threads):
    threads(2)

    def fail(start, stop):
        if start > 0:
            raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        _cpu.over_chains(fail, 10, 1000)


def test_other_threads_flush_denormals_as_their_caller_does(threads):
    threads(2)
    cell = make_cell("indrnn", 1, 200, phi="relu")
    with torch.no_grad():
        cell.W[0].fill_(1), cell.w[0].zero_(), cell.b[0].zero_()
    tiny = torch.full((2, 2, 1), 1e-30)
    weights = cell.weights()
    layers = (weights.layers[0]._replace(w=torch.full((200,), 1e-10)),)
    u = torch.cat([tiny, torch.zeros(1, 2, 1)])
    for flush in (False, True):
        torch.set_flush_denormal(flush)
        try:
            run = kernels.select("indrnn", "numba-cpu", u)
            outputs, _ = run(weights._replace(layers=layers), cell.initial_state(2), u)
        finally:
            torch.set_flush_denormal(False)
        assert bool((outputs[2] == 0).all()) == flush
