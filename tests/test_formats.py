"""Readers of file formats: what they give for small files written by hand, and how they refuse bad ones."""

import io
import math
import struct
import wave

import numpy as np
import pytest
from archives import tarred, zipped
from refusals import refused
from study.tasks.formats import FormatError, archives
from study.tasks.formats.archives import member, members
from study.tasks.formats.series import read_ts, ts_lines
from study.tasks.formats.sound import log_energies, log_mel, read_wav, wav_bytes
from study.tasks.sources._table import standardised

HEADER = """# a comment
@ProblemName toy
@TIMESTAMPS false
@univariate false
@dimensions 2
@equalLength true
@seriesLength 3
@classLabel true up Down
@DATA
"""


def _read(text):
    return read_ts({"toy.ts": io.StringIO(text)})


def test_files_become_series():
    series = _read(HEADER + "1,2,3:-1,-2e0,.5:Down\n\n# another comment\n4,5,6: 7,8,9 :up\n")
    assert (series.inputs.dtype, series.targets.dtype) == (np.float32, np.int64)
    assert series.inputs.tolist() == [[[1, -1], [2, -2], [3, 0.5]], [[4, 7], [5, 8], [6, 9]]]
    assert (series.targets.tolist(), series.labels) == ([1, 0], ("up", "Down"))
    again = _read("\n".join(ts_lines(series)))
    assert np.array_equal(again.inputs, series.inputs) and again.labels == series.labels
    assert np.array_equal(again.targets, series.targets)


@pytest.mark.parametrize("archive", [zipped, tarred])
def test_wanted_members_are_read_and_nothing_is_extracted(archive, tmp_path, monkeypatch):
    path = tmp_path / "a.archive"
    path.write_bytes(archive({"./x/a.ts": b"A", "x/b.txt": b"B", "x/c.ts": b"C" * 10}))
    assert dict(members(path, r"x/.*\.ts")) == {"x/a.ts": b"A", "x/c.ts": b"C" * 10}
    assert member(path, "b.txt") == b"B"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FormatError, match=r"there is no .ts in it"):
        member(path, ".ts")
    monkeypatch.setattr(archives, "LARGEST", 9)
    with pytest.raises(FormatError, match=r"x/c.ts has more than the 9 bytes"):
        member(path, "x/c.ts")
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(FormatError, match=r"expected a zip or tar archive, found something else"):
        member(path, "x/b.txt")


def test_a_size_that_is_understated_is_found_and_links_are_passed_over():
    content = zipped({"a.ts": bytes(1000)}).replace(struct.pack("<I", 1000), struct.pack("<I", 10))
    with pytest.raises(FormatError):  # its checksum, or its size: either way it is not given out
        list(members(content, "a.ts", "a.zip"))
    assert list(members(tarred({"a.ts": "/etc/hostname"}), ".*", "a.tar")) == []


def _stereo():
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((2, 2, 16000, 1, "NONE", ""))
        out.writeframes(bytes(4))
    return file.getvalue()


def _clip(n, seed=0):
    return (np.random.default_rng(seed).normal(size=n) * 3000).astype(np.int16)


def _mel_by_definition(samples, frame, band):
    """Magnitude in a band by explicit sums: a transform by its definition, a triangle by its corners."""
    low, high = 40 * 3 / 200, 15 + 27 * math.log(8) / math.log(6.4)
    corners = [low + (high - low) * (band + k) / 81 for k in range(3)]
    hertz = [m * 200 / 3 if m < 15 else 1000 * 6.4 ** ((m - 15) / 27) for m in corners]
    total, n = 0.0, np.arange(1024)
    at = 128 * frame - 512 + n
    inside = (at >= 0) & (at < len(samples))
    x = np.where(inside, samples[np.clip(at, 0, len(samples) - 1)] / 2**15, 0)
    x *= 0.5 - 0.5 * np.cos(2 * np.pi * n / 1024)
    for k in range(513):
        f = k * 16000 / 1024
        rise, fall = (f - hertz[0]) / (hertz[1] - hertz[0]), (hertz[2] - f) / (hertz[2] - hertz[1])
        weight = max(0, min(rise, fall)) * 2 / (hertz[2] - hertz[0])
        total += weight * abs(np.sum(x * np.exp(-2j * np.pi * k * n / 1024)))
    return total


