"""What can only be known on a GPU: whether the kernels are right there, and what they cost.

``make bench-gpu``, or ``python -m lib.bench.gpu`` on a box without the notebooks' packages.
"""
