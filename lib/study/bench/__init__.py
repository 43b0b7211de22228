"""Benchmarks: several ways of doing one thing, timed in turn in one run (`race`).

Every measurement is written to a file at once. There is one module for each thing that is timed;
the notebooks 80 to 86 and ``python -m study.bench.gpu`` run them.
"""

from study.bench.race import Ledger, Workload, race, wall

__all__ = ["Ledger", "Workload", "race", "wall"]
