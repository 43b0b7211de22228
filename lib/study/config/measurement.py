"""What is measured during a run, and on which sequences."""

from typing import Literal

from study.config.section import Draws, Positive, Section, Size

Measure = Literal[
    "gains",
    "time_steps",
    "adjoint_norms",
    "eigenvalues",
    "penalty",
    "adjoint_curve",
    "singular_values",
    "trajectories",
]
"""Measures beside losses and metrics; `study.results.rows.MEASURED` lists their variables."""


class Measurement(Section):
    """What is measured during a run, when, and on which sequences.

    Attributes
    ----------
    records : int
        Number of equally spaced records; the last one is taken at the end of training.
    first_record : bool
        Whether there is one more record, before training.
    metric : str
        ``squared error``, or empty for the task's own metric.
    probe_size : int
        Training sequences that are measured; 0 for all of them.
    test_draws, validation_draws : int
        For tasks that draw their sequences: how many fresh ones test and validate every network of
        the task.
    measures : tuple of str
        Further measures, taken with every record or before and after training.
    measure_size : int
        Sequences for these measures.
    stretch : int
        Last time steps whose singular values are computed; 0 for all of them.
    """

    records: Positive
    first_record: bool = False
    metric: Literal["", "squared error"] = ""
    probe_size: Size = 0
    test_draws: Draws = 0
    validation_draws: Draws = 0
    measures: tuple[Measure, ...] = ()
    measure_size: Size = 8
    stretch: Size = 0
