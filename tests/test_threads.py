"""The CPU engines run on one thread of BLAS, whatever the environment says, so that their bits and times are their own."""

import json
import os

import pytest
from processes import python

_PROGRAM = """
import hashlib, json, sys
import torch
from threadpoolctl import threadpool_info
from lib.cells import make_cell

torch.set_num_threads(1)
torch.manual_seed(0)
found = {}
for name in ("lem", "lipschitz", "exponential", "gru"):
    cell, u = make_cell(name, 1, 128), torch.randn(40, 128, 1)
    outputs, _ = cell(u, engine="numba-cpu")
    gradients = torch.autograd.grad(outputs.square().sum(), list(cell.parameters()))
    bits = b"".join(part.detach().numpy().tobytes() for part in (outputs, *gradients))
    found[name] = hashlib.sha256(bits).hexdigest()
pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
json.dump({"pools": pools, "bits": found}, sys.stdout)
"""


def engines_with(blas_threads):
    """Run four engines in a process whose environment asks for so many threads of BLAS, or, with None, says nothing."""
    environment = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    if blas_threads:
        environment |= {"OPENBLAS_NUM_THREADS": blas_threads, "MKL_NUM_THREADS": blas_threads}
    return json.loads(python("-c", _PROGRAM, env=environment, check=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(os.cpu_count() == 1, reason="one core has one thread anyway")
def test_blas_has_one_thread_and_gives_the_bits_of_one_thread():
    free, bound = engines_with(None), engines_with("1")
    assert len(free["pools"]) >= 2, "NumPy's BLAS and SciPy's, which the kernels call, are loaded"
    assert set(free["pools"]) == {1}
    assert free["bits"] == bound["bits"]
