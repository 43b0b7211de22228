"""Is what is timed correct? The tests that need a GPU, NVIDIA's sanitizer, and training losses."""

import copy
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from torch.nn import functional as F

from study.bench.gpu.slices import CLASSES, Network
from study.bench.ledger import Ledger
from study.bench.timers import Workload
from study.paths import ROOT

TESTS = ("-m", "pytest", "-v", "-p", "no:cacheprovider", "-m", "gpu", "tests/test_gpu.py")
"""Arguments of Python that run the tests."""
FOLDERS_OF_CUDA = ("/usr/local/cuda/bin", "/opt/cuda/bin")
"""Where NVIDIA's programs are if they are not on the path."""
SANITIZED = "equal_the_reference and float32"
"""Tests that run under the sanitizer, which slows kernels down by an order of magnitude."""
LOSSES = Workload(8, 50, 32)
STEPS = 5
CLOSE = 1e-3
"""Largest relative difference between losses on the GPU and on the CPU."""


def run_tests(ledger: Ledger, log: Path) -> None:
    """Run the tests that need a GPU.

    Parameters
    ----------
    ledger : Ledger
        Gets the number of tests that passed, and a row for each that did not.
    log : Path
        File for pytest's output, written while the tests run.
    """
    _run_pytest(ledger, "tests", [sys.executable, *TESTS], log)


def run_sanitizer(ledger: Ledger, tool: str, log: Path) -> None:
    """Run some of the tests under NVIDIA's sanitizer, if it is installed.

    Parameters
    ----------
    ledger : Ledger
        Gets the same rows as from `run_tests`.
    tool : str
        ``memcheck`` looks for reads and writes outside of arrays, ``racecheck`` for two threads of
        a block that use shared memory without a barrier between them.
    log : Path
        File for the output, written while the tests run.
    """
    folders = [None, *FOLDERS_OF_CUDA]
    found = [shutil.which("compute-sanitizer", path=folder) for folder in folders]
    programs = [program for program in found if program is not None]
    what = f"sanitizer {tool}"
    if not programs:
        ledger.add(what, "passed", value="compute-sanitizer is not installed")
        return
    # PyTorch keeps freed memory for later tensors, and so hides reads outside of arrays.
    sanitize = ["env", "PYTORCH_NO_CUDA_MEMORY_CACHING=1", programs[0]]
    sanitize += ["--tool", tool, "--target-processes", "all", "--error-exitcode", "9"]
    _run_pytest(ledger, what, [*sanitize, sys.executable, *TESTS, "-k", SANITIZED], log)


def _run_pytest(ledger: Ledger, what: str, command: list[str], log: Path) -> None:
    """Run pytest, and append its results to the ledger."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, check=False
        ).returncode
    lines = log.read_text("utf-8").splitlines()
    for line in lines:
        if line.startswith(("FAILED ", "ERROR ")):
            ledger.add(what, "test", passed=False, failure=line)
    failure = None
    if status != 0:
        failure = f"status {status}; see {log.name}"
    count = sum(" PASSED" in line for line in lines)
    ledger.add(what, "passed", value=count, unit="tests", passed=status == 0, failure=failure)


def compare_losses(name: str, ledger: Ledger, device: str = "cuda") -> None:
    """Train a small network on a GPU and on the CPU, and compare the losses.

    Parameters
    ----------
    name : str
        Architecture. On the CPU its reference runs.
    ledger : Ledger
        Gets the largest relative difference between the losses of the same step.
    device : str
        Device that is compared with the CPU.
    """
    torch.manual_seed(0)
    network = Network(name, LOSSES.inputs, LOSSES.hidden)
    inputs = torch.rand(LOSSES.batch, LOSSES.time_steps, LOSSES.inputs)
    classes = torch.randint(0, CLASSES, (LOSSES.batch,))
    here = _losses(copy.deepcopy(network), inputs, classes, "reference")
    there = _losses(network.to(device), inputs.to(device), classes.to(device), "auto")
    difference = ((there - here).abs() / here.abs()).max().item()
    passed = difference <= CLOSE
    failure = None if passed else f"more than {CLOSE}"
    row = {"size": LOSSES, "value": difference, "unit": "relative"}
    ledger.add(f"losses {name}", "difference from the CPU", **row, passed=passed, failure=failure)


def _losses(network: Network, inputs: torch.Tensor, classes: torch.Tensor, engine: str):
    """Return the losses of some training steps."""
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(inputs, engine=engine), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)
