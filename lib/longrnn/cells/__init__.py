"""The architectures, one per file; the files fill the registry themselves.

>>> from longrnn.cells import make_cell
>>> sum(p.numel() for p in make_cell("lstm", 1, 64).parameters())
16896
"""

from longrnn.cells._cell import Cell, State, cell_class, cell_names, make_cell, unroll
from longrnn.registry import import_files

import_files(__name__, __path__)

__all__ = ["Cell", "State", "cell_class", "cell_names", "make_cell", "unroll"]
