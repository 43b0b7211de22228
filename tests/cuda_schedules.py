"""The barriers of the GPU kernels, by hostile schedules in Numba's simulator; `test_cuda.py` runs this file in a process of its own.

Between two barriers the threads of a block run one after another here, the first or the last ahead of all others: what one thread reads
of another's, or writes over it, on the wrong side of a barrier is then wrong in the result.
"""

import ast
import inspect
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from lib import kernels
from lib.bench.parity import deviations, everything, random_case
from lib.kernels import _cuda

assert _cuda.SIMULATED

CASES = {
    "antisymmetric": [{"epsilon": 0.5}],
    "cornn": [{}],
    "irnn": [{}, {"form": 8}, {"rank": 2}, {"rank": 2, "form": 8}],
    "lem": [{}],
    "lipschitz": [{"epsilon": 0.5}],
    "rnn": [{}],
}
FIRST_AHEAD, LAST_AHEAD = 1, -1


class Barriers(ast.NodeTransformer):
    """Makes a generator of a kernel, which yields at its barriers, but for one that is left out."""

    def __init__(self, left_out=None):
        self.count, self.left_out = 0, left_out

    def visit_Expr(self, node):
        if ast.unparse(node) != "cuda.syncthreads()":
            return node
        self.count += 1
        keep = self.count - 1 != self.left_out
        return ast.Expr(ast.Yield()) if keep else ast.Pass()


def parsed(run, left_out=None):
    tree = ast.parse(textwrap.dedent(inspect.getsource(run.function)))
    barriers = Barriers(left_out)
    (function,) = barriers.visit(tree).body
    function.decorator_list = []
    function.body.append(ast.Expr(ast.Yield()))  # a generator even without a barrier
    return ast.fix_missing_locations(tree), barriers.count


def launch_in(order, left_out):
    """Return a `_cuda.launch` that runs the threads of a block in an order, without a barrier: (name of the kernel, number)."""

    def launch(run, blocks, threads, *arguments, shared=0, **sizes):
        name, number = left_out
        tree, _ = parsed(run, number if run.__name__ == name else None)
        values = [p.reshape(-1).numpy() if isinstance(p, Tensor) else p for p in arguments]
        real = getattr(np, str(_cuda.dtype_of(arguments)).removeprefix("torch."))
        for block in range(blocks):
            # What no thread has written is no number.
            memory = np.full(shared // real().itemsize, np.nan, real)
            cuda = SimpleNamespace(
                blockIdx=SimpleNamespace(x=block),
                blockDim=SimpleNamespace(x=threads),
                shared=SimpleNamespace(array=lambda _, __, memory=memory: memory),
                local=SimpleNamespace(array=np.empty),
                threadIdx=SimpleNamespace(x=0),
            )
            cuda.grid = lambda _, cuda=cuda, first=block * threads: first + cuda.threadIdx.x
            names = run.function.__globals__ | {"cuda": cuda, "real": real} | sizes
            exec(compile(tree, run.__name__, "exec"), names)
            running = dict(enumerate(names[run.__name__](*values) for _ in range(threads)))
            while running:
                for thread in list(running)[::order]:
                    cuda.threadIdx.x = thread
                    if next(running[thread], "ended") == "ended":
                        del running[thread]

    return launch


def deviation(name, order, left_out, monkeypatch, T=3, **special):
    """Return how far outputs and gradients are from the reference; what is no number is infinitely far."""
    monkeypatch.setattr(_cuda, "launch", launch_in(order, left_out))
    case = random_case(name, T, 2, 3, torch.float64, **special)
    found = deviations(everything(*case, "numba-cuda"), everything(*case, "reference"))
    return max(np.inf if np.isnan(value) else value for value in found.values())


def barriers():
    for name in CASES:
        module = sys.modules[kernels.module_of(name, "numba-cuda")]
        for kernel in ("_forward", "_backward"):
            _, count = parsed(getattr(module, kernel))
            yield from ((name, kernel, number) for number in range(count))


@pytest.mark.parametrize("order", [FIRST_AHEAD, LAST_AHEAD])
@pytest.mark.parametrize("name", CASES)
def test_with_all_barriers_every_schedule_gives_the_reference(name, order, monkeypatch):
    for special in CASES[name]:
        assert deviation(name, order, ("", None), monkeypatch, **special) < 1e-12


@pytest.mark.parametrize(("name", "kernel", "number"), list(barriers()))
def test_without_a_barrier_a_schedule_gives_a_wrong_result(name, kernel, number, monkeypatch):
    assert any(
        deviation(name, order, (kernel, number), monkeypatch, **special) > 1e-6
        for special in CASES[name]
        for order in (FIRST_AHEAD, LAST_AHEAD)
    )
