"""Settings of the Dask cluster that runs the jobs: section ``jobs`` of `params.yaml`."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator

from study.config.section import Section

MOST_WORKERS = 4096
"""Largest number of worker processes of one machine."""
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:[1-9][0-9]{0,4}")
"""Address of a Dask scheduler."""


def _check_scheduler(value: object) -> object:
    """Refuse what is neither `local` nor an address, in words instead of a regular expression."""
    if value == "local" or (isinstance(value, str) and _ADDRESS.fullmatch(value)):
        return value
    raise ValueError("expected local, or an address such as tcp://host:8786 or tls://host:8786")


def _check_workers(value: object) -> object:
    """Refuse another value than `auto` or a count, in one sentence for both types."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_WORKERS
    if is_count or value == "auto":
        return value
    raise ValueError(f"expected an integer from 0 to {MOST_WORKERS}, or auto")


class ClusterSettings(Section):
    """Settings for where jobs run. No result, cache key or stage depends on them.

    Attributes
    ----------
    scheduler : str
        ``local``, or the address of a running Dask scheduler: ``tcp://host:port``, or
        ``tls://host:port`` with the certificates of Dask's own configuration.
    workers : int or str
        Number of local worker processes. 0 means one per core, or a single one if networks share
        vmapped passes on a GPU. ``auto`` means one per GPU, or one per core without a GPU.
    """

    scheduler: Annotated[str, BeforeValidator(_check_scheduler)]
    workers: Annotated[int | Literal["auto"], BeforeValidator(_check_workers)]
