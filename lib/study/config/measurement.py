"""Settings for what is measured during a run, when, and on which sequences."""

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
"""Measures in addition to losses and metrics, see `study.results.rows.MEASURED`."""


class Measurement(Section):
    """Settings for what is measured during a run, when, and on which sequences.

    Attributes
    ----------
    records : int
        Number of equally spaced records; the last one is at the end of training.
    first_record : bool
        Whether to record once more, before training.
    metric : str
        ``squared error``, or empty for the task's own metric.
    probe_size : int
        Number of training sequences to measure losses and metrics on; 0 for all of them.
    test_draws, validation_draws : int
        Sizes of the test and the validation set of a task that generates its sequences. All
        networks of the task share these sets.
    measures : tuple of str
        Further measures, see `study.training.probe`. Most are computed before and after training,
        ``gains`` and ``penalty`` with every record, and ``trajectories`` with the best weights.
    measure_size : int
        Number of sequences for these measures; 0 for all of them. ``penalty`` uses all test
        sequences.
    stretch : int
        Number s of time steps of the Jacobian dx_T/dx_(T-s), whose singular values are computed;
        0 for all T.
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
