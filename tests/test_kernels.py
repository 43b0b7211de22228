"""Every engine of every cell against the cell's reference, and what the CPU kernels promise.

The cases come from the registry: a new engine is tested without a change here.
"""

import importlib
import math
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
from lib.cells import cell_names
from lib.kernels import _cpu
from lib.paths import ROOT
from tests.engines import (
    TOLERANCE,
    VARIANTS,
    assert_bad_numbers_spread,
    assert_engine_agrees,
    assert_frozen_weights_get_no_gradient,
    assert_second_derivative_is_refused,
    by_engine,
    everything,
    random_case,
)

ENGINES = [case for cell in cell_names() for case in by_engine(cell)]
CPU_KERNELS = [cell for cell in cell_names() if "numba-cpu" in kernels.engine_names(cell)]


# Every two of a length, a batch and a width meet.
@pytest.mark.parametrize(
    ("T", "batch", "hidden"),
    [(1, 1, 1), (1, 3, 33), (2, 1, 33), (2, 3, 1), (63, 1, 1), (63, 3, 33)],
)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_engine_equals_reference(name, engine, dtype, T, batch, hidden):
    assert_engine_agrees(random_case(name, T, batch, hidden, dtype), name, engine)


@pytest.mark.parametrize("use", [("outputs",), ("state",)], ids=str)
@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_gradient_of_outputs_or_final_state_alone(name, engine, use):
    assert_engine_agrees(random_case(name, 9, 3, 5), name, engine, use=use)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
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
def test_second_derivative_is_refused(name):
    assert_second_derivative_is_refused(random_case(name, 3, 2, 4), "numba-cpu")


@pytest.mark.parametrize("name", CPU_KERNELS)
def test_frozen_weights_get_no_gradient(name):
    assert_frozen_weights_get_no_gradient(random_case(name, 4, 2, 3), "numba-cpu")


# ---------------------------------------------------------------------------------- activations


def elementwise(function):
    """Compile a loop over `function`, one of the scalar activations."""

    @numba.njit(**_cpu._OPTIONS)
    def loop(x, y):
        for i in range(x.size):
            y[i] = function(x[i])

    def apply(x):
        y = np.empty_like(x)
        loop(x, y)
        return y

    return apply


def a_range(dtype):
    """Return numbers of both signs, dense where the activations bend, down to the smallest normals."""
    small = np.logspace(-37.9, 2, 200_000)
    return np.concatenate([np.linspace(-20, 20, 2_000_001), small, -small]).astype(dtype)


def test_tanh_in_float32_is_within_its_bound():
    x = a_range(np.float32)
    y, truth = elementwise(_cpu.tanh)(x), np.tanh(x.astype(np.float64))
    zero = truth == 0
    assert np.all(y[zero] == 0)
    assert np.max(np.abs(y[~zero] / truth[~zero] - 1)) < _cpu.TANH_ERROR
    assert np.max(np.abs(y)) == 1
    assert np.all(np.abs(y[np.abs(x) > 9.02]) == 1)  # and so the slope vanishes as PyTorch's does


def test_sigmoid_in_float32_is_within_its_bound():
    x = a_range(np.float32)
    y, truth = elementwise(_cpu.sigmoid)(x), 1 / (1 + np.exp(-x.astype(np.float64)))
    normal = truth > 2 * np.finfo(np.float32).tiny
    assert np.max(np.abs(y[normal] / truth[normal] - 1)) < _cpu.SIGMOID_ERROR
    assert np.all(np.abs(y[~normal] - truth[~normal]) < 2 * np.finfo(np.float32).tiny)


def test_activations_keep_nan_infinity_and_denormals():
    x = np.array([np.nan, np.inf, -np.inf, 1e-42, -1e-42, -95.0], dtype=np.float32)
    np.testing.assert_array_equal(elementwise(_cpu.tanh)(x)[:5], [np.nan, 1, -1, *x[3:5]])
    y = elementwise(_cpu.sigmoid)(x)
    np.testing.assert_array_equal(y[:5], [np.nan, 1, 0, 0.5, 0.5])
    assert 0 < y[5] < np.finfo(np.float32).tiny


def test_activations_in_float64_are_within_their_bound():
    x = a_range(np.float64)
    x = x[np.abs(x) < 19]
    exact = x.astype(np.longdouble)
    for found, truth in [
        (elementwise(_cpu.tanh)(x), np.tanh(exact)),
        (elementwise(_cpu.sigmoid)(x), 1 / (1 + np.exp(-exact))),
    ]:
        known = truth != 0
        assert np.max(np.abs(found[known] / truth[known] - 1)) < _cpu.ERROR64
        assert np.all(found[~known] == 0)


def test_activations_in_float64_keep_what_is_special():
    x = np.array([np.nan, np.inf, -np.inf, 1e-310, -1e-310, -720.0, 25.0])
    np.testing.assert_array_equal(
        elementwise(_cpu.tanh)(x), [np.nan, 1, -1, 1e-310, -1e-310, -1, 1]
    )
    y = elementwise(_cpu.sigmoid)(x)
    np.testing.assert_array_equal(y[:5], [np.nan, 1, 0, 0.5, 0.5])
    assert 0 < y[5] < np.finfo(np.float64).tiny
    assert y[6] == 1 / (1 + math.exp(-25))


# ---------------------------------------------------------------------------------- compilation


def cpu_kernels():
    """Return every compiled function of the CPU kernels' files by name."""
    found = {}
    for module in pkgutil.iter_modules(kernels.__path__, "lib.kernels."):
        members = vars(importlib.import_module(module.name)).items()
        found |= {f"{module.name}.{k}": v for k, v in members if isinstance(v, CPUDispatcher)}
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


def run_python(code, folder):
    """Start a process that runs `code` with an empty cache of machine code."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=-1, stderr=-2, text=True)


def finish(process):
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def test_nothing_is_compiled_at_import(tmp_path):
    code = "from tests.test_kernels import cpu_kernels\n"
    code += "print(sum(len(f.signatures) for f in cpu_kernels().values()))"
    assert finish(run_python(code, tmp_path)).strip() == "0"
    assert not list(tmp_path.rglob("*.nbc"))


def test_processes_share_the_machine_code(tmp_path):
    code = """
import torch
from lib.cells import make_cell
from lib.kernels import cpu_rnn
outputs, _ = make_cell("rnn", 2, 4)(torch.ones(3, 2, 2), engine="numba-cpu")
outputs.sum().backward()
print(sum(cpu_rnn._forward.stats.cache_hits.values()))
"""
    for process in [run_python(code, tmp_path) for _ in range(2)]:  # both may compile
        finish(process)
    assert finish(run_python(code, tmp_path)).strip() == "1"