def test_log_mel_is_its_definition_filled_with_the_maximum_or_cut():
    samples = _clip(16000)
    features, short = log_mel(samples), log_mel(_clip(8000))
    assert features.shape == log_mel(_clip(40000)).shape == (126, 80)
    assert (features.mean(), features.std(ddof=1)) == pytest.approx((0, 1), abs=1e-6)
    # Standardising is one line for the whole clip: differences of decibels have one ratio.
    places = [(0, 5), (3, 40), (60, 79), (125, 60)]
    decibels = [10 * math.log10(_mel_by_definition(samples, *place)) for place in places]
    ratios = np.diff(decibels) / np.diff([features[place] for place in places])
    assert np.allclose(ratios, ratios[0], rtol=1e-4)
    assert (short[63:] == short.max()).all()  # 0 dB, as LEM's code has it
    assert np.all(log_mel(np.zeros(16000, np.int16)) == 0)


def _energy_by_definition(samples, frame, band):
    clip = np.concatenate([np.zeros(16000 - len(samples)), samples, np.zeros(400)])
    clip[1:16000] -= 0.97 * clip[:15999].copy()
    top = 2595 * math.log10(1 + 8000 / 700)
    powers = [10 ** (top * (band + k) / 33 / 2595) for k in range(3)]
    edges = [math.floor(513 * 700 * (power - 1) / 16000) for power in powers]
    n = np.arange(400)
    x = clip[160 * frame + n] * (0.54 - 0.46 * np.cos(2 * np.pi * n / 399))
    total = 0.0
    for k in range(edges[0], edges[2]):
        rising = k < edges[1]
        weight = (k - edges[0] if rising else edges[2] - k) / abs(edges[1] - edges[2 - 2 * rising])
        total += weight * abs(np.sum(x * np.exp(-2j * np.pi * k * n / 512))) ** 2 / 512
    return math.log(total + 1e-10)


@pytest.mark.parametrize("n", [16000, 12345])
def test_log_energies_are_their_definition(n):
    samples = _clip(n, seed=1)
    features = log_energies(samples)
    assert features.shape == (99, 32)
    for place in [(50, 0), (70, 13), (98, 31), (97, 20)]:
        assert features[place] == pytest.approx(_energy_by_definition(samples, *place), abs=1e-4)


def test_standardising_uses_the_training_part_alone():
    train, other = np.array([[[1.0, 5.0]], [[3.0, 5.0]]]), np.array([[[4.0, 6.0]]])
    found = standardised({"train": (train, 0), "test": (other, 1)}, 0)
    assert (found["train"][0].tolist(), found["train"][1]) == ([[[-1, 0]], [[1, 0]]], 0)
    assert (found["test"][0].tolist(), found["test"][1]) == ([[[2, 1]]], 1)


BAD_SERIES = [
    (HEADER + "1:2:up\n1:up\n", "toy.ts, line 11: expected dimensions as many .*1 dimensions of 1"),
    (HEADER + "1,2,3:4,5:up\n", r"line 10: .*got 'dimensions of \[3, 2\] values"),
    (HEADER + "1:2:up\n1,2:3,4:up\n", "line 11: .*got '2 dimensions of 2 values"),
    (HEADER + "1,2,3:4,5,6:left\n", r"line 10: .*header names .up, Down.; got .*'left'"),
    (HEADER + "up\n", r"line 10: .*got 'dimensions of \[\] values"),
    (HEADER + "1,2,3:4,?,6:up\n", r"line 10: .* to float: '\?'"),
    (HEADER + "1,2,3:4,nan,6:up\n", "line 10: .*got 'a value that is infinite or nan"),
    (HEADER, "toy.ts: there is no case in it; the file is cut"),
    (HEADER.replace("classLabel true", "classLabel false"), "line 8: .*got '@classLabel false"),
    ("1,2:up\n" + HEADER, "toy.ts, line 1: .*'up' is not in list"),
]
BAD_SOUND = [
    (wav_bytes(np.zeros(3), rate=44100), "a.wav: expected 16000 samples .* got 44100"),
    (_stereo(), "1 channel of 16 bits.* got 16000, 2 of 16"),
    (b"RIFF", "a.wav is no wav file of 16-bit PCM"),
    (b"no wav file at all, but text", "a.wav is no wav file of 16-bit PCM"),
    (wav_bytes(np.zeros(30))[:-20], "a.wav: expected .* 60 bytes, got .* 40 bytes"),
]

test_what_is_no_file_of_its_format_is_refused = refused(
    FormatError,
    *((sentence, lambda text=text: _read(text)) for text, sentence in BAD_SERIES),
    *((sentence, lambda sound=sound: read_wav(sound, "a.wav")) for sound, sentence in BAD_SOUND),
)
