"""Where jobs run."""

from typing import Annotated

from pydantic import Field

from study.config.section import Section


class Jobs(Section):
    """Where jobs run. This changes no result, so no cached run, dataset or stage depends on it.

    Attributes
    ----------
    scheduler : str
        ``local``, or the address of a running Dask scheduler: ``tcp://host:port``, or
        ``tls://host:port`` with the certificates of Dask's own configuration.
    workers : int
        Local worker processes. 0 means one per core, and a single one if networks share passes on
        a GPU.
    """

    scheduler: Annotated[str, Field(pattern=r"^(local|(tcp|tls)://[^/\s]+:[1-9][0-9]{0,4})$")]
    workers: Annotated[int, Field(ge=0, le=4096)]
