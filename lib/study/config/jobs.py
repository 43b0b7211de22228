"""Where jobs run."""

from typing import Annotated, Literal

from pydantic import Field

from study.config.section import Section


class Jobs(Section):
    """Where jobs run. This changes no result, so no cached run, dataset or stage depends on it.

    Attributes
    ----------
    scheduler : str
        ``local``, or the address of a running Dask scheduler: ``tcp://host:port``, or
        ``tls://host:port`` with the certificates of Dask's own configuration.
    workers : int or str
        Local worker processes. 0 means one per core, and a single one if networks share passes on
        a GPU. ``auto`` means one per GPU, or one per core on a machine without GPUs.
    """

    scheduler: Annotated[str, Field(pattern=r"^(local|(tcp|tls)://[^/\s]+:[1-9][0-9]{0,4})$")]
    workers: Annotated[int, Field(ge=0, le=4096)] | Literal["auto"]
