"""Data sets and the tasks made of them, as plain arrays; networks are not known here."""

from lib.tasks.data import Sequences, TaskData, load_prepared
from lib.tasks.variations import noise_places, time_steps, vary

__all__ = [
    "Sequences",
    "TaskData",
    "load_prepared",
    "noise_places",
    "time_steps",
    "vary",
]
