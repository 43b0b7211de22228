"""The barriers of the GPU kernels, by hostile schedules in Numba's simulator; `test_cuda.py` runs this file in a process of its own.

Between two barriers the threads of a block run one after another here, the first or the last ahead of all others: what one thread reads
of another's, or writes over it, on the wrong side of a barrier is then wrong in the result.
"""

import ast
import inspect
import math
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from lib import kernels
from lib.bench.parity import deviations, everything, random_case
from lib.cells import make_cell
from lib.kernels import _cuda, cuda_adjoints, cuda_newton
from lib.probes import fused
from lib.probes.adjoint import adjoint_norms
from lib.probes.fused import fused_adjoint_norms
from tests import test_adjoint_float32 as in_float32
from tests.engines import assert_bad_numbers_spread

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
        real = str(_cuda.dtype_of(arguments)).removeprefix("torch.")
        real = getattr(np, real)
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


def deviation(name, order, left_out, monkeypatch, engine="numba-cuda", T=3, window=0, **special):
    """Return how far outputs and gradients are from the reference; what is no number is infinitely far."""
    monkeypatch.setattr(_cuda, "launch", launch_in(order, left_out))
    case = random_case(name, T, 2, 3, torch.float64, **special)
    case[0].engine_options = {"window": window} if window else {}
    found = deviations(everything(*case, engine), everything(*case, "reference"))
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


@pytest.fixture
def one_after_another(monkeypatch):
    """Run the threads in turn, which is quicker than the simulator's, and prepare few steps at a time."""
    monkeypatch.setattr(_cuda, "launch", launch_in(LAST_AHEAD, ("", None)))
    monkeypatch.setattr(fused, "CHUNK", 16)


# ---------------------------------------------------------------------------------- Newton's method


def newton_deviation(most, order, left_out, monkeypatch):
    """As `deviation`, of windows that may take `most` iterations; with 1 all are done step by step."""
    monkeypatch.setattr(cuda_newton, "MOST_ITERATIONS", most)
    special = {"engine": "newton-cuda", "T": 37, "window": 16, "dt": 0.3, "alpha": 1.0}
    return deviation("unicornn", order, left_out, monkeypatch, **special)


@pytest.mark.parametrize("order", [FIRST_AHEAD, LAST_AHEAD])
@pytest.mark.parametrize("most", [20, 1])
def test_with_all_barriers_every_schedule_gives_newton_s(most, order, monkeypatch):
    assert newton_deviation(most, order, ("", None), monkeypatch) < 1e-12


@pytest.mark.parametrize(
    ("kernel", "number"),
    [
        (kernel, number)
        for kernel in ("_forward", "_backward")
        for number in range(parsed(getattr(cuda_newton, kernel))[1])
    ],
)
def test_without_a_barrier_a_schedule_gives_a_wrong_window(kernel, number, monkeypatch):
    assert any(
        newton_deviation(most, order, (kernel, number), monkeypatch) > 1e-6
        for most in (20, 1)
        for order in (FIRST_AHEAD, LAST_AHEAD)
    )


def outputs_of(engine, case):
    cell, u, state = case
    return cell(u, state, engine=engine)[0]


