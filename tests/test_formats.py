"""Readers of file formats, on small files written by hand and on bad ones."""

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
from study.tasks.formats.idx import read_idx
from study.tasks.formats.series import read_ts, read_tsv, ts_lines
from study.tasks.formats.sound import log_energies, log_mel
from study.tasks.formats.wav import read_wav, wav_bytes
from study.tasks.sources._table import standardize_splits

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


def test_series_files_are_read():
    series = _read(HEADER + "1,2,3:-1,-2e0,.5:Down\n\n# another comment\n4,5,6: 7,8,9 :up\n")
    assert (series.inputs.dtype, series.targets.dtype) == (np.float32, np.int64)
    assert series.inputs.tolist() == [[[1, -1], [2, -2], [3, 0.5]], [[4, 7], [5, 8], [6, 9]]]
    assert (series.targets.tolist(), series.labels) == ([1, 0], ("up", "Down"))
    again = _read("\n".join(ts_lines(series)))
    assert np.array_equal(again.inputs, series.inputs) and again.labels == series.labels
    assert np.array_equal(again.targets, series.targets)


@pytest.mark.parametrize("archive", [zipped, tarred])
def test_archive_members_are_read_without_extraction(archive, tmp_path, monkeypatch):
    path = tmp_path / "a.archive"
    path.write_bytes(archive({"./x/a.ts": b"A", "x/b.txt": b"B", "x/c.ts": b"C" * 10}))
    assert dict(members(path, r"x/.*\.ts")) == {"x/a.ts": b"A", "x/c.ts": b"C" * 10}
    assert member(path, "b.txt") == b"B"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FormatError, match=r"does not contain .ts"):
        member(path, ".ts")
    monkeypatch.setattr(archives, "LARGEST", 9)
    with pytest.raises(FormatError, match=r"x/c.ts has too many bytes; expected at most 9"):
        member(path, "x/c.ts")
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(FormatError, match=r"a.archive is truncated or not a zip or tar archive"):
        member(path, "x/b.txt")


def test_understated_sizes_are_refused_and_links_skipped():
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
    """Magnitude in a band by explicit sums, with the transform by its definition."""
    low = 40 * 3 / 200
    high = 15 + 27 * math.log(8) / math.log(6.4)
    corners = [low + (high - low) * (band + k) / 81 for k in range(3)]
    hertz = [m * 200 / 3 if m < 15 else 1000 * 6.4 ** ((m - 15) / 27) for m in corners]
    total = 0.0
    n = np.arange(1024)
    at = 128 * frame - 512 + n
    inside = (at >= 0) & (at < len(samples))
    x = np.where(inside, samples[np.clip(at, 0, len(samples) - 1)] / 2**15, 0)
    x *= 0.5 - 0.5 * np.cos(2 * np.pi * n / 1024)
    for k in range(513):
        f = k * 16000 / 1024
        rise = (f - hertz[0]) / (hertz[1] - hertz[0])
        fall = (hertz[2] - f) / (hertz[2] - hertz[1])
        weight = max(0, min(rise, fall)) * 2 / (hertz[2] - hertz[0])
        total += weight * abs(np.sum(x * np.exp(-2j * np.pi * k * n / 1024)))
    return total


def test_log_mel_follows_its_definition():
    samples = _clip(16000)
    features = log_mel(samples)
    short = log_mel(_clip(8000))
    assert features.shape == log_mel(_clip(40000)).shape == (126, 80)
    assert (features.mean(), features.std(ddof=1)) == pytest.approx((0, 1), abs=1e-6)
    # Standardising is one line for the whole clip: differences of decibels have one ratio.
    positions = [(0, 5), (3, 40), (60, 79), (125, 60)]
    decibels = [10 * math.log10(_mel_by_definition(samples, *place)) for place in positions]
    ratios = np.diff(decibels) / np.diff([features[place] for place in positions])
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
def test_log_energies_follow_their_definition(n):
    samples = _clip(n, seed=1)
    features = log_energies(samples)
    assert features.shape == (99, 32)
    for place in [(50, 0), (70, 13), (98, 31), (97, 20)]:
        assert features[place] == pytest.approx(_energy_by_definition(samples, *place), abs=1e-4)


