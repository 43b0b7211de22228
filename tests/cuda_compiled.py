"""The GPU kernels as PTX for compute capability 9.0, which needs no GPU; `test_cuda.py` runs this file in a process of its own."""

import re

import numba.cuda  # before lib.kernels, which then prepares the kernels although there is no GPU
import pytest
import torch

from lib import kernels
from lib.cells import make_cell
from lib.kernels import _cuda, _registry

CELLS = ["cornn", "indrnn", "irnn", "lem", "rnn", "sru", "unicornn"]
WAYS_BACK = {"unicornn": [{"backward": "stored"}, {"backward": "reversible"}]}


def compiled(run, arguments):
    return numba.cuda.compile_ptx(
        run.bound(_cuda.dtype_of(arguments)), _cuda.signature(arguments), cc=(9, 0)
    )[0]


def libraries_are_missing():
    try:
        compiled(_cuda.kernel(lambda x: None), (torch.zeros(1),))
    except Exception as error:  # each missing library has its own
        return type(error).__name__
    return ""


if libraries_are_missing():
    pytest.skip("NVIDIA's compiler libraries are not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def ptx():
    """Return the PTX of every kernel, by (file, kernel, type): what launches would have compiled."""
    found = {}

    def compile_instead(run, blocks, threads, *arguments, shared=0):
        key = run.function.__module__.split(".")[-1], run.__name__, _cuda.dtype_of(arguments)
        if key not in found:
            found[key] = compiled(run, arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_cuda, "launch", compile_instead)
        patch.setattr(_cuda, "_processors", lambda: 132)
        for name in CELLS:
            for dtype in (torch.float32, torch.float64):
                for options in WAYS_BACK.get(name, [{}]):
                    cell = make_cell(name, 2, 4).to(dtype)
                    run = _registry._ENGINES[name, "numba-cuda"].run
                    u = torch.zeros(3, 2, 2, dtype=dtype)
                    outputs, _ = run(cell.weights(), cell.initial_state(2), u, **options)
                    outputs.sum().backward()
    return found


def test_every_kernel_was_compiled(ptx):
    modules = {
        name: vars(getattr(kernels, name)) for name in dir(kernels) if name.startswith("cuda_")
    }
    known = {
        (module, member.__name__, dtype)
        for module, members in modules.items()
        for member in members.values()
        if isinstance(member, _cuda.Kernel)
        for dtype in (torch.float32, torch.float64)
    }
    assert len(known) >= 2 * 2 * len(CELLS)
    assert set(ptx) == known


def test_float32_kernels_hold_no_float64_arithmetic(ptx):
    for (*kernel, dtype), text in ptx.items():
        wide = re.findall(r"^.*\.f64\b.*$", text, re.MULTILINE)
        if dtype == torch.float32:
            assert ".f32" in text
            assert not wide, f"{kernel}: {wide[0]}"
        else:
            assert wide


def test_no_kernel_holds_an_atomic_operation(ptx):
    for kernel, text in ptx.items():
        assert not re.search(r"^\s*(@%p\d+ )?(atom|red)\.", text, re.MULTILINE), kernel


def test_no_kernel_uses_the_approximate_tanh_or_flushes_denormals(ptx):
    for kernel, text in ptx.items():
        assert "tanh.approx" not in text, kernel
        # The library's own exp and tanh use ftz inside, on numbers that cannot be denormal there.
        assert not re.search(r"\b(add|mul|fma|sub)(\.rn)?\.ftz\.", text), kernel


def test_kernels_keep_all_in_registers_and_call_nothing(ptx):
    for (*kernel, dtype), text in ptx.items():
        if dtype == torch.float32:
            assert ".local" not in text, kernel
            assert not re.search(r"^\s*call", text, re.MULTILINE), kernel
