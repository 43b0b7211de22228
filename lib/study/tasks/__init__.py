"""Data sets and the tasks made of them, as plain arrays; networks are not known here.

A task is one file that registers how it is made (see `study.tasks._registry.task`), a data set one
row in `sources/table.toml`.
"""

from longrnn.registry import import_files

from study.tasks._registry import TASKS, check_task, find_task, make_task
from study.tasks.data import Split, Task
from study.tasks.loading import load_prepared

import_files(__name__, __path__)

__all__ = ["TASKS", "Split", "Task", "check_task", "find_task", "load_prepared", "make_task"]
