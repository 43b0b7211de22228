"""Settings for where jobs run."""

from typing import Annotated, Literal

from pydantic import Field

from study.config.section import Section


class Jobs(Section):
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

    scheduler: Annotated[str, Field(pattern=r"^(local|(tcp|tls)://[^/\s]+:[1-9][0-9]{0,4})$")]
    workers: Annotated[int, Field(ge=0, le=4096)] | Literal["auto"]
