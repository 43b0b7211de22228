"""Benchmarks: several ways of doing one thing, timed in turn in one run (`race`).

`timers` measure times, and a `ledger` writes every measurement to a file at once. Each other module
has one thing that is timed or checked:

- `coadjoint`: time and memory of the coadjoint method
- `conformance`: what PyTorch users expect of a layer
- `counts`: the operations of one time step
- `figure_1`: the networks of UnICORNN's Figure 1
- `parity`: engines against the reference
- `gpu`: kernels and training on a GPU

The notebooks 80 to 86 and ``python -m study.bench.gpu`` use them.
"""

from study.bench.ledger import Ledger
from study.bench.race import race
from study.bench.timers import Workload, wall_timer

__all__ = ["Ledger", "Workload", "race", "wall_timer"]
