"""What trainings need of the machine, checked before they start."""

import psutil
import torch

from lib.tasks import Task

ARRAYS = 12
"""Arrays of all states that a forward and a backward pass hold at once: LEM's engine; the others have 4 to 17."""
_FLOAT = 4


def check_memory(
    task: Task, time_steps: int, batch_size: int, width: int, device: torch.device
) -> None:
    """Refuse a training that does not fit the bytes that the device has free now.

    It needs about the task's parts, and a batch's inputs, states, and predictions of every step; `width` is the recurrent dimension d,
    times the layers of a stack. The `ValueError` says how much is needed, how much there is, and a batch that would fit.
    """
    on_gpu = device.type == "cuda"
    free = torch.cuda.mem_get_info(device)[0] if on_gpu else psutil.virtual_memory().available
    parts = (part for part in (task.train, task.validation, task.test) if part is not None)
    held = sum(part.nbytes for part in parts)
    # Logits, their softmax, and the gradient.
    predicted = 3 * task.outputs if task.target == "steps" else 0
    numbers = 2 * max(1, task.features) + ARRAYS * width + predicted
    a_sequence = _FLOAT * time_steps * numbers
    fitting = (free - held) // a_sequence
    advice = f"batch_size to {fitting}" if fitting > 0 else "the length or the number of sequences"
    what = f"batches of {batch_size} sequences of {time_steps} steps at width {width}"
    _refuse(task, f"{what} need", held + batch_size * a_sequence, free, advice)


def check_copies(task: Task, copies: int) -> None:
    """Refuse trainings side by side, each with a copy of a task's data of its own, that do not fit the memory.

    Raises `ValueError` with how much is needed and how much there is.
    """
    needed = copies * (task.train.nbytes + task.test.nbytes)
    free = psutil.virtual_memory().available
    _refuse(task, "attempts side by side hold data of", needed, free, "together")


def _refuse(task: Task, what: str, needed: int, free: int, advice: str) -> None:
    if needed > free:
        needed, free = (f"{size / 2**30:.1f} GiB" for size in (needed, free))
        raise ValueError(f"{task.name}: {what} about {needed}, there are {free}; lower {advice}")
