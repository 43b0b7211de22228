"""Estimate the memory of a training step, and refuse runs that don't fit."""

import psutil
import torch

from study.tasks import Task

STATE_ARRAYS = 12
"""Number of arrays (time, batch, width) that a forward and backward pass has in memory at once.

This is the number for LEM's engine; other engines have 4 to 17.
"""
_LOGIT_ARRAYS = 3
"""Logits, their softmax, and its gradient."""
_BYTES = 4


def check_memory(
    task: Task, time_steps: int, batch_size: int, width: int, device: torch.device
) -> None:
    """Refuse a run whose batches don't fit into the free memory of its device.

    The task's data are already loaded. A step also needs memory for the inputs and states of a
    batch, and for predictions if the task has one per time step.

    Parameters
    ----------
    task : Task
    time_steps : int
        Length of the sequences.
    batch_size : int
        Sequences per step.
    width : int
        Recurrent dimension d, times the number of layers.
    device : torch.device

    Raises
    ------
    ValueError
        The message gives the memory that is needed, the free memory, and a batch size that fits.
    """
    free_bytes = _free_bytes(device)
    predicted = _LOGIT_ARRAYS * task.outputs if task.target == "steps" else 0
    numbers_per_step = 2 * max(1, task.features) + STATE_ARRAYS * width + predicted
    sequence_bytes = _BYTES * time_steps * numbers_per_step
    largest_batch = free_bytes // sequence_bytes
    if batch_size <= largest_batch:
        return
    if largest_batch > 0:
        advice = f"lower batch_size to {largest_batch}"
    else:
        advice = "use shorter sequences or a smaller width"
    raise ValueError(
        f"{task.name}: batches of {batch_size} sequences of {time_steps} steps at width {width} "
        f"need about {batch_size * sequence_bytes / 2**30:.1f} GiB, "
        f"there are {free_bytes / 2**30:.1f} GiB; {advice}"
    )


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free_bytes, _total = torch.cuda.mem_get_info(device)
        return free_bytes
    return psutil.virtual_memory().available
