"""Entry points for `torch.hub`: one per layer class, in lower case.

>>> lem = torch.hub.load(".", "lem", input_size=10, hidden_size=20, source="local")

An entry point takes the arguments of its layer class; see `longrnn.LEM` for an example.
"""

import sys
from pathlib import Path

dependencies = ["torch", "numba", "numpy", "scipy", "threadpoolctl"]

# The packages are in lib/, whether or not they are installed.
sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from longrnn.cells import LAYER_CLASSES  # noqa: E402

globals().update({layer.core.name: layer for layer in LAYER_CLASSES.values()})
