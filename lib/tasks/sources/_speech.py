"""Speech Commands: words of a second, from the publisher's archive or from tone words in an archive of the same layout.

P. Warden, *Speech Commands: A Dataset for Limited-Vocabulary Speech Recognition*, 2018, CC BY 4.0. The lists in the archive
name the clips for validation and testing; all others train.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import xarray as xr

from lib.tasks.formats import FormatError
from lib.tasks.formats.archives import members
from lib.tasks.formats.sound import read_wav
from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._fetch import fetch, in_mirror, mirror
from lib.tasks.standins.tone_words import write_archive

URL = "http://download.tensorflow.org/data/"
SHA256 = {
    "speech_commands_v0.01.tar.gz": "743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d",
    "speech_commands_v0.02.tar.gz": "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
}
COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
WORDS_30 = (
    *("bed", "bird", "cat", "dog", "down", "eight", "five", "four", "go", "happy"),
    *("house", "left", "marvin", "nine", "no", "off", "on", "one", "right", "seven"),
    *("sheila", "six", "stop", "three", "tree", "two", "up", "wow", "yes", "zero"),
)
"""The words of version 0.01, in alphabetical order."""
NOISE = "_background_noise_"
SEED, CLIPS, SPEAKERS = 12, 200, 50
STAND_IN = "tone words, made up: gliding tones of many speakers (stand-in for Speech Commands)"
LISTS = {"validation_list.txt": "validation", "testing_list.txt": "test"}

Features = Callable[[np.ndarray, str], np.ndarray]
Clips = dict[str, tuple[np.ndarray, np.ndarray]]


def keywords(
    name: str,
    archive: str,
    classes: Mapping[str, int],
    features: Features,
    standardise: Callable[..., list[np.ndarray]] | None,
    made_up: tuple[str, ...],
) -> xr.Dataset:
    """Return clips as features and classes.

    Parameters
    ----------
    name
        The data set's name.
    archive
        Its file at the publisher's.
    classes
        Class of each word; other words are left out.
    features
        Makes (T, p) of a clip's samples and its name.
    standardise
        What is done to all three parts together, or None.
    made_up
        The words of the stand-in, which takes the place of the archive where a mirror is set and does not hold it.
    """
    path = f"speech_commands/{archive}"
    if mirror() is not None and not in_mirror(path):
        return made_up_keywords(name, classes, features, standardise, made_up, CLIPS, SPEAKERS)
    file = fetch(path, SHA256[archive], URL + archive)
    return _prepared(name, read_clips(file, classes, features), classes, standardise, "")


def made_up_keywords(
    name: str,
    classes: Mapping[str, int],
    features: Features,
    standardise: Callable[..., list[np.ndarray]] | None,
    words: tuple[str, ...],
    clips: int,
    speakers: int,
) -> xr.Dataset:
    """Return tone words, written to an archive of the real one's layout and read by the same reader."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_archive(Path(folder) / "tone_words.tar", words, clips, speakers, SEED)
        read = read_clips(file, classes, features)
    return _prepared(name, read, classes, standardise, STAND_IN)


def read_clips(archive: Path, classes: Mapping[str, int], features: Features) -> Clips:
    """Return features and classes of the parts ``train``, ``validation`` and ``test``.

    Raises
    ------
    FormatError
        A clip has another rate or form, a list is missing, or a part has no clip.
    """
    made: dict[str, tuple[np.ndarray, int]] = {}
    lists: dict[str, set[str]] = {}
    for name, content in members(archive, r".*/[^/]+\.wav|[a-z]+_list\.txt"):
        word = name.split("/")[-2] if "/" in name else ""
        if name in LISTS:
            lists[LISTS[name]] = set(content.decode("utf-8").split())
        elif word in classes:
            clip = "/".join(name.split("/")[-2:])
            made[clip] = features(read_wav(content, clip), clip), classes[word]
    if missing := sorted(set(LISTS.values()) - set(lists)):
        raise FormatError(f"{archive.name}: the list of {missing[0]} clips is missing")
    parts = {"train": [], "validation": [], "test": []}
    for clip in sorted(made):
        part = next((part for part, names in lists.items() if clip in names), "train")
        parts[part].append(clip)
    for part, clips in parts.items():
        if not clips:
            raise FormatError(f"{archive.name}: no clip of a known word is for {part}")
    return {
        part: (
            np.stack([made[clip][0] for clip in clips]),
            np.array([made[clip][1] for clip in clips]),
        )
        for part, clips in parts.items()
    }


def _prepared(
    name: str,
    parts: Clips,
    classes: Mapping[str, int],
    standardise: Callable[..., list[np.ndarray]] | None,
    substitute: str,
) -> xr.Dataset:
    names = ("train", "validation", "test")
    inputs = [parts[part][0] for part in names]
    if standardise is not None:
        inputs = standardise(*inputs)
    train, validation, test = zip(inputs, (parts[part][1] for part in names), strict=True)
    return prepared_dataset(
        name,
        train,
        test,
        validation=validation,
        kind="series",
        source="made up" if substitute else "Warden: Speech Commands, 2018",
        outputs=max(classes.values()) + 1,
        substitute=substitute,
    )


def lem_classes() -> dict[str, int]:
    """Return the twelve classes of LEM's program: any other word, silence, ten commands.

    Silence has the recordings of background noise alone, all of them in the training part.
    """
    others = {*WORDS_30, "backward", "follow", "forward", "learn", "visual"} - set(COMMANDS)
    commands = {word: 2 + k for k, word in enumerate(COMMANDS)}
    return dict.fromkeys(sorted(others), 0) | {NOISE: 1} | commands


def edgeml_classes() -> dict[str, int]:
    """Return the classes that EdgeML's program calls Google-12: any other word and ten commands; noise is left out."""
    commands = {word: 1 + k for k, word in enumerate(COMMANDS)}
    return dict.fromkeys(sorted(set(WORDS_30) - set(COMMANDS)), 0) | commands
