"""A validation part where a data set has none."""

from dataclasses import replace

from lib.tasks.data import Task


def hold_out(data: Task, size: int) -> Task:
    """Return the task with the last `size` training sequences as its validation part; 0 changes nothing.

    A prepared data set's sequences come in an order that depends on its name alone, classes in their proportions, so the
    last ones are a sample like any other, and the same for all attempts.

    Raises
    ------
    ValueError
        The task has a validation part already, or too few sequences for one of this size.
    """
    if not size:
        return data
    if data.validation is not None:
        raise ValueError(f"{data.name} has a validation part of its own; leave validation_size out")
    if not 0 < size < len(data.train):
        raise ValueError(
            f"{data.name}: expected a validation part of 1 to {len(data.train) - 1} of the "
            f"{len(data.train)} training sequences, got {size}"
        )
    kept = len(data.train) - size
    return replace(
        data, train=data.train.take(slice(kept)), validation=data.train.take(slice(kept, None))
    )
