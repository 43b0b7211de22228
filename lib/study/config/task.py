"""Settings of a task: the function that makes it, and the function's arguments."""

from typing import Any

from pydantic import Field

from study.config.section import Section


class TaskSpec(Section):
    """A task: the name of the function that makes it, and the function's keyword arguments.

    Attributes
    ----------
    maker : str
        Name of a function registered in `study.tasks`.
    settings : dict
        Keywords of that function, such as ``time_steps`` or ``dataset``.
    """

    maker: str
    settings: dict[str, Any] = Field(default_factory=dict)

    def flat_settings(self) -> dict[str, Any]:
        """Return the maker's name and the settings in one dictionary.

        Returns
        -------
        dict
            ``task``, the maker's name, and the settings: the argument of `study.tasks.make_task`.
        """
        return {"task": self.maker, **self.settings}
