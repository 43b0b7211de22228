"""Tasks: the data that networks are trained and tested on, as plain arrays.

A task is a module that registers a function (`study.tasks._registry.task`). A data set is a row of
`sources/table.toml`. On the way from a publisher's file to a task:

- `sources` reads the publisher's files (`formats`), or makes synthetic data (`standins`)
- `prepared` stores a data set as netCDF; notebook 00 does this once
- `loading` loads it as a `data.Task`
- the task's module changes it, for example permutes the pixels

Nothing here depends on networks.
"""

from longrnn.registry import import_files

from study.tasks._registry import TASKS, check_task, find_task, make_task
from study.tasks.data import Split, Task
from study.tasks.loading import load_prepared

import_files(__name__, __path__)

__all__ = ["TASKS", "Split", "Task", "check_task", "find_task", "load_prepared", "make_task"]
