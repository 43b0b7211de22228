"""Every check that needs a GPU, and what its kernels cost there, in one table.

``make bench-gpu``, or ``python -m lib.bench.gpu`` where the notebooks' packages are missing: it needs PyTorch, pandas, Numba and
numba-cuda alone.
"""
