"""Every engine of every cell against the cell's reference, and what the CPU kernels promise.

The cases come from the registry: a new engine is tested without a change here.
"""

import importlib
import os
import pkgutil
import re
import subprocess
import sys

import numba
import numpy as np
import pytest
import torch
from numba.core.registry import CPUDispatcher

from lib import kernels
from lib.bench.parity import everything, random_case
from lib.cells import cell_names, make_cell
from lib.cells.inverse_rnn import SingularMatrixError
from lib.kernels import _cpu
from lib.paths import ROOT
from tests.engines import (
    TOLERANCE,
    VARIANTS,
    assert_bad_numbers_spread,
    assert_engine_agrees,
    assert_it_differentiates_once_and_what_is_asked,
    assert_masks_are_those_of_the_reference,
    by_engine,
    irnn_whose_sequences_stand_at_different_rounds,
)

ENGINES = [case for cell in cell_names() for case in by_engine(cell)]
ALTERED = [case for name, variant in VARIANTS for case in by_engine(name, variant)]
CPU_KERNELS = [cell for cell in cell_names() if "numba-cpu" in kernels.engine_names(cell)]
INTERCHANGED = ("lu_rnn", "inverse_rnn")
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


# Every two of a length, a batch and a width meet.
@pytest.mark.parametrize(
    ("T", "batch", "hidden"),
    [(1, 1, 1), (1, 3, 33), (2, 1, 33), (2, 3, 1), (63, 1, 1), (63, 3, 33)],
)
@DTYPES
@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_engine_equals_reference(name, engine, dtype, T, batch, hidden):
    assert_engine_agrees(random_case(name, T, batch, hidden, dtype), name, engine)


@pytest.mark.parametrize("use", [("outputs",), ("state",)], ids=str)
@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_gradient_of_outputs_or_final_state_alone(name, engine, use):
    assert_engine_agrees(random_case(name, 9, 3, 5), name, engine, use=use)


@pytest.mark.parametrize(("T", "batch", "hidden"), [(1, 1, 3), (40, 3, 33), (9, 3, 3)])
@DTYPES
@pytest.mark.parametrize(("name", "engine", "variant"), ALTERED)
def test_variants_equal_the_reference(name, engine, variant, dtype, T, batch, hidden):
    if "backward" in variant and dtype == torch.float32:
        pytest.skip("what the ways back lose in float32 is tested by test_reversal.py")
    assert_engine_agrees(random_case(name, T, batch, hidden, dtype, **variant), name, engine)


@pytest.mark.parametrize("variant", [{}, {"rank": 2, "inner_start": "previous"}])
def test_step_sizes_of_irnn_follow_the_rounds_that_each_sequence_has_done(variant):
    case = irnn_whose_sequences_stand_at_different_rounds(**variant)
    assert_engine_agrees(case, "irnn", "numba-cpu")


def test_steps_of_lem_are_clipped_on_both_sides_in_the_variants():
    cell, u, _ = random_case("lem", 63, 3, 33, clip=0.6, dt=1.7)
    steps = 1.7 * torch.sigmoid(u @ cell.V[:33].T)
    assert (steps < 0.6).any() and (steps > 1).any() and ((steps > 0.6) & (steps < 1)).any()


def test_dropout_runs_on_the_engine_with_the_masks_of_the_reference():
    case = random_case("unicornn", 12, 3, 5, layers=4, skip=2, dropout=0.4)
    assert_masks_are_those_of_the_reference(case, "numba-cpu")


@pytest.mark.parametrize("times", [(0, 0, 0), (0, 2, 5)], ids=["together", "apart"])
@pytest.mark.parametrize("tau", [1, 3, 20])
@pytest.mark.parametrize("name", INTERCHANGED)
def test_a_matrix_and_its_inverse_take_turns_as_in_the_reference(name, tau, times):
    _, u, (x, t) = random_case(name, 11, 3, 6)
    cell = make_cell(name, 2, 6, tau=tau).double()
    t = torch.tensor(times, dtype=t.dtype)[:, None].expand_as(t).clone().requires_grad_()
    assert_engine_agrees((cell, u, (x, t)), name, "numba-cpu")


@pytest.mark.parametrize("pivot", [0.0, -1e-9])
def test_pivots_near_zero_are_held_off_in_the_engine_too(pivot):
    cell, u, state = random_case("lu_rnn", 5, 3, 6, tau=2, pivot=1e-2)
    with torch.no_grad():
        cell.factors.diagonal()[::2] = pivot
    assert_engine_agrees((cell, u, state), "lu_rnn", "numba-cpu")