def test_standardising_uses_training_data():
    train = np.array([[[1.0, 5.0]], [[3.0, 5.0]]])
    other = np.array([[[4.0, 6.0]]])
    actual = standardize_splits({"train": (train, 0), "test": (other, 1)}, 0)
    assert (actual["train"][0].tolist(), actual["train"][1]) == ([[[-1, 0]], [[1, 0]]], 0)
    assert (actual["test"][0].tolist(), actual["test"][1]) == ([[[2, 1]]], 1)


SHORT = "@classLabel true up Down\n"
BAD_SERIES = [
    (SHORT + "1:2:up\n1:up\n", "toy.ts, line 3: expected dimensions as many .*1 dimensions of 1"),
    (HEADER + "1,2,3:4,5:up\n", r"line 10: .*got 'dimensions of \[3, 2\] values"),
    (SHORT + "1:2:up\n1,2:3,4:up\n", "line 3: .*got '2 dimensions of 2 values"),
    (HEADER + "1,2,3:4,5,6:left\n", r"line 10: .*header names .up, Down.; got .*'left'"),
    (HEADER + "up\n", r"line 10: .*got 'dimensions of \[\] values"),
    (HEADER + "1,2,3:4,?,6:up\n", r"line 10: .* to float: '\?'"),
    (HEADER + "1,2,3:4,nan,6:up\n", "line 10: .*got 'a value that is infinite or nan"),
    (HEADER, "toy.ts has no series; it is truncated"),
    (HEADER.replace("classLabel true", "classLabel false"), "line 8: .*got '@classLabel false"),
    (HEADER + "1,2,3:up\n", "line 10: .*got '1 dimensions, the header states 2"),
    (HEADER + "1,2:3,4:up\n", "line 10: .*got '2 values, the header states 3"),
    (HEADER.replace("te false", "te true") + "1,2,3:4,5,6:up\n", "the header states 1"),
    (HEADER.replace("TIMESTAMPS false", "timeStamps true"), "line 3: .*time stamps"),
    (HEADER.replace("ns 2", "ns two"), "line 5: .*'two'"),
    (HEADER.replace("dimensions 2", "dimensions"), "line 5: .*got '@dimensions without a value'"),
    ("1,2:up\n" + HEADER, "toy.ts, line 1: .*'up' is not in list"),
]


