"""The registry that the data sets' files fill."""

from collections.abc import Callable

import xarray as xr

SOURCES: dict[str, Callable[[], xr.Dataset]] = {}


def source(read: Callable[[], xr.Dataset]) -> Callable[[], xr.Dataset]:
    """Register a function that returns a prepared data set, under the name of its file."""
    SOURCES[read.__module__.rsplit(".", 1)[1]] = read
    return read