def test_a_singular_matrix_is_refused_before_the_engine_runs():
    cell, u, state = random_case("inverse_rnn", 2, 1, 3)
    with torch.no_grad():
        cell.W[2] = 0
    with pytest.raises(SingularMatrixError, match="expected an invertible W"):
        cell(u, state, engine="numba-cpu")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@DTYPES
@pytest.mark.parametrize("name", CPU_KERNELS)
def test_bad_numbers_spread_as_in_the_reference(name, dtype, bad):
    assert_bad_numbers_spread(random_case(name, 6, 3, 33, dtype), "numba-cpu", bad)


@pytest.mark.parametrize("name", ["exponential", "lipschitz"])
def test_a_network_that_diverges_does_so_in_the_kernel(name):
    cell, u, state = random_case(name, 200, 2, 8, torch.float32)
    weights = cell.weights()
    matrix = weights._fields[0]  # A or B, outside any tanh
    weights = weights._replace(**{matrix: 1e3 * weights[0]})
    outputs, _ = kernels.select(name, "numba-cpu", u)(weights, state, u)
    assert not outputs.sum().isfinite()


@pytest.mark.parametrize("name", CPU_KERNELS)
def test_a_kernel_differentiates_once_and_what_is_asked(name):
    assert_it_differentiates_once_and_what_is_asked(name, "numba-cpu")


def test_an_option_that_an_engine_lacks_is_refused_by_name():
    u = torch.zeros(2, 1, 2)
    with pytest.raises(ValueError, match="has no option 'backward'; it has none"):
        kernels.select("rnn", "numba-cpu", u, {"backward": "recovered"})
    assert kernels.choose("rnn", "cpu", u.dtype, {"backward"}) == "reference"


# ---------------------------------------------------------------------------------- activations


def elementwise(function, x):
    """Apply one of the scalar activations in a compiled loop."""

    @numba.njit(**_cpu._OPTIONS)
    def loop(x, y):
        for i in range(x.size):
            y[i] = function(x[i])

    y = np.empty_like(x)
    loop(x, y)
    return y


EXACT = {_cpu.tanh: np.tanh, _cpu.sigmoid: lambda x: 1 / (1 + np.exp(-x))}
BOUNDS = {
    (_cpu.tanh, np.float32): _cpu.TANH_ERROR,
    (_cpu.sigmoid, np.float32): _cpu.SIGMOID_ERROR,
    (_cpu.tanh, np.float64): _cpu.ERROR64,
    (_cpu.sigmoid, np.float64): _cpu.ERROR64,
}


@pytest.mark.parametrize(("function", "dtype"), BOUNDS)
def test_activations_are_within_their_bounds(function, dtype):
    # Dense where they bend, down to the smallest normals.
    small = np.logspace(-37.9, 2 if dtype == np.float32 else 1.2, 20_000)
    x = np.concatenate([np.linspace(-19, 19, 200_001), small, -small]).astype(dtype)
    found = elementwise(function, x)
    truth = EXACT[function](x.astype(np.float64 if dtype == np.float32 else np.longdouble))
    normal = np.abs(truth) > 2 * np.finfo(dtype).tiny
    assert np.max(np.abs(found[normal] / truth[normal] - 1)) < BOUNDS[function, dtype]
    assert np.all(np.abs(found[~normal] - truth[~normal]) <= 2 * np.finfo(dtype).tiny)
    assert np.max(np.abs(found)) <= 1
    if (function, dtype) == (_cpu.tanh, np.float32):  # and so the slope vanishes as PyTorch's does
        assert np.all(np.abs(found[np.abs(x) > 9.02]) == 1)


@pytest.mark.parametrize(
    ("dtype", "tiny", "low"), [(np.float32, 1e-42, -95), (float, 1e-310, -720)]
)
def test_activations_keep_nan_infinity_and_denormals(dtype, tiny, low):
    x = np.array([np.nan, np.inf, -np.inf, tiny, -tiny, low], dtype=dtype)
    np.testing.assert_array_equal(elementwise(_cpu.tanh, x), [np.nan, 1, -1, *x[3:5], -1])
    y = elementwise(_cpu.sigmoid, x)
    np.testing.assert_array_equal(y[:5], [np.nan, 1, 0, 0.5, 0.5])
    assert 0 < y[5] < np.finfo(dtype).tiny