def _header(size, riff_size=0, samples=bytes(40)):
    """A wav file whose sizes are as given."""
    file = bytearray(wav_bytes(np.zeros(len(samples) // 2)))
    file[4:8] = struct.pack("<I", riff_size)
    file[40:44] = struct.pack("<I", size)
    return bytes(file[:44]) + samples


def _extensible(subtype=1):
    """A file as some recorders write it: the sample format stands in the subtype."""
    tail = bytes.fromhex("000000001000800000aa00389b71")
    form = struct.pack("<HHIIHHHHIH", 0xFFFE, 1, 16000, 32000, 2, 16, 22, 16, 4, subtype) + tail
    chunks = struct.pack("<4sI", b"fmt ", len(form)) + form
    chunks += struct.pack("<4sI", b"LIST", 3) + b"abc\0" + struct.pack("<4sI", b"data", 4)
    body = b"WAVE" + chunks + struct.pack("<hh", -5, 7)
    return struct.pack("<4sI", b"RIFF", len(body)) + body


BAD_SOUND = [
    (_header(0, riff_size=76), "says that there are no samples, but 40 bytes"),
    (_header(41, riff_size=76), "expected 41 bytes of samples, an even number, got 40"),
    (_header(2**31, riff_size=76), "expected 2147483648 bytes of samples"),
    (_extensible(subtype=3), "its samples have format 0x3"),
    (wav_bytes(np.zeros(3))[:36], "it has no samples"),
    (b"RIFF\0\0\0\0WAVEfmt \xff\xff\xff\x7f", "its format is incomplete"),
    (b"RIFF\0\0\0\0WAVEfmt \4\0\0\0abcd", "its format is incomplete"),
    (b"RIFF\0\0\0\0WAVEdata\4\0\0\0abcd", "samples come before their format"),
    (
        wav_bytes(np.zeros(3), rate=44100),
        "a.wav: expected 1 channel of 16 bits and 16000 .* got 1 of 16 bits and 44100",
    ),
    (_stereo(), "1 channel of 16 bits.* got 2 of 16"),
    (b"RIFF", "a.wav is not a wav file of 16-bit PCM"),
    (b"no wav file at all, but text", "a.wav is not a wav file of 16-bit PCM"),
    (wav_bytes(np.zeros(30))[:-20], "a.wav: expected 60 bytes .* got 40 bytes"),
]


def test_recorded_wav_files_are_read():
    samples = np.arange(20, dtype="<i2")
    for sizes in ({"size": 0}, {"size": 2**32 - 1, "riff_size": 2**32 - 1}):
        streamed = _header(**sizes, samples=samples.tobytes())
        assert read_wav(streamed, "a.wav").tolist() == samples.tolist()
    assert read_wav(_extensible(), "a.wav").tolist() == [-5, 7]
    assert read_wav(wav_bytes(np.zeros(0)), "a.wav").size == 0


def test_standard_library_wav_files_are_read():
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, 16000, 3, "NONE", ""))
        out.writeframes(struct.pack("<hhh", 1, -2, 3))
    assert read_wav(file.getvalue(), "a.wav").tolist() == [1, -2, 3]
    assert file.getvalue() == wav_bytes(np.array([1, -2, 3]))


def test_total_size_of_members_is_bounded(monkeypatch):
    archive = zipped(dict.fromkeys(("a", "b", "c"), bytes(400)))
    monkeypatch.setattr(archives, "LARGEST_SUM", 1000)
    with pytest.raises(FormatError, match="a.zip: its files up to c have .*at most 1,000"):
        list(members(archive, ".", "a.zip"))
    assert len(list(members(archive, ".", "a.zip", largest_sum=1200))) == 3


@pytest.mark.parametrize("mark", ["\ufeff", "\u00ef\u00bb\u00bf"])
def test_byte_order_mark_is_ignored(mark):
    text = "@classLabel true a b\n@data\n1,2:3,4:b\n"
    assert _read(mark + text).targets.tolist() == [1]


BAD_TSV = [
    ("1\t2\n1\t2\t3\n", "w.tsv, line 2: .*got '2 values, the first series has 1"),
    ("1.5\t2\n", "line 1: .*not whole"),
    ("1\tnan\n", "line 1: .*infinite or nan"),
    ("one\t2\n", "line 1: .*'one'"),
    ("", "w.tsv has no series; it is truncated"),
]
IDX = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))
BAD_IDX = [
    (bytes([0, 0, 0x0D]) + IDX[3:], "a.idx: expected unsigned bytes .* elements of type 0x0d"),
    (IDX[:-1], r"expected 6 bytes for the shape \(2, 3\), got 5"),
    (IDX + b"!", "expected 6 bytes .* got 7"),
    (IDX[:10], "a.idx is not an idx file: its header is incomplete"),
    (b"", "a.idx is not an idx file"),
    (b"PNG" + IDX[3:], "a.idx is not an idx file"),
]


def test_idx_files_are_read():
    assert read_idx(IDX, "a.idx").tolist() == [[0, 1, 2], [3, 4, 5]]


test_malformed_files_are_refused = refused(
    FormatError,
    *((sentence, lambda text=text: read_tsv(text, "w.tsv")) for text, sentence in BAD_TSV),
    *((sentence, lambda idx=idx: read_idx(idx, "a.idx")) for idx, sentence in BAD_IDX),
    *((sentence, lambda text=text: _read(text)) for text, sentence in BAD_SERIES),
    *((sentence, lambda sound=sound: read_wav(sound, "a.wav")) for sound, sentence in BAD_SOUND),
)
