"""The data sets: a row each in `table.toml`, and files of readers by kind of data.

Bytes come from the publisher, or from the folder named by the environment variable
``LTD_DATA_MIRROR``. Either way a file counts only with its checksum.
"""

from pathlib import Path

from longrnn.registry import import_files

from study.tasks.prepared import prepared_dataset, save_prepared
from study.tasks.sources._table import READERS, SETS

import_files(__name__, __path__)


def source_names() -> list[str]:
    """Return the names of all data sets.

    Returns
    -------
    list of str
        In alphabetical order.
    """
    return sorted(SETS)


def prepare(name: str, folder: str | Path) -> Path:
    """Fetch the data set `name`, write it to ``<folder>/<name>.nc`` and return the path.

    Raises `ValueError` where there is no such data set or a file has the wrong checksum, `OSError`
    where one cannot be had or kept.
    """
    if name not in SETS:
        raise ValueError(f"unknown dataset {name!r}; known: {', '.join(source_names())}")
    row = dict(SETS[name])
    read = READERS[row.pop("reader")](**row.pop("settings", {}))
    return save_prepared(prepared_dataset(name, **row | read), folder)


__all__ = ["prepare", "source_names"]
