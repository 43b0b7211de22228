"""What all tests share: one thread each, because they compare results and several processes share few cores."""

import os

# Before NumPy, Numba or torch are imported.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import torch

torch.set_num_threads(1)
