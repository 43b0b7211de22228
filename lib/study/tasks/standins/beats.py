"""Beats, a stand-in for BIDMC: windows of an ECG and a PPG with known heart and breathing rates.

Every patient has a heart rate, a respiratory rate and pulse shapes of their own; both rates wander
slowly by some per cent, so that the windows of one patient do not all have one target.
"""

import numpy as np

SECONDS, HOP, RATE = 32.0, 3.2, 125.0
"""Length of a window, time from one to the next, and samples a second."""
HEART, BREATH = (50.0, 130.0), (8.0, 30.0)
"""Beats and breaths a minute, between which patients lie."""
OF_RATE, OF_AMPLITUDE, OF_BASELINE, NOISE = 0.03, 0.2, 0.3, 0.05
"""What breathing changes, as shares of heart rate and amplitude and as height, and the noise's
deviation.
"""
_WANDER = 0.05
"""Largest slow departure of a patient's rates from their mean, as a share."""
_ECG = (
    *((-0.20, 0.025, 0.15), (-0.025, 0.01, -0.12), (0.0, 0.012, 1.0)),
    *((0.028, 0.011, -0.25), (0.26, 0.045, 0.3)),
)
"""Waves P, Q, R, S, T of a heartbeat: seconds from its peak, width in seconds, height."""


def beats(
    patients: int, windows: int, rng: np.random.Generator, every: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw `windows` windows of each of `patients` patients, and keep one sample of `every`.

    Returns inputs (n, T, 2), PPG and ECG; targets (n, 2), mean heart and respiratory rate a minute;
    patient (n,).
    """
    parts = [_patient(windows, rng, every) for _ in range(patients)]
    inputs, targets = map(np.concatenate, zip(*parts, strict=True))
    return inputs, targets, np.repeat(np.arange(patients), windows)


def _patient(windows: int, rng: np.random.Generator, every: int) -> tuple[np.ndarray, np.ndarray]:
    time = np.arange(round((SECONDS + (windows - 1) * HOP) * RATE)) / RATE
    breath_rate = rng.uniform(*BREATH) * _wandering(time, rng)
    breath = np.sin(2 * np.pi * np.cumsum(breath_rate) / 60 / RATE)
    heart_rate = rng.uniform(*HEART) * _wandering(time, rng) * (1 + OF_RATE * breath)
    phase = np.cumsum(heart_rate) / 60 / RATE
    peaks = np.interp(np.arange(1, int(phase[-1]) + 1), phase, time)
    ecg = _pulses(
        time, peaks, [(at, width, height * rng.uniform(0.8, 1.2)) for at, width, height in _ECG]
    )
    delay = rng.uniform(0.2, 0.3)
    later = delay + rng.uniform(0.15, 0.25), rng.uniform(0.08, 0.12), rng.uniform(0.2, 0.5)
    ppg = _pulses(time, peaks, [(delay, rng.uniform(0.08, 0.12), 1.0), later])
    signals = [
        signal * (1 + OF_AMPLITUDE * breath)
        + OF_BASELINE * breath
        + rng.normal(0, NOISE, len(time))
        for signal in (ppg, ecg)
    ]
    recording = np.stack(signals, axis=1).astype(np.float32)
    starts = np.round(np.arange(windows) * HOP * RATE).astype(int)
    length = round(SECONDS * RATE)
    inputs = np.stack([recording[start : start + length : every] for start in starts])
    rates = np.stack([heart_rate, breath_rate], axis=1)
    targets = np.stack([rates[start : start + length].mean(axis=0) for start in starts])
    return inputs, targets.astype(np.float32)


def _wandering(time: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a factor near 1 with two slow periods, one and four minutes."""
    shares = _WANDER * rng.dirichlet([1, 1])
    phases = rng.uniform(0, 2 * np.pi, 2)
    return 1 + sum(
        share * np.sin(2 * np.pi * time / period + phase)
        for share, period, phase in zip(shares, (60, 240), phases, strict=True)
    )


def _pulses(time: np.ndarray, peaks: np.ndarray, waves: list[tuple]) -> np.ndarray:
    """Return a sum of Gaussians around every peak: waves of (seconds after it, width, height)."""
    signal, reach = np.zeros(len(time)), round(0.6 * RATE)
    window = np.arange(-reach, reach + 1)
    for at, width, height in waves:
        centres = peaks + at
        places = np.round(centres * RATE).astype(int)[:, None] + window
        values = height * np.exp(-(((places / RATE - centres[:, None]) / width) ** 2) / 2)
        inside = (places >= 0) & (places < len(time))
        np.add.at(signal, places[inside], values[inside])
    return signal
