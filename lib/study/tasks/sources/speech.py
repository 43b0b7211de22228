"""Speech Commands: words of a second, or tone words in files of the same names.

P. Warden, *Speech Commands: A Dataset for Limited-Vocabulary Speech Recognition*, 2018, CC BY 4.0.
The lists in the archive name the clips for validation and testing; all others train.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from study.tasks.formats.archives import members
from study.tasks.formats.sound import log_energies, log_mel
from study.tasks.formats.wav import read_wav
from study.tasks.prepared import Arrays
from study.tasks.sources._fetch import fetch, in_mirror, mirror, read_arrays
from study.tasks.sources._table import parted, reader, split_by, standardised
from study.tasks.standins.tone_words import write_clips

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
WORDS = (
    *("bed", "bird", "cat", "dog", "down", "eight", "five", "four", "go", "happy"),
    *("house", "left", "marvin", "nine", "no", "off", "on", "one", "right", "seven"),
    *("sheila", "six", "stop", "three", "tree", "two", "up", "wow", "yes", "zero"),
)
"""The thirty words of version 0.01, in alphabetical order."""
OTHERS = sorted(set(WORDS) - set(COMMANDS))
CLASSES: dict[str, dict[str, int]] = {
    # LEM's program: any other word, silence, ten commands. Silence has the background noise alone,
    # all of it in the training part.
    "lem": dict.fromkeys(sorted([*OTHERS, "backward", "follow", "forward", "learn", "visual"]), 0)
    | {"_background_noise_": 1}
    | {word: 2 + k for k, word in enumerate(COMMANDS)},
    # What EdgeML's program calls Google-12: any other word and ten commands; noise is left out.
    "edgeml": dict.fromkeys(OTHERS, 0) | {word: 1 + k for k, word in enumerate(COMMANDS)},
    "words": {word: k for k, word in enumerate(WORDS)},
}
"""Class of each word, by the program that has the classes; other words are left out."""
TEST_SET = "speech_commands_v0.02_test_12x240.npz"
SILENCE = 1
SEED, CLIPS, SPEAKERS = 12, 200, 50
STAND_IN = "tone words, made up: gliding tones of many speakers (stand-in for Speech Commands)"
LARGEST_SUM = 2**32
"""Bytes that all clips may have together: only their features are kept."""
LISTS = {"validation_list.txt": "validation", "testing_list.txt": "test"}


@reader
def keywords(archive: str, classes: str) -> dict:
    """Return clips as 126 x 80 log mel magnitudes (LEM's) or 99 x 32 log energies (EdgeML's).

    A mirror without the archive may have a part of its official test set, which has twelve classes;
    otherwise tone words stand in.
    """
    if mirror() is not None and not in_mirror("speech_commands", archive):
        if classes != "words" and in_mirror("speech_commands", TEST_SET):
            return test_clips(classes)
        return tone_words(classes, CLIPS, SPEAKERS)
    wanted = r".*/[^/]+\.wav|[a-z]+_list\.txt"
    files = members(fetch("speech_commands", archive), wanted, largest_sum=LARGEST_SUM)
    return _parts(files, classes)


@reader
def tone_words(classes: str, clips: int, speakers: int) -> dict:
    """Return the stand-in, written to files like the real set's and read by the same reader."""
    words = WORDS if classes == "words" else (*COMMANDS, "bed", "bird")
    files = write_clips(words, clips, speakers, SEED)
    return _parts(files, classes) | {"source": "made up", "substitute": STAND_IN}


def test_clips(classes: str) -> dict:
    """Return the mirror's part of the official test set of version 0.02, split by speaker.

    Parameters
    ----------
    classes
        ``lem``: twelve classes; ``edgeml``: eleven, without silence.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`. No speaker is in two parts, each with
        70, 15 and 15 per cent of them; clips of silence have none and are split at random.

    """
    file = read_arrays(fetch("speech_commands", TEST_SET))
    targets = file["label"].astype(np.int64)  # other words, silence, commands: LEM's order
    speakers = np.where(file["speaker"] == "", file["name"], file["speaker"])
    features = log_mel
    if classes == "edgeml":
        spoken = np.flatnonzero(targets != SILENCE)
        targets = np.maximum(targets[spoken] - 1, 0)
        speakers = speakers[spoken]
        features = log_energies
    else:
        spoken = np.arange(len(targets))
    clips = unpacked_clips(file["lo"][spoken], file["hi"][spoken])
    inputs = np.stack([features(clip) for clip in clips])
    parts = parted(inputs, targets, **split_by(speakers))
    if classes == "edgeml":
        parts = standardised(parts, 0)
    substitute = (
        f"{len(targets):,} clips of the official test set of version 0.02, split by speaker"
    )
    return parts | {"substitute": substitute}


def unpacked_clips(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the samples of clips that are stored as zigzag-coded first differences.

    Parameters
    ----------
    low, high
        The two bytes of each code, (n, samples) uint8.

    Returns
    -------
    numpy.ndarray
        Shape (n, samples), int16.

    """
    codes = low.astype(np.uint16) | (high.astype(np.uint16) << 8)
    signs = -(codes & 1).astype(np.int32)
    differences = ((codes >> 1) ^ signs.astype(np.uint16)).view(np.int16)
    return np.cumsum(differences, axis=1, dtype=np.int16)  # wraps, as the coding did


def _parts(files: Iterable[tuple[str, bytes]], classes: str) -> dict:
    if classes == "lem":
        return read_clips(files, CLASSES[classes], log_mel)
    return standardised(read_clips(files, CLASSES[classes], log_energies), 0)


def read_clips(
    files: Iterable[tuple[str, bytes]], classes: Mapping[str, int], features: Callable
) -> dict[str, Arrays]:
    """Return the features and classes of each part.

    Parameters
    ----------
    files
        Names and contents of clips and of the lists of validation and test clips.
    classes
        Class of each word; other words are left out.
    features
        Computes features, (T, p), from samples.

    Returns
    -------
    dict
        Features (n, T, p) and classes (n,) by part.

    Raises
    ------
    FormatError
        A clip is not a wav file of the expected form.
    """
    read: dict[str, tuple[np.ndarray, int]] = {}
    lists: dict[str, set[str]] = {}
    for name, content in files:
        word = name.split("/")[-2] if "/" in name else ""
        if name in LISTS:
            lists[LISTS[name]] = set(content.decode("utf-8-sig").split())
        elif word in classes:
            clip = "/".join(name.split("/")[-2:])
            read[clip] = features(read_wav(content, clip)), classes[word]
    parts = {"train": ([], []), "validation": ([], []), "test": ([], [])}
    for clip in sorted(read):
        part = next((part for part, names in lists.items() if clip in names), "train")
        for column, value in zip(parts[part], read[clip], strict=True):
            column.append(value)
    return {part: tuple(map(np.array, columns)) for part, columns in parts.items()}
