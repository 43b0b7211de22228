"""Sound: 16-bit wav files, and the two sets of spectral features that the texts' programs make of them.

LEM's (`log_mel`) is a mel spectrogram as librosa defines it, written here in NumPy and SciPy; that of FastGRNN's authors,
which iRNN follows (`log_energies`), is the filter bank of python_speech_features on HTK's mel scale.
"""

import io
import wave
from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import get_window

from study.tasks.formats import FormatError

RATE = 16_000
"""Samples a second of Speech Commands."""

FULL = 2**15
"""Value that stands for full loudness in 16-bit PCM."""


def read_wav(content: bytes, name: str, rate: int = RATE) -> np.ndarray:
    """Return the samples of a wav file, (n,) int16; one that is cut, or has another rate or form, is a `FormatError`.

    >>> read_wav(wav_bytes(np.array([0, -1, 32767, -32768], np.int16)), "a.wav").tolist()
    [0, -1, 32767, -32768]
    """
    try:
        with wave.open(io.BytesIO(content)) as file:
            channels, width, found, count, *_ = file.getparams()
            frames = file.readframes(count)
    except (wave.Error, EOFError) as error:
        raise FormatError(f"{name} is no wav file of 16-bit PCM ({error})") from None
    if (found, channels, 8 * width, len(frames)) != (rate, 1, 16, 2 * count):
        raise FormatError(
            f"{name}: expected {rate} samples a second, 1 channel of 16 bits, {2 * count} bytes, got {found}, {channels} of "
            f"{8 * width}, {len(frames)} bytes"
        )
    return np.frombuffer(frames, "<i2").astype(np.int16)


def wav_bytes(samples: np.ndarray, rate: int = RATE) -> bytes:
    """Return a wav file with `samples`, (n,) int16."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, rate, len(samples), "NONE", ""))
        out.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


# ------------------------------------------------------------------------------- LEM's features

FFT, HOP, BANDS, LOWEST, HIGHEST, FRAMES = 1024, 128, 80, 40.0, 8000.0, 126
_FLOOR, _RANGE = 1e-10, 80.0
"""Smallest magnitude that counts, and decibels kept below the loudest: librosa's defaults, which LEM's code takes."""


def log_mel(samples: np.ndarray) -> np.ndarray:
    """Return LEM's features of a clip of samples (n,) int16 at 16 kHz, (126, 80) float32.

    Magnitudes (power 1) of a centred transform of 1,024 samples every 128, Hann window, zeros beyond the clip; 80
    triangles of equal area on Slaney's mel scale from 40 to 8,000 Hz; decibels relative to the clip's maximum, at least
    -80; cut, or filled with zeros (0 dB), to 126 frames; mean 0 and deviation 1 over the clip. From tk-rusch/LEM,
    src/Google12/google12_data_loader.py.
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
    bend, linear, log = 1000.0, 200 / 3, np.log(6.4) / 27
    mel = np.linspace(LOWEST / linear, bend / linear + np.log(HIGHEST / bend) / log, BANDS + 2)
    above = np.maximum(mel - bend / linear, 0)
    edges = np.where(above > 0, bend * np.exp(log * above), mel * linear)
    triangles = _triangles(np.linspace(0, RATE / 2, FFT // 2 + 1), edges)
    return triangles * (2 / (edges[2:] - edges[:-2]))[:, None]


def _triangles(at: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return triangles between each edge and the one after the next, 1 at the edge between, (bands, places)."""
    low, peak, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.clip(np.minimum((at - low) / (peak - low), (high - at) / (high - peak)), 0, None)


# ------------------------------------------------------------------------------- EdgeML's features

CLIP, WINDOW, STEP, ENERGIES, STEPS, EMPHASIS = 16_000, 400, 160, 32, 99, 0.97
_ENERGY_FFT = 512
_TINY = np.finfo(float).eps, 1e-10
"""What stands for an energy of zero, and what is added before the logarithm."""


def log_energies(samples: np.ndarray) -> np.ndarray:
    """Return EdgeML's features of a clip (n,) int16 of at most a second at 16 kHz, (99, 32) float32.

    A shorter clip is filled with zeros in front. Emphasis x_n - .97 x_{n-1}; windows of 25 ms (Hamming) every 10 ms, the
    last filled with zeros; power spectrum of 512 points over 512; 32 triangles on HTK's mel scale from 0 to 8,000 Hz with
    their edges at whole points of the spectrum; logarithm. From microsoft/EdgeML, examples/pytorch/SRNN/process_google.py.
    """
    clip = np.concatenate([np.zeros(CLIP - len(samples)), samples])
    clip = np.append(clip[0], clip[1:] - EMPHASIS * clip[:-1])
    clip = np.pad(clip, (0, (STEPS - 1) * STEP + WINDOW - CLIP))
    frames = sliding_window_view(clip, WINDOW)[::STEP]
    power = np.abs(np.fft.rfft(frames * np.hamming(WINDOW), _ENERGY_FFT, axis=1)) ** 2 / _ENERGY_FFT
    energies = power @ _htk_triangles().T
    energies[energies == 0] = _TINY[0]
    return np.log(energies + _TINY[1]).astype(np.float32)


@cache
def _htk_triangles() -> np.ndarray:
    """Return the weights of the 32 bands over the spectrum's points, (32, 257)."""
    mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), ENERGIES + 2)
    edges = np.floor((_ENERGY_FFT + 1) * 700 * (10 ** (mel / 2595) - 1) / RATE)
    return _triangles(np.arange(_ENERGY_FFT // 2 + 1), edges)
