"""The architectures, one per file; the files fill the registry themselves.

>>> from lib.cells import make_cell
>>> sum(p.numel() for p in make_cell("lstm", 1, 64).parameters())
16896
"""

from lib.cells._cell import Cell, State, cell_class, cell_names, make_cell, unroll
from lib.registry import import_files

import_files(__name__, __path__)

__all__ = ["Cell", "State", "cell_class", "cell_names", "make_cell", "unroll"]
