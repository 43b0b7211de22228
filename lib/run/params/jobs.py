"""The section ``jobs``: where the jobs of every experiment run."""

from pydantic import Field

from lib.run.params._section import Section


class JobsSection(Section):
    """Where jobs run, which changes no result: no shard, dataset or stage of the pipeline depends on it.

    `scheduler` is ``local`` or the address of a running Dask scheduler (``tcp://host:port``); `workers` are local
    processes, 0 means one per core.
    """

    scheduler: str = Field(pattern=r"^(local|[a-z]+://[^\s]+:\d+)$")
    workers: int = Field(ge=0)
