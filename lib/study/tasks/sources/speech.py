"""Speech Commands: spoken words of one second, or tone words as a stand-in.

P. Warden, *Speech Commands: A Dataset for Limited-Vocabulary Speech Recognition*, 2018, CC BY 4.0.
Two lists in the archive name the clips for validation and for testing; all others are for training.
The stand-in consists of files with the same names.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from study.tasks.formats.archives import members
from study.tasks.formats.sound import log_energies, log_mel
from study.tasks.formats.wav import read_wav
from study.tasks.prepared import RawSplit
from study.tasks.sources._fetch import fetch, in_mirror, mirror, read_arrays
from study.tasks.sources._table import reader, select_splits, split_by_group, standardize_splits
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
    # LEM's program: 0 for any other word, 1 for silence, then ten commands. Silence consists of the
    # background noise, which is in the training split.
    "lem": dict.fromkeys(sorted([*OTHERS, "backward", "follow", "forward", "learn", "visual"]), 0)
    | {"_background_noise_": 1}
    | {word: 2 + k for k, word in enumerate(COMMANDS)},
    # EdgeML's program ("Google-12"): 0 for any other word, then ten commands. Noise is left out.
    "edgeml": dict.fromkeys(OTHERS, 0) | {word: 1 + k for k, word in enumerate(COMMANDS)},
    "words": {word: k for k, word in enumerate(WORDS)},
}
"""Class of each word, by the program that uses these classes; other words are left out."""
TEST_SET = "speech_commands_v0.02_test_12x240.npz"
SILENCE = 1
"""Class of silence in the mirror's test set."""
SEED = 12
CLIPS = 200
"""Clips per word of the stand-in."""
SPEAKERS = 50
"""Speakers of the stand-in."""
STAND_IN = "tone words, made up: gliding tones of many speakers (stand-in for Speech Commands)"
LARGEST_SUM = 2**32
"""Largest number of bytes of all clips together. Only their features stay in memory."""
LISTS = {"validation_list.txt": "validation", "testing_list.txt": "test"}


@reader
def keywords(archive: str, classes: str) -> dict:
    """Read clips as 126 x 80 log mel magnitudes (LEM's) or 99 x 32 log energies (EdgeML's).

    A mirror without the archive may have some clips of its official test set, which has twelve
    classes. If it has none, tone words replace the data.

    Parameters
    ----------
    archive : str
        Name of the publisher's file.
    classes : str
        ``lem``, ``edgeml`` or ``words``: a key of `CLASSES`. Only ``lem`` selects LEM's features.

    Returns
    -------
    dict
        Keywords of `study.tasks.prepared.prepared_dataset`: ``train``, ``validation`` and ``test``,
        inputs (n, T, p) and classes (n,); and ``substitute`` if the data are not the publisher's.
    """
    if mirror() is not None and not in_mirror("speech_commands", archive):
        if classes != "words" and in_mirror("speech_commands", TEST_SET):
            return test_clips(classes)
        return tone_words(classes, CLIPS, SPEAKERS)
    wanted = r".*/[^/]+\.wav|[a-z]+_list\.txt"
    files = members(fetch("speech_commands", archive), wanted, largest_sum=LARGEST_SUM)
    return _read_splits(files, classes)


@reader
def tone_words(classes: str, clips: int, speakers: int) -> dict:
    """Make the stand-in: files like those of Speech Commands, read by the same code.

    Parameters
    ----------
    classes : str
        As in `keywords`.
    clips : int
        Clips per word.
    speakers : int
        Number of speakers.

    Returns
    -------
    dict
        As `keywords`.
    """
    words = (*COMMANDS, "bed", "bird")
    if classes == "words":
        words = WORDS
    files = write_clips(words, clips, speakers, SEED)
    return _read_splits(files, classes) | {"source": "made up", "substitute": STAND_IN}


def test_clips(classes: str) -> dict:
    """Read the mirror's clips of the official test set of version 0.02, split by speaker.

    Parameters
    ----------
    classes : str
        ``lem``: twelve classes; ``edgeml``: eleven, without silence.

    Returns
    -------
    dict
        As `keywords`. The splits have 70, 15 and 15 percent of the speakers. Clips of silence have
        no speaker and are split at random.
    """
    file = read_arrays(fetch("speech_commands", TEST_SET))
    targets = file["label"].astype(np.int64)  # LEM's classes
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
    splits = select_splits(inputs, targets, **split_by_group(speakers))
    if classes == "edgeml":
        splits = standardize_splits(splits, 0)
    substitute = (
        f"{len(targets):,} clips of the official test set of version 0.02, split by speaker"
    )
    return splits | {"substitute": substitute}


def unpacked_clips(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Decode clips that are stored as zigzag-coded first differences.

    Parameters
    ----------
    low, high : numpy.ndarray
        The two bytes of each code, (n, samples) uint8.

    Returns
    -------
    numpy.ndarray
        The samples, (n, samples) int16.
    """
    codes = low.astype(np.uint16) | (high.astype(np.uint16) << 8)
    signs = -(codes & 1).astype(np.int32)
    differences = ((codes >> 1) ^ signs.astype(np.uint16)).view(np.int16)
    return np.cumsum(differences, axis=1, dtype=np.int16)  # wraps, as the coding did


def _read_splits(files: Iterable[tuple[str, bytes]], classes: str) -> dict[str, RawSplit]:
    """Read clips, and compute LEM's features for LEM's classes, else EdgeML's features."""
    if classes == "lem":
        return read_clips(files, CLASSES[classes], log_mel)
    return standardize_splits(read_clips(files, CLASSES[classes], log_energies), 0)


def read_clips(
    files: Iterable[tuple[str, bytes]], classes: Mapping[str, int], features: Callable
) -> dict[str, RawSplit]:
    """Read clips, and return the features and classes of each split.

    Parameters
    ----------
    files : iterable of (str, bytes)
        Names and contents of the clips and of the lists of validation and test clips.
    classes : mapping of str to int
        Class of each word; other words are left out.
    features : callable
        Computes features (T, p) from samples (n,).

    Returns
    -------
    dict of str to RawSplit
        Features (n, T, p) and classes (n,) by name of the split.

    Raises
    ------
    FormatError
        A clip is not a wav file of the expected form.
    """
    features_of: dict[str, np.ndarray] = {}
    class_of: dict[str, int] = {}
    clips_of_split: dict[str, set[str]] = {}
    for name, content in files:
        word = ""
        if "/" in name:
            word = name.split("/")[-2]
        if name in LISTS:
            clips_of_split[LISTS[name]] = set(content.decode("utf-8-sig").split())
        elif word in classes:
            clip = "/".join(name.split("/")[-2:])
            features_of[clip] = features(read_wav(content, clip))
            class_of[clip] = classes[word]
    members: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for clip in sorted(features_of):
        in_lists = (split for split, names in clips_of_split.items() if clip in names)
        members[next(in_lists, "train")].append(clip)
    splits = {}
    for split, clips in members.items():
        inputs = np.array([features_of[clip] for clip in clips])
        targets = np.array([class_of[clip] for clip in clips])
        splits[split] = RawSplit(inputs, targets)
    return splits
