"""The kernels on a GPU: what `make bench-gpu` checks, as tests."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lib.bench.bill import count
from lib.bench.gpu import __main__ as bench
from lib.bench.gpu import checks, speed
from lib.bench.race import read_rows
from lib.cells import make_cell
from lib.paths import ROOT
from lib.probes.adjoint import adjoint_norms
from lib.probes.fused import CELLS as PROBED
from lib.training.noise import Noise

CELLS = [
    *("antisymmetric", "cornn", "exponential", "indrnn", "irnn", "lem", "lipschitz", "rnn", "sru"),
    "unicornn",
]
SLICES = ["rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn", "lem"]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", checks.TOLERANCE, ids=str)
@pytest.mark.parametrize("name", CELLS)
def test_kernels_equal_the_reference(name, dtype):
    worst, deviation, allowed = checks.parity(name, dtype)
    assert deviation <= allowed, f"{worst}: {deviation:.1e} exceeds {allowed:.1e}"


@pytest.mark.gpu
@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CELLS)
def test_kernels_do_what_a_gpu_asks(name, check):
    check(name)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", checks.TOLERANCE, ids=str)
def test_windows_of_newton_s_method_equal_the_reference(dtype):
    worst, deviation, allowed = checks.parity("unicornn", dtype, "newton-cuda")
    assert deviation <= allowed, f"{worst}: {deviation:.1e} exceeds {allowed:.1e}"


@pytest.mark.gpu
@pytest.mark.parametrize("name", PROBED)
def test_adjoint_norms_by_kernels_are_those_of_the_cpu_in_float64(name):
    assert speed.decades(name) <= speed.DECADES


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "lem"])
def test_adjoint_norms_in_float32_are_those_of_the_cpu_in_float64(name, device):
    torch.manual_seed(0)
    cell, u = make_cell(name, 2, 33), torch.randn(300, 5, 2)
    expected = adjoint_norms(cell, u, torch.sum, times=(1, 300), engine="reference").full
    cell, u = cell.to(device), u.to(device)
    found = adjoint_norms(cell, u, torch.sum, times=(1, 300), engine="float32").full.cpu()
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_noise_made_on_a_device_is_the_cpu_s(device):
    rng = np.random.default_rng(0)
    noise = Noise(rng, 500, 101, device)
    expected = torch.from_numpy(rng.random((500, 101), dtype=np.float32))
    assert torch.equal(noise.rows(torch.arange(500, device=device)).cpu(), expected)


def test_every_cell_with_gpu_kernels_is_tested_here():
    assert checks.cells() == CELLS


def run_without(missing, *command, path=""):
    """Run a module in a process in which some others cannot be imported; `path` is a further folder of modules."""
    program = "import runpy, sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(','))); "
    program += "name = sys.argv.pop(1); runpy.run_module(name, run_name='__main__', alter_sys=True)"
    return subprocess.run(
        [sys.executable, "-c", program, ",".join(missing), *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def packages_in(name):
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return {
        canonicalize_name(Requirement(line).name) for line in lines if line[:1] not in ("#", "")
    }


@pytest.fixture(scope="module")
def not_on_a_box():
    """Return the modules of our requirements that are not among those of a GPU box, nor needed by torch."""
    absent = packages_in("requirements.in") - packages_in("requirements-box.in")
    absent -= {"torch", "jinja2", "markupsafe"}
    modules = {
        m
        for m, owners in packages_distributions().items()
        if absent & set(map(canonicalize_name, owners))
    }
    assert {"playwright", "netCDF4", "pandas", "xarray"} <= modules
    return sorted(modules)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("more", [[], ["--look"]])
def test_without_a_gpu_the_benchmark_ends_with_a_sentence(more, tmp_path, not_on_a_box):
    out = tmp_path / "bench_gpu.csv"
    done = run_without(not_on_a_box, "lib.bench.gpu", "--out", str(out), *more)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "bench-gpu needs an NVIDIA GPU that PyTorch can use, and there is none on this machine"
    )
    assert not out.exists()


@pytest.mark.slow
def test_the_tests_on_a_gpu_need_no_more_than_the_box_has(not_on_a_box):
    done = run_without(
        not_on_a_box, "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", "tests/test_gpu.py"
    )
    assert done.returncode in (0, 5), done.stdout + done.stderr  # 5: none is left without a GPU
    assert "error" not in done.stdout.lower(), done.stdout


def test_what_is_missing_on_a_box_is_part_of_all_requirements():
    everything = packages_in("requirements.in") | packages_in("requirements-gpu.in")
    assert packages_in("requirements-box.in") - everything == {"nvidia-nvvm"}


def test_a_part_whose_process_dies_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.sys, "executable", shutil.which("false"))
    bench._in_its_own_process("checks rnn", tmp_path / "rows.csv", "a box")
    (row,) = read_rows(tmp_path / "rows.csv")
    assert (row["what"], row["failure"]) == ("checks rnn", "its process ended with status 1")
    assert bench.is_wrong(row)


_SLICE = """
import torch
from lib.bench.gpu import slices
from lib.bench.race import Ledger, Workload

ledger, sizes = Ledger(), {"places": 2, "probed": 2, "rounds": 1, "device": "cpu"}
torch.set_num_threads(1)
slices.time_slice("lipschitz", Workload(2, 5, 16), ledger, **sizes)
for row in ledger.rows:
    print(row["what"], row["quantity"], row["value"], row["failure"], sep=";")
"""


def test_a_slice_of_the_factorial_tells_its_rates_with_what_a_box_has(not_on_a_box, tmp_path):
    (tmp_path / "a_slice.py").write_text(_SLICE)
    done = run_without(not_on_a_box, "a_slice", path=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split(";") for line in done.stdout.splitlines()]
    assert {failure for *_, failure in rows} == {"None"}
    values = {(what, quantity): value for what, quantity, value, _ in rows}
    of = count("lipschitz", 16, 1, "training", 2)
    graph = "lipschitz, 2, graph"
    step = 1e3 * float(values[graph, "median time"]) / 5
    assert float(values[graph, "rate, node_us"]) == pytest.approx(step / of.operators)
    assert float(values[graph, "bits in another company"]) == 0
    assert float(values[graph, "rate, tflops"]) == pytest.approx(2 * of.flop / step / 1e6)


def test_the_machine_is_told_before_and_after_all_else():
    assert bench.parts()[0] == bench.parts()[-1] == "machine"
    assert [part for part in bench.parts() if "checks" in part] == [f"checks {n}" for n in CELLS]
    assert [part for part in bench.parts() if "slice" in part] == [f"slice {n}" for n in SLICES]