def test_a_window_takes_few_iterations(one_after_another, monkeypatch):
    case = random_case("unicornn", 90, 1, 2, layers=1, dt=0.05, alpha=1.0)
    case[0].engine_options = {"window": 64}
    monkeypatch.setattr(cuda_newton, "MOST_ITERATIONS", 6)
    found = outputs_of("newton-cuda", case)
    case[0].engine_options = {}
    expected = outputs_of("numba-cuda", case)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    # A window that had not converged would have been done step by step, to the same bits.
    assert not torch.equal(found[:64], expected[:64])
    assert not torch.equal(found[64:], expected[64:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_neuron_whose_window_does_not_converge_goes_step_by_step(dtype, one_after_another):
    case = random_case("unicornn", 64, 1, 4, dtype, layers=1, dt=0.9, alpha=0.5)
    with torch.no_grad():
        case[0].w[0].mul_(10)
    found, expected = (outputs_of(engine, case) for engine in ("newton-cuda", "numba-cuda"))
    same = (found == expected).all(0)
    assert same.any() and not same.all()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_windows_of_many_networks_equal_each_alone(one_after_another):
    cells = [make_cell("unicornn", 2, 3, dt=dt, alpha=1.0).double() for dt in (0.1, 0.3)]
    weights = kernels.stack_runs([cell.weights() for cell in cells])
    u, state = torch.randn(2, 9, 2, 2).double(), (torch.zeros(2, 2, 3).double(),) * 4
    outputs, _ = kernels.select("unicornn", "newton-cuda", u, {"window": 8})(weights, state, u)
    for cell, one, ours in zip(cells, u, outputs, strict=True):
        torch.testing.assert_close(ours, cell(one, engine="reference")[0], rtol=0, atol=1e-12)


def test_bad_numbers_spread_in_a_window_as_one_step_after_another(one_after_another):
    case = random_case("unicornn", 40, 2, 3, torch.float32)
    case[0].engine_options = {"window": 16}
    assert_bad_numbers_spread(case, "newton-cuda", math.nan)


@pytest.mark.parametrize("window", [0, 5000])
def test_a_window_that_no_block_can_do_is_refused(window):
    cell, u, state = random_case("unicornn", 2, 1, 3)
    with pytest.raises(ValueError, match=f"window of 1 to 4096 steps, got {window}"):
        kernels.select("unicornn", "newton-cuda", u, {"window": window})(cell.weights(), state, u)


# ---------------------------------------------------------------------------------- adjoint states

PROBES = {"_dense": ["lipschitz", "lstm"], "_oscillators": ["unicornn"]}
"""Kernels that pull adjoints back, and cells of theirs."""


def probe_deviation(kernel, name, order, left_out, monkeypatch):
    """Return how far the adjoints' logarithms are from the reference, or the largest number of a sequence from 1."""
    torch.manual_seed(0)
    cell, u, largest = make_cell(name, 2, 3).double(), torch.randn(6, 2, 2).double(), []
    expected = adjoint_norms(cell, u, torch.sum, engine="reference").full
    run = getattr(cuda_adjoints, f"{kernel.strip('_s')}_adjoints")

    def noting(*arguments):
        found = run(*arguments)
        largest.append(found[0].abs().amax((3, 4)))
        return found

    monkeypatch.setattr(fused, run.__name__, noting)
    monkeypatch.setattr(_cuda, "launch", launch_in(order, left_out))
    found = fused_adjoint_norms(cell, u, torch.sum, dtype=torch.float64).full
    off = max((found - expected).abs().max(), (largest[0] - 1).abs().max())
    return math.inf if off.isnan() else off.item()


@pytest.mark.parametrize("order", [FIRST_AHEAD, LAST_AHEAD])
@pytest.mark.parametrize("kernel", PROBES)
def test_with_all_barriers_every_schedule_gives_the_adjoints(kernel, order, monkeypatch):
    for name in PROBES[kernel]:
        assert probe_deviation(kernel, name, order, ("", None), monkeypatch) < 1e-12


@pytest.mark.parametrize(
    ("kernel", "number"),
    [
        (kernel, number)
        for kernel in PROBES
        for number in range(parsed(getattr(cuda_adjoints, kernel))[1])
    ],
)
def test_without_a_barrier_a_schedule_gives_wrong_adjoints(kernel, number, monkeypatch):
    assert any(
        probe_deviation(kernel, name, order, (kernel, number), monkeypatch) > 1e-6
        for name in PROBES[kernel]
        for order in (FIRST_AHEAD, LAST_AHEAD)
    )


@pytest.mark.parametrize("name", fused.CELLS)
def test_adjoints_by_kernels_agree_with_float64(name, one_after_another):
    in_float32.test_every_cell_agrees_with_float64(name, fused_adjoint_norms)


@pytest.mark.parametrize("name", ["lstm", "unicornn"])
def test_a_loss_of_all_states_is_pulled_back_by_kernels(name, one_after_another):
    in_float32.test_a_loss_of_all_states_is_pulled_back_too(name, True, fused_adjoint_norms)


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "exponential"])
def test_adjoints_far_below_what_a_float_can_hold_agree_by_kernels(name, one_after_another):
    check = in_float32.test_adjoints_far_below_what_a_float_can_hold_agree
    check(name, 1e-4, fused_adjoint_norms)


@pytest.mark.parametrize("level", [5.0, 12.0])
@pytest.mark.parametrize("name", sorted({*in_float32.FACTORIAL} & {*fused.CELLS}))
def test_saturated_networks_agree_by_kernels(name, level, one_after_another):
    in_float32.test_saturated_networks_agree(name, level, fused_adjoint_norms)


def test_kernels_are_right_beyond_the_ends_of_tanh(one_after_another):
    check = in_float32.test_beyond_the_ends_of_tanh_float32_is_right_where_float64_has_a_zero
    check(fused_adjoint_norms)


def test_adjoints_of_what_has_no_kernel_are_refused():
    u = torch.zeros(3, 1, 2)
    for cell, told in [
        (make_cell("lem", 2, 3), "expected a cell among rnn, .*, got lem; use the reference"),
        (make_cell("unicornn", 2, 3, layers=3, skip=2), "got unicornn with residual connections"),
    ]:
        with pytest.raises(ValueError, match=told):
            fused_adjoint_norms(cell, u, torch.sum)
    with pytest.raises(ValueError, match="expected time points between 0 and T=3"):
        fused_adjoint_norms(make_cell("rnn", 2, 3), u, torch.sum, times=(1, 4))
