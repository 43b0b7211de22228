"""What kernels and training cost on a GPU: ``make bench-gpu``, or ``python -m study.bench.gpu`` on a box without the notebooks' packages."""
