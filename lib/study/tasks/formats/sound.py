"""The two kinds of spectral features that the papers' programs compute from sound.

`log_mel` computes LEM's features: a mel spectrogram as librosa defines it, in NumPy and SciPy.
`log_energies` computes the features of FastGRNN's authors, which iRNN also uses: the filter bank of
python_speech_features, on HTK's mel scale.
"""

from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import get_window

from study.tasks.formats.wav import FULL, RATE

# LEM's features.
FFT = 1024
HOP = 128
BANDS = 80
LOWEST = 40.0
"""Lower end of the lowest band, in Hz."""
HIGHEST = 8000.0
"""Upper end of the highest band, in Hz."""
FRAMES = 126
_FLOOR = 1e-10
"""Smaller magnitudes are raised to this: librosa's default, which LEM's code uses."""
_RANGE = 80.0
"""Smallest level, in decibels below the loudest: librosa's default, which LEM's code uses."""


def log_mel(samples: np.ndarray) -> np.ndarray:
    """Return LEM's features of a clip.

    From tk-rusch/LEM, src/Google12/google12_data_loader.py:

    1. Magnitudes (not their squares) of centered Fourier transforms of 1,024 samples every 128
       samples, with a Hann window, and zeros beyond the clip.
    2. 80 triangles of equal area on Slaney's mel scale from 40 to 8,000 Hz.
    3. Decibels relative to the clip's maximum, at least -80.
    4. Truncated, or padded with zeros (0 dB), to 126 frames.
    5. Standardized to mean 0 and standard deviation 1 over the clip.

    Parameters
    ----------
    samples : numpy.ndarray
        Shape (n,), int16, at 16 kHz.

    Returns
    -------
    numpy.ndarray
        Shape (frames = 126, bands = 80), float32.
    """
    frames = sliding_window_view(np.pad(samples / FULL, FFT // 2), FFT)[::HOP]
    magnitude = np.abs(np.fft.rfft(frames * get_window("hann", FFT), axis=1))
    decibels = 10 * np.log10(np.maximum(magnitude @ _slaney_triangles().T, _FLOOR))
    decibels = np.maximum(decibels - decibels.max(), -_RANGE)[:FRAMES]
    features = np.zeros((FRAMES, BANDS))
    features[: len(decibels)] = decibels
    deviation = features.std(ddof=1)
    return ((features - features.mean()) / (deviation or 1)).astype(np.float32)


@cache
def _slaney_triangles() -> np.ndarray:
    """Return the weights of the bands over the transform's frequencies, (80, 513)."""
    # Slaney's scale: a mel every 200/3 Hz up to 1,000 Hz, then 27 mels for a factor of 6.4.
    bend = 1000.0
    linear = 200 / 3
    log = np.log(6.4) / 27
    mel = np.linspace(LOWEST / linear, bend / linear + np.log(HIGHEST / bend) / log, BANDS + 2)
    above = np.maximum(mel - bend / linear, 0)
    edges = np.where(above > 0, bend * np.exp(log * above), mel * linear)
    triangles = _triangles(np.linspace(0, RATE / 2, FFT // 2 + 1), edges)
    return triangles * (2 / (edges[2:] - edges[:-2]))[:, None]


def _triangles(frequencies: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return a triangular weight function for each band, (bands, frequencies).

    The triangle of band k rises from 0 at edge k to 1 at edge k + 1, and falls to 0 at edge k + 2.
    """
    low = edges[:-2, None]
    peak = edges[1:-1, None]
    high = edges[2:, None]
    rising = (frequencies - low) / (peak - low)
    falling = (high - frequencies) / (high - peak)
    return np.clip(np.minimum(rising, falling), 0, None)


# EdgeML's features.
CLIP = 16_000
WINDOW = 400
STEP = 160
ENERGIES = 32
STEPS = 99
EMPHASIS = 0.97
_ENERGY_FFT = 512
_ZERO_ENERGY = np.finfo(float).eps
"""Replaces an energy of zero."""
_ADDED = 1e-10
"""Added to an energy before the logarithm."""


def log_energies(samples: np.ndarray) -> np.ndarray:
    """Return EdgeML's features of a clip.

    From microsoft/EdgeML, examples/pytorch/SRNN/process_google.py:

    1. A clip shorter than a second is padded with zeros in front.
    2. Emphasis of high frequencies: x_n - .97 x_{n-1}.
    3. Hamming windows of 25 ms every 10 ms; the last one is padded with zeros.
    4. Power spectrum of 512 points, divided by 512.
    5. 32 triangles on HTK's mel scale from 0 to 8,000 Hz, with edges at points of the spectrum.
    6. Logarithm.

    Parameters
    ----------
    samples : numpy.ndarray
        Shape (n,), int16, at 16 kHz, at most one second.

    Returns
    -------
    numpy.ndarray
        Shape (windows = 99, bands = 32), float32.
    """
    clip = np.concatenate([np.zeros(CLIP - len(samples)), samples])
    clip = np.append(clip[0], clip[1:] - EMPHASIS * clip[:-1])
    clip = np.pad(clip, (0, (STEPS - 1) * STEP + WINDOW - CLIP))
    frames = sliding_window_view(clip, WINDOW)[::STEP]
    power = np.abs(np.fft.rfft(frames * np.hamming(WINDOW), _ENERGY_FFT, axis=1)) ** 2 / _ENERGY_FFT
    energies = power @ _htk_triangles().T
    energies[energies == 0] = _ZERO_ENERGY
    return np.log(energies + _ADDED).astype(np.float32)


@cache
def _htk_triangles() -> np.ndarray:
    """Return the weights of the 32 bands over the spectrum's points, (32, 257)."""
    mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), ENERGIES + 2)
    edges = np.floor((_ENERGY_FFT + 1) * 700 * (10 ** (mel / 2595) - 1) / RATE)
    return _triangles(np.arange(_ENERGY_FFT // 2 + 1), edges)