# ---------------------------------------------------------------------------------- threads


@pytest.fixture
def threads(monkeypatch):
    """Yield a function that sets how many threads the kernels use, however small the case."""
    monkeypatch.setattr(_cpu, "PARALLEL_FROM", 0)
    return lambda count: monkeypatch.setattr(_cpu.torch, "get_num_threads", lambda: count)


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("indrnn", {}),
        ("sru", {}),
        *(("unicornn", {"backward": way}) for way in ("stored", "recovered", "reversible")),
    ],
)
def test_threads_change_no_bit(threads, name, variant):
    case = random_case(name, 20, 5, 67, torch.float32, **variant)
    found = []
    for count in (1, 3):
        threads(count)
        found.append(everything(*case, "numba-cpu"))
    for label, expected in found[0].items():
        assert torch.equal(found[1][label], expected), label


def test_what_fails_on_another_thread_is_raised(threads):
    threads(2)

    def fail(start, stop):
        if start > 0:
            raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        _cpu.over_chains(fail, 10, 1000)


@pytest.mark.parametrize("flush", [False, True])
def test_other_threads_flush_denormals_as_their_caller_does(threads, flush):
    threads(2)
    flushed = np.zeros(200, bool)

    def multiply(start, stop):
        flushed[start:stop] = np.full(stop - start, 1e-30, np.float32) * np.float32(1e-10) == 0

    torch.set_flush_denormal(flush)
    try:
        _cpu.over_chains(multiply, 10, 200)
    finally:
        torch.set_flush_denormal(False)
    assert (flushed == flush).all()


# ---------------------------------------------------------------------------------- compilation


def cpu_kernels():
    """Return every compiled function of the CPU kernels' files by name."""
    found = {}
    for module in pkgutil.iter_modules(kernels.__path__, "lib.kernels."):
        for name, member in vars(importlib.import_module(module.name)).items():
            each = member if isinstance(member, tuple) else (member,)
            found |= {
                f"{module.name}.{name}.{k}": function
                for k, function in enumerate(each)
                if isinstance(function, CPUDispatcher)
            }
    return found


def test_float32_kernels_hold_no_float64_arithmetic():
    for name, variant in [*((name, {}) for name in CPU_KERNELS), *VARIANTS]:
        if name in CPU_KERNELS:
            everything(*random_case(name, 2, 2, 3, torch.float32, **variant), "numba-cpu")
    single = [
        (label, function, signature)
        for label, function in cpu_kernels().items()
        for signature in function.nopython_signatures
        if "float32" in str(signature.args)
    ]
    assert len({label for label, *_ in single}) >= 2 * len({f.__module__ for _, f, _ in single})
    for label, function, signature in single:
        fresh = numba.njit(**_cpu._OPTIONS)(function.py_func)  # one from the cache has no LLVM code
        fresh.compile(signature.args)
        (module,) = fresh.inspect_llvm().values()
        functions = re.findall(r"^define .*?^}", module, re.MULTILINE | re.DOTALL)
        # Entry points called from Python widen scalars: they are outside the loops.
        code = "\n".join(text for text in functions if "cpython" not in text.split("\n")[0])
        assert " float " in code
        wide = re.findall(r"^.*= (?:f\w+|[su]itofp)\b.*\bdouble\b.*$", code, re.MULTILINE)
        assert not wide, f"{label}: {wide[0]}"


_FIRST_USE = """
import torch
from lib.cells import make_cell
from lib.kernels import cpu_rnn
from tests.test_kernels import cpu_kernels
assert not any(function.signatures for function in cpu_kernels().values())
outputs, _ = make_cell("rnn", 2, 4)(torch.ones(3, 2, 2), engine="numba-cpu")
outputs.sum().backward()
print(sum(cpu_rnn._forward.stats.cache_hits.values()))
"""


def test_processes_share_the_machine_code_and_nothing_is_compiled_at_import(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for compiling in (2, 1):  # two compile at once, a third finds what they did
        command = [sys.executable, "-c", _FIRST_USE]
        running = [
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=-1, stderr=-2, text=True)
            for _ in range(compiling)
        ]
        told = [process.communicate(timeout=300)[0] for process in running]
        assert not any(process.returncode for process in running), told
    assert told[0].strip() == "1"
