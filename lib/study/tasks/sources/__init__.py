"""Sources: get each data set from its publisher, and write it in the format of this repository.

Each data set is a row of `table.toml`, which names a reader: a function in one of these modules.
Files come from the publisher, or from the folder that the environment variable ``LTD_DATA_MIRROR``
names. In both cases their checksums are compared. Notebook 00 calls `prepare` for each data set
that a profile needs.
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
    """Fetch a data set, and write it to ``<folder>/<name>.nc``.

    Parameters
    ----------
    name : str
        Name of the data set, one of `source_names`.
    folder : str or Path
        Folder of the prepared data sets.

    Returns
    -------
    Path
        The written file, see `study.tasks.prepared`.

    Raises
    ------
    ValueError
        The data set is unknown, or a file has the wrong checksum or format.
    OSError
        A file can't be downloaded or written.
    """
    if name not in SETS:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(source_names())}")
    row = dict(SETS[name])
    read = READERS[row.pop("reader")]
    content = read(**row.pop("settings", {}))
    ds = prepared_dataset(name, **{**row, **content})
    return save_prepared(ds, folder)


__all__ = ["prepare", "source_names"]
