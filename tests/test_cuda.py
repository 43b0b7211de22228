"""The GPU kernels without a GPU: run in Numba's simulator, and compiled for compute capability 9.0.

Both need a process of their own: the simulator is chosen when Numba is imported, and without a GPU this project does not import
Numba's CUDA target.
"""

import os
import subprocess
import sys

import pytest

from lib.paths import ROOT


def pytest_on(name, *, environment=None):
    """Run the tests in a file of this folder; return the exit status and what was printed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        f"tests/{name}",
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_kernels_in_the_simulator():
    status, told = pytest_on("cuda_simulated.py", environment={"NUMBA_ENABLE_CUDASIM": "1"})
    assert status == 0, told
    assert "skipped" not in told.splitlines()[-1], told


@pytest.mark.slow
def test_kernels_compiled_for_a_gpu():
    status, told = pytest_on("cuda_compiled.py")
    if (
        status == 5
    ):  # nothing ran: the file skips itself where NVIDIA's compiler libraries are missing
        pytest.skip("NVIDIA's compiler libraries are not installed; see requirements-gpu.in")
    assert status == 0, told


def test_without_a_gpu_its_target_is_not_imported():
    code = "import sys, torch, lib.cells; sys.exit('numba.cuda' in sys.modules and not torch.cuda.is_available())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=600)
    assert done.returncode == 0
