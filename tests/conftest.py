"""What all tests share: one thread each, and skips that CI does not accept."""

import os

# Before NumPy, Numba or torch are imported: tests measure results, and two cores are shared by several processes.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest
import torch

torch.set_num_threads(1)

NEVER_SKIPPED = ("browser", "notebook")
"""Markers whose tests must run where ``LTD_NO_SKIP`` is set, as `.ci/run` does."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn the skip of a test that CI has to run into a failure that tells the reason."""
    report = yield
    required = any(item.get_closest_marker(name) for name in NEVER_SKIPPED)
    if report.skipped and required and os.environ.get("LTD_NO_SKIP"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"LTD_NO_SKIP is set and this test did not run: {reason}"
    return report
