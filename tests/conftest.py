"""What all tests share: one thread each, because they compare results and several processes share few cores."""

import os

# Before NumPy, Numba or torch are imported.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest
import torch
from chromium import NAMES, Chromium, find_chromium

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def browser():
    """A Chromium for all tests; without one they skip, or fail with ``LTD_NO_SKIP=1`` in the environment."""
    program = find_chromium()
    if program is None:
        reason = (
            f"no Chromium on the PATH (looked for {', '.join(NAMES)}); install Debian's chromium"
        )
        if os.environ.get("LTD_NO_SKIP") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with Chromium(program) as chromium:
        yield chromium
