"""The data sets, one per file; the files fill the registry themselves.

Bytes come from the publisher, or from the folder named by the environment variable
``LTD_DATA_MIRROR``. Either way a file counts only with its checksum. A further data set is one more
file in this folder, with a function marked `source`.
"""

from pathlib import Path

from lib.registry import import_files
from lib.tasks.prepared import save_prepared
from lib.tasks.sources._registry import SOURCES

import_files(__name__, __path__)


def source_names() -> list[str]:
    """Return the names of all data sets, in alphabetical order."""
    return sorted(SOURCES)


def prepare(name: str, folder: str | Path) -> Path:
    """Fetch the data set `name`, write it to ``<folder>/<name>.nc`` and return the path.

    Raises
    ------
    ValueError
        There is no such data set, or a file has the wrong checksum.
    OSError
        A file cannot be downloaded, or there is no room for it.
    """
    if name not in SOURCES:
        raise ValueError(f"unknown dataset {name!r}; known: {', '.join(source_names())}")
    return save_prepared(SOURCES[name](), folder)


__all__ = ["prepare", "source_names"]
