r"""Switching series, a stand-in for EigenWorms: the class is the rate of an event.

The channels are three pairs of noisy oscillators, with the same distribution in all classes. Events
called turns are added to the second pair. Turns start as a Poisson process and last for a
geometrically distributed time with a mean of 60 steps. During a turn, :math:`3 / \sqrt 2` is added
to both channels of the pair. The class is the rate of turns. So the evidence is spread evenly over
the series, and the optimal classifier is known (notebook 61).
"""

import numpy as np
from scipy.signal import lfilter

from study.tasks.formats.series import Series

PERIODS = (37, 83, 190)
"""Periods of the oscillators, in steps."""
DAMPING = 0.995
"""Factor of an oscillator's amplitude per step, without noise."""
HEIGHT = 3.0
"""Euclidean norm of what a turn adds to the two channels of the second pair."""
MEAN_LENGTH = 60
"""Mean number of steps of a turn."""
RATES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Mean number of turns in 1,000 steps, by class."""
PRIORS = (0.42, 0.145, 0.145, 0.145, 0.145)
"""Probabilities of the classes; the largest is that of EigenWorms' test split, 16 of 39."""
LABELS = ("1", "2", "3", "4", "5")
"""Names of the classes."""


def switching_series(
    size: int, time_steps: int, rng: np.random.Generator, faster: float = 1.0
) -> Series:
    """Draw switching series.

    Parameters
    ----------
    size : int
        Number of series n; EigenWorms has 259.
    time_steps : int
        Length T of a series; EigenWorms has 17,984.
    rng : numpy.random.Generator
    faster : float
        Factor of all rates, for short series.

    Returns
    -------
    study.tasks.formats.series.Series
        Inputs (n, T, 6) float32, and classes 0 to 4.
    """
    targets = rng.choice(len(RATES), size, p=PRIORS)
    inputs = np.empty((size, time_steps, 2 * len(PERIODS)), np.float32)
    for series, target in zip(inputs, targets, strict=True):
        for k, period in enumerate(PERIODS):
            pair = _oscillator(period, time_steps, rng)
            series[:, 2 * k] = pair.real
            series[:, 2 * k + 1] = pair.imag
        turns = _turns(RATES[target] * faster / 1000, time_steps, rng)
        series[:, 2:4] += (HEIGHT / np.sqrt(2) * turns)[:, None]
    return Series(inputs, targets, LABELS)


def _oscillator(period: float, time_steps: int, rng: np.random.Generator) -> np.ndarray:
    """Return a stationary rotation with noise, both channels of unit variance, (T,) complex."""
    pole = DAMPING * np.exp(2j * np.pi / period)
    noise = rng.standard_normal((2, time_steps + 1))
    noise = noise[0] + 1j * noise[1]
    start = noise[0]
    drive = noise[1:] * np.sqrt(1 - DAMPING**2)
    return lfilter([1], [1, -pole], drive, zi=[pole * start])[0]


def _turns(rate: float, time_steps: int, rng: np.random.Generator) -> np.ndarray:
    """Return the number of turns in progress at each step, (T,)."""
    starts = rng.integers(0, time_steps, rng.poisson(rate * time_steps))
    ends = np.minimum(starts + rng.geometric(1 / MEAN_LENGTH, len(starts)), time_steps)
    started = np.bincount(starts, minlength=time_steps + 1)
    ended = np.bincount(ends, minlength=time_steps + 1)
    return (started - ended)[:-1].cumsum()
