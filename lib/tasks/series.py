"""Real series as they are prepared, or fewer of their steps."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.tasks._parts import hold_out
from lib.tasks._registry import task
from lib.tasks.data import Part, Task, load_prepared

KEEPS = ("last", "random")


@task
def series(
    prepared: Path,
    rng: np.random.Generator,
    *,
    dataset: str,
    every: int = 1,
    keep: str = "last",
    steps: int = 0,
    share: float = 1.0,
    centred: bool = False,
    train_size: int = 0,
    validation_size: int = 0,
    test_size: int = 0,
) -> Task:
    """Return a data set of real series.

    Parameters
    ----------
    dataset
        Name of the data set.
    every
        One step of so many is kept, from the first on; 1 keeps all.
    keep, steps, share
        Of these, so many are kept, or this share: the ``last`` ones, or ``random`` ones in their order, a choice of its own
        for each sequence that does not change between epochs; 0 keeps all.
    centred
        Whether the mean of the training part's values is taken off all targets. It leaves errors and their unit as they are;
        without it a head that starts at zero must first climb to some ninety beats a minute.
    train_size, test_size
        As in `lib.tasks.data.load_prepared`.
    validation_size
        Series taken out of the training part, where the data set has no validation part.

    Raises
    ------
    ValueError
        The data set holds no series with one target each, classes are to be centred, or there are fewer steps than are to
        be kept.
    """
    if keep not in KEEPS:
        raise ValueError(f"unknown steps to keep {keep!r}; known: {', '.join(KEEPS)}")
    if every < 1 or steps < 0 or not 0 < share <= 1 or (steps and share < 1):
        raise ValueError(
            f"expected to keep every step or fewer, by their number or by their share, got every={every}, steps={steps}, share={share}"
        )
    data = load_prepared(prepared / f"{dataset}.nc", train_size, test_size)
    if data.kind != "series" or data.target == "steps":
        raise ValueError(
            f"{dataset}: expected series with one target each, got {data.kind} with {data.target}"
        )
    data = hold_out(data, validation_size).map(
        lambda part: replace(part, inputs=part.inputs[:, ::every])
    )
    length = data.train.inputs.shape[1]
    if share < 1:
        steps = max(1, round(share * length))
    if steps > length:
        raise ValueError(f"{dataset}: {steps} steps to be kept, there are {length}")

    if centred and data.target != "value":
        raise ValueError(
            f"{dataset}: only values can be centred, its targets are of the kind {data.target!r}"
        )
    if centred:
        mean = data.train.targets.mean(axis=0)
        data = data.map(lambda part: replace(part, targets=part.targets - mean))

    def shortened(part: Part) -> Part:
        if not steps:
            return part
        if keep == "last":
            return replace(part, inputs=part.inputs[:, -steps:])
        rows = [series[np.sort(rng.choice(length, steps, replace=False))] for series in part.inputs]
        return replace(part, inputs=np.stack(rows))

    return data.map(shortened)
