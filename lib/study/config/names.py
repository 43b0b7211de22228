"""Give the runs of a group unique and readable names, the last step of the expansion."""

import json
from collections.abc import Sequence, Set

from study.config.levels import level_text
from study.config.run import RunConfig


def with_names(runs: Sequence[RunConfig]) -> tuple[RunConfig, ...]:
    """Return the runs of a group with their names in the results file.

    A name consists of the label, the task, and the settings in which runs with the same label and
    task differ. If a name is already used, ``(2)`` or a higher number is appended.

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
            name = _unused(", ".join([label, *differences]), used)
            used.add(name)
            named[index] = runs[index].model_copy(update={"run": name})
    return tuple(named)


def _unused(name: str, used: Set[str]) -> str:
    """Return a name, with a number if the name is already used."""
    if name not in used:
        return name
    number = 2
    while f"{name} ({number})" in used:
        number += 1
    return f"{name} ({number})"


def _differing(levels: Sequence[dict[str, object]]) -> list[str]:
    """Return the settings in which the given runs differ."""
    keys = dict.fromkeys(key for run in levels for key in run)
    differing = []
    for key in keys:
        values = {json.dumps(run.get(key)) for run in levels}
        if len(values) > 1:
            differing.append(key)
    return differing
