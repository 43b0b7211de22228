"""Tasks: the data that networks are trained and tested on, as plain arrays.

A task is made by a function that its module registers with `study.tasks._registry.task`. A data set
has a row in `sources/table.toml`. The steps from a publisher's file to a task:

1. `sources` reads the publisher's files (`formats`), or makes synthetic data (`standins`).
2. `prepared` stores the data set as netCDF. Notebook 00 does this once.
3. `loading` loads the data set as a `data.Task`.
4. The task's function changes it: `pixels` and `permutations`, `rows_then_noise` and
   `located_rows` (images), `series`, `texts`, `language`, or `variations` (of the factorial
   experiment).

Other tasks have no data set and draw new sequences for every batch: `adding`, `copying`,
`fast_slow` and `long_time_gap`.

Only the settings `standardised` and `centred` have British names. The seeds of a task's data are
derived from its settings, names included (`study.training.run_data.load_data`), so another spelling
would change the data and all results on them.

Nothing here depends on networks.
"""

from longrnn.registry import import_files

from study.tasks._registry import MAKERS, check_task, find_maker, make_task
from study.tasks.data import Split, Task
from study.tasks.loading import load_prepared

import_files(__name__, __path__)

__all__ = ["MAKERS", "Split", "Task", "check_task", "find_maker", "load_prepared", "make_task"]
