"""The GPU kernels without a GPU: run in Numba's simulator, and compiled to machine code for compute capability 9.0.

The latter skips where NVIDIA's compiler is not installed, and fails there with ``LTD_COMPILER=1``, which `.ci/run` sets
once it has installed it.

Both need a process of their own: the simulator is chosen when Numba is imported, and without a GPU this project does not import
Numba's CUDA target.
"""

import os

import pytest
from processes import python


def pytest_on(*names, **environment):
    """Run the tests in files of this folder; return the exit status and what was printed."""
    command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-o", "faulthandler_timeout=600", "-k", "numba-cuda or cuda_"]
    files = [f"tests/{name}" for name in names]
    done = python(*command, *files, env=os.environ | environment, timeout=3600)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_kernels_in_the_simulator():
    files = "test_kernels.py", "cuda_simulated.py"
    status, told = pytest_on(*files, NUMBA_ENABLE_CUDASIM="1")
    assert status == 0, told


@pytest.mark.slow
def test_kernels_compiled_for_a_gpu():
    status, told = pytest_on("cuda_compiled.py")
    if status == 5 and os.environ.get("LTD_COMPILER") != "1":  # the file skipped itself
        pytest.skip("NVIDIA's compiler is not installed; see requirements-ptxas.in")
    assert status == 0, told


def test_without_a_gpu_its_target_is_not_imported():
    code = "import sys, torch, lib.cells; sys.exit('numba.cuda' in sys.modules and not torch.cuda.is_available())"
    assert python("-c", code).returncode == 0
