"""The GPU kernels compiled for the usual width; `make test` compiles them for the widest block."""

import pytest
from processes import run_tests

pytestmark = [pytest.mark.trials, pytest.mark.exhaustive]


def test_kernels_compile_at_the_usual_width():
    status, printed = run_tests("cuda_compiled.py", LTD_WIDTH="128")
    if status == 5:  # the file skipped itself
        pytest.skip("NVIDIA's compiler is not installed; see requirements-ptxas.in")
    assert status == 0, printed
