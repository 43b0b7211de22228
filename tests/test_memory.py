"""Memory of the CPU engines: kept for the next pass, never shared by two live results."""

import os

import numpy as np
import pytest
import torch
from longrnn.cells import make_cell
from longrnn.kernels import _memory
from longrnn.kernels._drive import drive
from processes import python
from torch.autograd import forward_ad
from torch.nn import functional as F

SHAPE = (400, 16, 64)
NUMBER = np.dtype(np.float32)


def test_a_freed_block_serves_the_next_array(monkeypatch):
    monkeypatch.setattr(_memory, "_pool", _memory._Pool())
    first = _memory.empty_array(SHAPE, NUMBER)
    where = first.ctypes.data
    view = torch.from_numpy(first)[5]
    del first
    second = _memory.empty_array(SHAPE, NUMBER)
    assert second.ctypes.data != where, "a view of the first array is alive"
    del view
    assert _memory.empty_array(SHAPE, NUMBER).ctypes.data == where


def test_sequences_of_other_lengths_reuse_blocks(monkeypatch):
    monkeypatch.setattr(_memory, "_pool", _memory._Pool())
    steps, *others = SHAPE
    for length in (steps, steps - 1, steps // 2 + 1, steps - 50):
        array = _memory.empty_array((length, *others), NUMBER)
        assert array.shape == (length, *others)
        del array
    assert len(_memory._pool._blocks) == 1
    tall = _memory.empty_array((3 * steps, *others), NUMBER)
    assert tall.nbytes == 3 * len(_memory._pool._blocks[0])


def test_the_pool_keeps_no_more_than_its_limit(monkeypatch):
    monkeypatch.setattr(_memory, "_pool", _memory._Pool())
    size = int(np.prod(SHAPE)) * NUMBER.itemsize
    monkeypatch.setattr(_memory, "MOST_KEPT", 2 * size)
    arrays = [_memory.empty_array(SHAPE, NUMBER) for _ in range(4)]
    arrays.clear()
    assert len(_memory._pool._blocks) == 2


class Freeing:
    """A block of the pool; while its size is read, the garbage collector frees another one."""

    def __init__(self, size, pool=None):
        self.size = size
        self.pool = pool

    @property
    def nbytes(self):
        if self.pool is not None:
            pool = self.pool
            self.pool = None
            pool.give(Freeing(100))
        return self.size


def test_garbage_collected_inside_the_pool_does_not_shift_its_blocks(monkeypatch):
    """A shifted index would give a block that is too short, and a kernel would write beyond it."""
    monkeypatch.setattr(_memory, "MOST_KEPT", 300)
    pool = _memory._Pool()
    fitting = Freeing(200)
    pool.give(Freeing(100))
    pool.give(fitting)
    fitting.pool = pool
    assert pool.take(200) is fitting
    assert pool.take(100).nbytes == 100
    assert pool.take(100).nbytes == 100, "the block that was freed inside the pool is kept, too"
    assert not pool._blocks and not pool._freed


@pytest.mark.parametrize("with_bias", [True, False])
def test_pooled_memory_does_not_change_bits(with_bias):
    torch.manual_seed(0)
    u = torch.randn(400, 16, 24, requires_grad=True)
    R = torch.randn(64, 24, requires_grad=True)
    b = None
    leaves = [u, R]
    if with_bias:
        b = torch.randn(64, requires_grad=True)
        leaves.append(b)
    expected = F.linear(u, R, b)
    actual = drive(u, R, b)
    assert type(actual.grad_fn).__name__ == "_DriveBackward"
    assert torch.equal(actual, expected)
    arrived = torch.randn_like(expected)
    gradients = torch.autograd.grad(actual, leaves, arrived)
    others = torch.autograd.grad(expected, leaves, arrived)
    for gradient, other in zip(gradients, others, strict=True):
        assert torch.equal(gradient, other)


def test_second_derivatives_work_with_pooled_memory(monkeypatch):
    monkeypatch.setattr(_memory, "SMALLEST", 1)
    u = torch.randn(3, 2, 2, dtype=torch.double, requires_grad=True)
    R = torch.randn(4, 2, dtype=torch.double, requires_grad=True)
    b = torch.randn(4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(drive, (u, R, b))
    assert torch.autograd.gradgradcheck(drive, (u, R, b))


def test_tangents_pass_through_pooled_memory(monkeypatch):
    monkeypatch.setattr(_memory, "SMALLEST", 1)
    u = torch.randn(3, 2, 2, requires_grad=True)
    R = torch.randn(4, 2)
    result = drive(u, R)
    arriving, tangent = torch.randn(2, *result.shape)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(arriving, tangent)
        (gradient,) = torch.autograd.grad(result, u, dual)
        torch.testing.assert_close(forward_ad.unpack_dual(gradient).tangent, tangent @ R)


def test_outputs_outlive_later_passes():
    cell = make_cell("unicornn", 2, 64)
    u = torch.randn(400, 16, 2)
    kept, _ = cell(u)
    before = kept.detach().clone()
    for _ in range(3):
        cell(torch.randn_like(u))[0].sum().backward()
    assert torch.equal(kept, before)


_FAULTS = """
import resource
import torch
from longrnn.cells import make_cell

torch.set_num_threads(1)
cell, u = make_cell("unicornn", 2, 128), torch.randn(200, 128, 2)
arrived = torch.randn(200, 128, 128)

def count():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    outputs, _ = cell(u)
    outputs.backward(arrived)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

for _ in range(2):
    count()
print(min(count() for _ in range(3)))
"""


def test_repeated_passes_need_no_fresh_pages():
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = python("-c", _FAULTS, env=env)
    assert done.returncode == 0, done.stderr
    one_array = 200 * 128 * 128 * 4 // os.sysconf("SC_PAGE_SIZE")
    assert int(done.stdout) < one_array // 10
