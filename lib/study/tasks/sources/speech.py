"""Speech Commands: words of a second, from the publisher's archive or tone words in files of the same names.

P. Warden, *Speech Commands: A Dataset for Limited-Vocabulary Speech Recognition*, 2018, CC BY 4.0. The lists in the archive
name the clips for validation and testing; all others train.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from study.tasks.formats.archives import members
from study.tasks.formats.sound import log_energies, log_mel, read_wav
from study.tasks.prepared import Arrays
from study.tasks.sources._fetch import fetch, in_mirror, mirror
from study.tasks.sources._table import reader, standardised
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
    # LEM's program: any other word, silence, ten commands. Silence has the background noise alone, all of it in the training part.
    "lem": dict.fromkeys(sorted([*OTHERS, "backward", "follow", "forward", "learn", "visual"]), 0)
    | {"_background_noise_": 1}
    | {word: 2 + k for k, word in enumerate(COMMANDS)},
    # What EdgeML's program calls Google-12: any other word and ten commands; noise is left out.
    "edgeml": dict.fromkeys(OTHERS, 0) | {word: 1 + k for k, word in enumerate(COMMANDS)},
    "words": {word: k for k, word in enumerate(WORDS)},
}
"""Class of each word, by the program that has the classes; other words are left out."""
SEED, CLIPS, SPEAKERS = 12, 200, 50
STAND_IN = "tone words, made up: gliding tones of many speakers (stand-in for Speech Commands)"
LISTS = {"validation_list.txt": "validation", "testing_list.txt": "test"}


@reader
def keywords(archive: str, classes: str) -> dict:
    """Return clips as 126 x 80 log mel magnitudes (LEM's) or 99 x 32 log energies (EdgeML's), or tone words."""
    if mirror() is not None and not in_mirror("speech_commands", archive):
        return tone_words(classes, CLIPS, SPEAKERS)
    wanted = r".*/[^/]+\.wav|[a-z]+_list\.txt"
    return _parts(members(fetch("speech_commands", archive), wanted), classes)


@reader
def tone_words(classes: str, clips: int, speakers: int) -> dict:
    """Return the stand-in, written to files as the real set has them and read by the same reader."""
    words = WORDS if classes == "words" else (*COMMANDS, "bed", "bird")
    files = write_clips(words, clips, speakers, SEED)
    return _parts(files, classes) | {"source": "made up", "substitute": STAND_IN}


def _parts(files: Iterable[tuple[str, bytes]], classes: str) -> dict:
    if classes == "lem":
        return read_clips(files, CLASSES[classes], log_mel)
    return standardised(read_clips(files, CLASSES[classes], log_energies), 0)


def read_clips(
    files: Iterable[tuple[str, bytes]], classes: Mapping[str, int], features: Callable
) -> dict[str, Arrays]:
    """Return each part's features, (T, p) of a clip's samples, and classes, of clips and lists by name; a wrong clip is a `FormatError`."""
    read: dict[str, tuple[np.ndarray, int]] = {}
    lists: dict[str, set[str]] = {}
    for name, content in files:
        word = name.split("/")[-2] if "/" in name else ""
        if name in LISTS:
            lists[LISTS[name]] = set(content.decode("utf-8").split())
        elif word in classes:
            clip = "/".join(name.split("/")[-2:])
            read[clip] = features(read_wav(content, clip)), classes[word]
    parts = {"train": ([], []), "validation": ([], []), "test": ([], [])}
    for clip in sorted(read):
        part = next((part for part, names in lists.items() if clip in names), "train")
        for column, value in zip(parts[part], read[clip], strict=True):
            column.append(value)
    return {part: tuple(map(np.array, columns)) for part, columns in parts.items()}
