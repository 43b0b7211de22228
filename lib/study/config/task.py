"""Which task a network is trained on."""

from typing import Any

from pydantic import Field

from study.config.section import Section


class TaskSpec(Section):
    """A task: the name of its maker, and the settings that the maker takes (`study.tasks`).

    Attributes
    ----------
    maker : str
        Name of a function registered in `study.tasks`.
    settings : dict
        Keywords of that function, such as ``time_steps`` or ``dataset``.
    """

    maker: str
    settings: dict[str, Any] = Field(default_factory=dict)

    def flat(self) -> dict[str, Any]:
        """Return maker and settings in one dictionary, as seeds and `make_task` take them."""
        return {"task": self.maker, **self.settings}
