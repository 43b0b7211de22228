"""Benchmarks: ways of doing one thing, timed side by side in one run (`race`), every measurement written down as it comes.

One file for each thing timed; the notebooks 80 to 84 and ``python -m study.bench.gpu`` run them.
"""

from study.bench.race import Ledger, Workload, race, wall

__all__ = ["Ledger", "Workload", "race", "wall"]
