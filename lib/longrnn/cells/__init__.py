"""The architectures, one per file; the files fill the registry themselves.

>>> from longrnn.cells import make_cell
>>> sum(p.numel() for p in make_cell("lstm", 1, 64).parameters())
16896
"""

from longrnn.cells._cell import Cell
from longrnn.cells._one_step import OneStep
from longrnn.cells._recurrent import LAYERS, Recurrent
from longrnn.cells._registry import cell_class, cell_names, make_cell
from longrnn.cells._unroll import State, unroll
from longrnn.registry import import_files

import_files(__name__, __path__)

LAYER_CLASSES = {layer.__name__: layer for layer in LAYERS.values()}
"""The layer classes, such as `LEM`, by their own names."""

__all__ = [
    "LAYER_CLASSES",
    "Cell",
    "OneStep",
    "Recurrent",
    "State",
    "cell_class",
    "cell_names",
    "make_cell",
    "unroll",
]
