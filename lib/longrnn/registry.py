"""Registries that fill themselves, and names that are imported when they are first used."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def import_files(package: str, paths: list[str]) -> None:
    """Import every public module of a package; each registers itself.

    Parameters
    ----------
    package
        Dotted name of the package.
    paths
        Its folders. Packages in them, and files whose names start with ``_``, are left out.
    """
    for module in pkgutil.iter_modules(paths):
        if not (module.ispkg or module.name.startswith("_")):
            importlib.import_module(f"{package}.{module.name}")


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package that imports names when they are first used.

    Parameters
    ----------
    package
        Dotted name of the package.
    modules
        The names that each of its modules defines.

    Returns
    -------
    callable
        ``get(name)`` imports the module of a name and returns the named object. It raises an
        AttributeError if no module defines the name.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return get
