"""Registries that files fill: importing a package imports every file in it, and each registers itself."""

import importlib
import pkgutil


def import_files(package: str, paths: list[str]) -> None:
    """Import every module of `package` in the folders `paths`, but for packages and those that start with ``_``."""
    for module in pkgutil.iter_modules(paths):
        if not (module.ispkg or module.name.startswith("_")):
            importlib.import_module(f"{package}.{module.name}")
