"""Give the runs of a group unique and readable names, the last step of the expansion."""

import json
from collections.abc import Sequence

from study.config.levels import level_text
from study.config.run import RunConfig


def with_names(runs: Sequence[RunConfig]) -> tuple[RunConfig, ...]:
    """Return the runs of a group with their names in the dataset.

    A name consists of the label, the task, and the settings in which runs with the same label and
    task differ. ``(2)`` is appended to a name that is already used.

    Parameters
    ----------
    runs : sequence of RunConfig
        The runs of a group.

    Returns
    -------
    tuple of RunConfig
        The same runs with their field ``run`` filled in.
    """
    by_label: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        by_label.setdefault(f"{run.label}, {run.task_label}", []).append(index)
    named = list(runs)
    used: set[str] = set()
    for label, indices in by_label.items():
        levels = [runs[index].levels() for index in indices]
        differing = _differing(levels)
        for index, run_levels in zip(indices, levels, strict=True):
            differences = [
                f"{key}={level_text(run_levels[key])}" for key in differing if key in run_levels
            ]
            name = ", ".join([label, *differences])
            while name in used:
                name += " (2)"
            used.add(name)
            named[index] = runs[index].model_copy(update={"run": name})
    return tuple(named)


def _differing(levels: Sequence[dict[str, object]]) -> list[str]:
    """Return the settings in which the given runs differ."""
    keys = dict.fromkeys(key for run in levels for key in run)
    differing = []
    for key in keys:
        values = {json.dumps(run.get(key)) for run in levels}
        if len(values) > 1:
            differing.append(key)
    return differing
