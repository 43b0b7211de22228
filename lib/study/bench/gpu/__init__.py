"""Checks and times of kernels and of training on a GPU.

``make bench-gpu`` runs them, or ``python -m study.bench.gpu`` on a machine without the packages of
the notebooks.
"""
