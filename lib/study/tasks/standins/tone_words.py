"""Tone words: a stand-in for Speech Commands, clips of one second in files of the same names.

A word is a sum of two or three tones that glide from one frequency to another. All clips of a word
have the same tones. Speakers differ in pitch and speed; clips differ in position, loudness and
noise. `write_clips` yields files like those in the archive of Speech Commands.
"""

from collections.abc import Iterator

import numpy as np

from study.tasks.formats.wav import FULL, RATE, wav_bytes

_LISTS = ("validation_list.txt", "testing_list.txt")
_NOISE = "_background_noise_"


def write_clips(
    words: tuple[str, ...], clips: int, speakers: int, seed: int
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the stand-in: clips, and the lists of validation and test clips.

    Each clip has its own seed, so that more words or more clips don't change the others.

    Parameters
    ----------
    words : tuple of str
    clips : int
        Clips per word.
    speakers : int
        Number of speakers. A tenth of them is for validation and a tenth for testing, at least one
        each.
    seed : int

    Yields
    ------
    name : str
        For a clip ``<word>/<speaker>_nohash_<k>.wav``.
    content : bytes
    """
    speakers_per_list = max(1, speakers // 10)
    lists: tuple[list[str], list[str]] = ([], [])
    for index, word in enumerate(words):
        glides = _glides(np.random.default_rng([seed, index]))
        for clip in range(clips):
            speaker = clip % speakers
            name = f"{word}/{speaker:08x}_nohash_{clip // speakers}.wav"
            rng = np.random.default_rng([seed, index, clip])
            yield name, wav_bytes(_clip(glides, _voice(seed, speaker), rng))
            list_number = speaker // speakers_per_list
            if list_number < len(lists):
                lists[list_number].append(name)
    for k in range(2):
        noise = np.random.default_rng([seed, len(words), k]).normal(0, 0.05 * FULL, 3 * RATE)
        yield f"{_NOISE}/noise_{k}.wav", wav_bytes(noise.astype(np.int16))
    for name, members in zip(_LISTS, lists, strict=True):
        yield name, "".join(f"{member}\n" for member in members).encode()


def _glides(rng: np.random.Generator) -> np.ndarray:
    """Return the tones of a word, (2 or 3, 3): first frequency, last frequency, loudness."""
    count = rng.integers(2, 4)
    ends = np.exp(rng.uniform(np.log(250), np.log(3500), (count, 2)))
    return np.column_stack([ends, rng.uniform(0.4, 1, count)])


def _voice(seed: int, speaker: int) -> tuple[float, float]:
    """Return the factors of a speaker's pitch and speed."""
    rng = np.random.default_rng([seed, 2**20, speaker])
    return float(np.exp(rng.normal(0, 0.08))), float(np.exp(rng.normal(0, 0.15)))


def _clip(glides: np.ndarray, voice: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """Return one second with the word somewhere in it, (16000,) int16."""
    pitch, speed = voice
    length = int(RATE * np.clip(0.5 / speed * np.exp(rng.normal(0, 0.1)), 0.25, 0.9))
    progress = np.arange(length) / length
    pitch = pitch * np.exp(rng.normal(0, 0.03))
    sound = np.zeros(length)
    for first, last, loudness in glides:
        phase = 2 * np.pi * np.cumsum(pitch * first * (last / first) ** progress) / RATE
        sound += loudness * np.sin(phase + rng.uniform(0, 2 * np.pi))
    sound *= np.sin(np.pi * progress) / len(glides) * rng.uniform(0.1, 0.5)
    clip = rng.normal(0, 10 ** rng.uniform(-3, -1.5), RATE)
    start = rng.integers(0, RATE - length + 1)
    clip[start : start + length] += sound
    return np.clip(clip * FULL, -FULL, FULL - 1).astype(np.int16)
