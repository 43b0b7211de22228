"""The CPU engines run on one thread of BLAS, whatever the environment says, so that their bits and times are their own."""

import json
import os

import pytest
from processes import python

_PROGRAM = """
import json, sys
import torch
from threadpoolctl import threadpool_info
from lib.cells import make_cell

cell, u = make_cell("lipschitz", 1, 128), torch.randn(4, 128, 1)
cell(u, engine="numba-cpu")[0].sum().backward()
json.dump([p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"], sys.stdout)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.cpu_count() == 1, reason="one core has one thread anyway")
def test_blas_has_one_thread():
    free = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    pools = json.loads(python("-c", _PROGRAM, env=free, check=True).stdout)
    assert len(pools) >= 2, "NumPy's BLAS and SciPy's, which the kernels call, are loaded"
    assert set(pools) == {1}
