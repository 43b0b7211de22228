"""Beats, a stand-in for BIDMC: windows of an ECG and a PPG with known heart and breathing rates.

Every patient has their own heart rate, respiratory rate and pulse shapes. Both rates drift slowly
by a few percent, so that the windows of one patient do not all have the same target.
"""

from typing import NamedTuple

import numpy as np

SECONDS = 32.0
"""Length of a window."""
HOP = 3.2
"""Time from the start of one window to that of the next, in seconds."""
RATE = 125.0
"""Samples per second."""
HEART = (50.0, 130.0)
"""Range of the patients' mean heart rates, per minute."""
BREATH = (8.0, 30.0)
"""Range of the patients' mean respiratory rates, per minute."""
RATE_MODULATION = 0.03
"""Fraction of the heart rate that breathing adds and subtracts."""
AMPLITUDE_MODULATION = 0.2
"""Fraction of the amplitude that breathing adds and subtracts."""
BASELINE_MODULATION = 0.3
"""Height that breathing adds to and subtracts from the baseline."""
NOISE = 0.05
"""Standard deviation of the noise."""
_DRIFT = 0.05
"""Largest slow deviation of a patient's rates from their mean, as a fraction of the mean."""
_DRIFT_PERIODS = (60, 240)
"""Periods of the drift, in seconds."""


class Wave(NamedTuple):
    """A Gaussian wave of a heartbeat."""

    delay: float
    """Seconds after the peak of the beat."""
    width: float
    """Standard deviation in seconds."""
    height: float


_ECG = (
    Wave(-0.20, 0.025, 0.15),
    Wave(-0.025, 0.01, -0.12),
    Wave(0.0, 0.012, 1.0),
    Wave(0.028, 0.011, -0.25),
    Wave(0.26, 0.045, 0.3),
)
"""Waves P, Q, R, S and T of an ECG."""


def beats(
    patients: int, windows: int, rng: np.random.Generator, every: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw windows of several patients.

    Parameters
    ----------
    patients : int
        Number of patients.
    windows : int
        Windows per patient.
    rng : numpy.random.Generator
    every : int
        Keep one sample in `every`.

    Returns
    -------
    inputs : numpy.ndarray
        PPG and ECG, (n, T, 2) float32.
    targets : numpy.ndarray
        Mean heart and respiratory rate of each window, per minute, (n, 2) float32.
    patient : numpy.ndarray
        Number of the patient, (n,).
    """
    inputs = []
    targets = []
    for _ in range(patients):
        patient_inputs, patient_targets = _draw_patient(windows, rng, every)
        inputs.append(patient_inputs)
        targets.append(patient_targets)
    patient = np.repeat(np.arange(patients), windows)
    return np.concatenate(inputs), np.concatenate(targets), patient


def _draw_patient(
    windows: int, rng: np.random.Generator, every: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs, shape (windows, T, 2), and targets, shape (windows, 2), of one patient."""
    samples = round((SECONDS + (windows - 1) * HOP) * RATE)
    time = np.arange(samples) / RATE
    breath_rate = rng.uniform(*BREATH) * _drift(time, rng)
    breath = np.sin(2 * np.pi * np.cumsum(breath_rate) / 60 / RATE)
    heart_rate = rng.uniform(*HEART) * _drift(time, rng) * (1 + RATE_MODULATION * breath)
    beats_so_far = np.cumsum(heart_rate) / 60 / RATE
    peaks = np.interp(np.arange(1, int(beats_so_far[-1]) + 1), beats_so_far, time)
    # Draw the waves in this order. Another order would change the data.
    ecg = _sum_waves(time, peaks, _draw_ecg_waves(rng))
    ppg = _sum_waves(time, peaks, _draw_ppg_waves(rng))
    channels = []
    for signal in (ppg, ecg):
        modulated = signal * (1 + AMPLITUDE_MODULATION * breath) + BASELINE_MODULATION * breath
        channels.append(modulated + rng.normal(0, NOISE, len(time)))
    recording = np.stack(channels, axis=1).astype(np.float32)
    rates = np.stack([heart_rate, breath_rate], axis=1)
    length = round(SECONDS * RATE)
    starts = np.round(np.arange(windows) * HOP * RATE).astype(int)
    inputs = np.stack([recording[start : start + length : every] for start in starts])
    targets = np.stack([rates[start : start + length].mean(axis=0) for start in starts])
    return inputs, targets.astype(np.float32)


def _draw_ecg_waves(rng: np.random.Generator) -> list[Wave]:
    """Return the waves of a patient's ECG, whose heights differ between patients."""
    return [wave._replace(height=wave.height * rng.uniform(0.8, 1.2)) for wave in _ECG]


def _draw_ppg_waves(rng: np.random.Generator) -> list[Wave]:
    """Return the systolic and the dicrotic wave of a patient's PPG."""
    delay = rng.uniform(0.2, 0.3)
    dicrotic = Wave(
        delay=delay + rng.uniform(0.15, 0.25),
        width=rng.uniform(0.08, 0.12),
        height=rng.uniform(0.2, 0.5),
    )
    systolic = Wave(delay=delay, width=rng.uniform(0.08, 0.12), height=1.0)
    return [systolic, dicrotic]


def _drift(time: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a factor near 1 that varies with two slow periods, one and four minutes."""
    amplitudes = _DRIFT * rng.dirichlet([1, 1])
    phases = rng.uniform(0, 2 * np.pi, 2)
    drift = np.zeros(len(time))
    for amplitude, period, phase in zip(amplitudes, _DRIFT_PERIODS, phases, strict=True):
        drift = drift + amplitude * np.sin(2 * np.pi * time / period + phase)
    return 1 + drift


def _sum_waves(time: np.ndarray, peaks: np.ndarray, waves: list[Wave]) -> np.ndarray:
    """Return a sum of Gaussian waves around every peak."""
    signal = np.zeros(len(time))
    reach = round(0.6 * RATE)
    offsets = np.arange(-reach, reach + 1)
    for wave in waves:
        centers = peaks + wave.delay
        samples = np.round(centers * RATE).astype(int)[:, None] + offsets
        distance = (samples / RATE - centers[:, None]) / wave.width
        values = wave.height * np.exp(-(distance**2) / 2)
        inside = (samples >= 0) & (samples < len(time))
        np.add.at(signal, samples[inside], values[inside])
    return signal
