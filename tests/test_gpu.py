"""The kernels on a GPU: what `make bench-gpu` checks, as tests."""

import subprocess
import sys

import pytest
import torch

from lib.bench.gpu import checks
from lib.paths import ROOT

CELLS = ["cornn", "indrnn", "lem", "rnn", "sru", "unicornn"]


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


def test_every_cell_with_gpu_kernels_is_tested_here():
    assert checks.cells() == CELLS


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("more", [[], ["--look"]])
def test_without_a_gpu_the_benchmark_ends_with_a_sentence(more, tmp_path):
    out = tmp_path / "bench_gpu.csv"
    command = [sys.executable, "-m", "lib.bench.gpu", "--out", str(out), *more]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "bench-gpu needs an NVIDIA GPU that PyTorch can use, and there is none on this machine"
    )
    assert not out.exists()
