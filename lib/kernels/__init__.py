"""Engines: fast twins of the cells' references, chosen by device and availability.

An engine is a function with the signature of a reference unrolling bound to its step,
``run(weights, state, u) -> (outputs, state)``, registered by the file that defines it. A cell without an
engine for the case at hand runs its reference, the plain PyTorch loop.
"""

from lib.kernels._registry import (
    Engine,
    choose,
    engine_names,
    module_of,
    register,
    select,
    takes,
)
from lib.registry import import_files

import_files(__name__, __path__)

__all__ = ["Engine", "choose", "engine_names", "module_of", "register", "select", "takes"]
