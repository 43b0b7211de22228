"""The benchmark of UnICORNN's recurrence: what is timed is the same computation, and the table says what it must."""

import pytest
import torch

from lib.bench import Workload, _runs
from lib.bench import recurrence as bench


@pytest.mark.parametrize("backward", bench.STREAMS)
def test_the_loop_and_the_engine_compute_the_same(backward):
    torch.manual_seed(0)
    leaves = [
        part.double().requires_grad_()
        for part in (torch.rand(5), 0.1 * torch.rand(5), torch.randn(9, 3, 5))
    ]
    arriving = torch.randn(9, 3, 5, dtype=torch.float64)
    expected = torch.autograd.grad(bench._loop(*leaves), leaves, arriving)
    found = torch.autograd.grad(bench._engine(*leaves, backward), leaves, arriving)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_table_has_a_row_for_each_way_back_and_threads_are_restored():
    before = torch.get_num_threads()
    table = bench.bench_recurrence(Workload(2, 8, 4), rounds=2, threads=2)
    assert torch.get_num_threads() == before
    assert list(table["backward"]) == list(bench.STREAMS)
    assert (table[["median_ms", "loop_median_ms", "floor_median_ms", "speedup"]] > 0).all(axis=None)


@pytest.mark.parametrize("wrong", [{"rounds": 0, "threads": 1}, {"rounds": 1, "threads": 0}])
def test_it_refuses_to_time_nothing(wrong):
    with pytest.raises(ValueError, match="at least one round and thread"):
        bench.bench_recurrence(Workload(2, 8, 4), **wrong)


def test_engines_of_another_device_are_not_timed():
    u = torch.zeros(2, 1, 1)
    runs = {engine: _runs("rnn", engine, u) for engine in ("reference", "numba-cpu", "numba-cuda")}
    assert runs == {"reference": True, "numba-cpu": True, "numba-cuda": False}
