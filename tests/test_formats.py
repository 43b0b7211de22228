"""Readers of file formats: what they give for small files written by hand, and how they refuse bad ones."""

import io
import math
import struct
import tarfile
import wave
import zipfile

import numpy as np
import pytest

from lib.tasks.formats import FormatError, sound
from lib.tasks.formats.archives import member, members
from lib.tasks.formats.series import Series, read_arff, read_ts, ts_lines
from lib.tasks.formats.sound import log_energies, log_mel, read_wav, standardise, wav_bytes
from lib.tasks.formats.vectors import read_vectors

# ------------------------------------------------------------------------------- .ts and .arff

HEADER = """# a comment
@ProblemName toy
@TIMESTAMPS false
@univariate false
@dimensions 2
@equalLength true
@seriesLength 3
@classLabel true up down
@DATA
"""


def _ts(text, name="toy.ts"):
    return read_ts(io.StringIO(text), name)


def test_a_ts_file_becomes_series_and_classes():
    series = _ts(HEADER + "1,2,3:-1,-2e0,.5:down\n\n# another comment\n4,5,6: 7,8,9 :up\n")
    assert series.inputs.dtype == np.float32
    assert series.inputs.tolist() == [
        [[1, -1], [2, -2], [3, 0.5]],
        [[4, 7], [5, 8], [6, 9]],
    ]
    assert series.targets.tolist() == [1, 0]
    assert series.labels == ("up", "down")


def test_a_ts_file_with_real_targets():
    series = _ts("@targetlabel true\n@data\n1,2:3,4:88.25\n")
    assert series.labels == ()
    assert series.targets.dtype == np.float32
    assert series.targets.tolist() == [88.25]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEADER + "1,2,3:up\n", "toy.ts, line 10: expected 2 dimensions and a target, got 1 dim"),
        (
            HEADER + "1,2,3:4,5:up\n",
            "line 10, dimension 2: expected 3 values, got 2; series of une",
        ),
        (HEADER + "1,2,3:4,5,6:left\n", "line 10: unknown label 'left'; the header names up, down"),
        (HEADER + "1,2,3:4,?,6:up\n", "line 10, dimension 2: expected numbers, got '\\?'"),
        (HEADER + "1,2,3:4,nan,6:up\n", "dimension 2: expected finite numbers, got 'nan'"),
        (HEADER + "1,2,3:4,,6:up\n", "dimension 2: expected numbers, got ''"),
        (HEADER, "toy.ts: no case follows @data; the file is cut"),
        (HEADER.replace("@DATA\n", ""), "toy.ts: there is no @data"),
        (HEADER.replace("dimensions 2", "dimensions two"), "number after @dimensions, got 'two'"),
        (HEADER.replace("classLabel true", "classLabel false"), "expected '@classLabel true ...'"),
        (HEADER.replace("STAMPS false", "STAMPS true"), "with time stamps are not read"),
        ("1,2:up\n" + HEADER, "line 1: expected an identifier or @data, got '1,2:up'"),
        (
            "@targetLabel true\n@data\n1,2\n3,4:x\n",
            "line 3: expected 1 dimensions and a target, got 0",
        ),
        ("@targetLabel true\n@data\n1,2:3\n3,4:x\n", "line 4, target: expected numbers, got 'x'"),
        ("@targetLabel true\n@data\n1,2:3\n3,4,5:1\n", "line 4, dimension 1: expected 2 values"),
    ],
)
def test_a_bad_ts_file_is_refused_with_its_line(text, sentence):
    with pytest.raises(FormatError, match=sentence):
        _ts(text)


@pytest.mark.parametrize("labels", [("a", "b"), ()])
def test_series_survive_being_written_and_read(labels):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(3, 4, 2)).astype(np.float32)
    targets = np.array([0, 1, 1]) if labels else np.array([1.5, -2, 80.25], np.float32)
    again = _ts("\n".join(ts_lines(Series(inputs, targets, labels), "toy", "made\nup")))
    assert np.abs(again.inputs - inputs).max() < 1e-5
    assert again.targets.tolist() == targets.tolist()
    assert again.labels == labels


ARFF = """% a comment
@relation toy
@attribute toy relational
  @attribute t0 numeric
  @attribute t1 numeric
@end toy
@ATTRIBUTE target {1,2}
@data
"""


def test_an_arff_file_equals_the_ts_file():
    series = read_arff(io.StringIO(ARFF + "'1,2\\n3,4',2\n\"5,6\\n7,8\",1\n"), "toy.arff")
    same = _ts("@classLabel true 1 2\n@data\n1,2:3,4:2\n5,6:7,8:1\n")
    assert np.array_equal(series.inputs, same.inputs)
    assert series.targets.tolist() == same.targets.tolist() == [1, 0]
    assert series.labels == same.labels


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ARFF + "1,2,2\n", "line 9: expected a quoted series and its class, got '1,2,2'"),
        (ARFF + "'1,2\\n3,4'\n", "line 9: expected a quoted series and its class"),
        (ARFF + "'1,2\\n3,4',3\n", "line 9: unknown label '3'; the header names 1, 2"),
        (ARFF + "'1,2\\n3,4',1\n'1,2',1\n", "line 10: expected 2 dimensions and a target, got 1"),
        (ARFF + "'1,2\\n3',1\n", "line 9, dimension 2: expected 2 values, got 1"),
        (ARFF + "'1,2\\n3,x',1\n", "line 9, dimension 2: expected numbers, got 'x'"),
        (ARFF.replace("@data\n", ""), "there is no @data"),
        (ARFF.replace("relational", "numeric"), "expected a relational attribute and then the"),
    ],
)
def test_a_bad_arff_file_is_refused_with_its_line(text, sentence):
    with pytest.raises(FormatError, match=sentence):
        read_arff(io.StringIO(text), "toy.arff")


# ------------------------------------------------------------------------------- archives


def _archive(path, contents):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in contents.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in contents.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture(params=["a.zip", "a.tar.gz"])
def archive(request, tmp_path):
    return tmp_path / request.param


def test_wanted_members_are_read_and_nothing_is_extracted(archive, tmp_path):
    _archive(archive, {"./x/a.ts": b"A", "x/b.txt": b"B", "x/c.ts": b"C" * 10})
    assert dict(members(archive, r"x/.*\.ts")) == {"x/a.ts": b"A", "x/c.ts": b"C" * 10}
    assert member(archive, "x/b.txt") == b"B"
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]


@pytest.mark.parametrize("name", ["../evil", "x/../../evil", "/etc/evil", "..\\evil", "C:evil"])
def test_a_path_outside_the_archive_is_refused(archive, name):
    _archive(archive, {name: b"x", "a.ts": b"A"})
    with pytest.raises(FormatError, match=r"the member '.*evil' lies outside .*; refused"):
        list(members(archive, "a.ts"))


def test_a_member_that_is_too_large_is_refused(archive):
    _archive(archive, {"a.ts": bytes(1000)})
    assert len(member(archive, "a.ts", largest=1000)) == 1000
    with pytest.raises(FormatError, match=r"a.ts has more than the 999 bytes"):
        member(archive, "a.ts", largest=999)


def test_a_size_that_the_archive_understates_is_found(tmp_path):
    path = _archive(tmp_path / "a.zip", {"a.ts": bytes(1000)})
    content = path.read_bytes().replace(struct.pack("<I", 1000), struct.pack("<I", 10))
    path.write_bytes(content)
    with pytest.raises(FormatError):  # its checksum, or its size: either way it is not given out
        member(path, "a.ts", largest=100)


def test_an_archive_without_the_file_or_cut_is_refused(archive):
    _archive(archive, {"b.ts": bytes(np.random.default_rng(0).bytes(5000))})
    with pytest.raises(FormatError, match=r"there is no a.ts in it"):
        member(archive, "a.ts")
    archive.write_bytes(archive.read_bytes()[:1000])
    with pytest.raises(FormatError, match=r"expected a zip or tar archive, found something else"):
        member(archive, "b.ts")


def test_links_are_passed_over(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("a.ts")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(info)
    assert list(members(path, ".*")) == []


# ------------------------------------------------------------------------------- sound


def test_wav_files_keep_their_samples():
    samples = np.array([0, 1, -1, 2**15 - 1, -(2**15)], np.int16)
    assert read_wav(wav_bytes(samples), "a.wav").tolist() == samples.tolist()


def _stereo():
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((2, 2, 16000, 1, "NONE", ""))
        out.writeframes(bytes(4))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            wav_bytes(np.zeros(3), rate=44100),
            "a.wav: expected 16000 samples a second, .* got 44100",
        ),
        (_stereo(), "1 channel of 16 bits, got 16000, 2 of 16; convert it first"),
        (b"RIFF", "a.wav is no wav file of 16-bit PCM"),
        (b"no wav file at all, but text", "a.wav is no wav file of 16-bit PCM"),
        (wav_bytes(np.zeros(30))[:-20], "a.wav: expected 30 samples, got 20; the file is cut"),
    ],
)
def test_what_is_no_wav_file_of_ours_is_refused(content, sentence):
    with pytest.raises(FormatError, match=sentence):
        read_wav(content, "a.wav")


def test_triangles_by_hand():
    weights = sound._triangles(np.arange(6), np.array([0, 2, 4, 5]))
    assert weights.tolist() == [[0, 0.5, 1, 0.5, 0, 0], [0, 0, 0, 0.5, 1, 0]]


def test_slaney_mels_by_hand():
    hertz, mel = np.array([0, 100, 1000, 6400.0]), np.array([0, 1.5, 15, 42])
    assert np.allclose(sound._slaney_mel(hertz), mel)
    assert np.allclose(sound._slaney_hertz(mel), hertz)


def _clip(n, seed=0):
    return (np.random.default_rng(seed).normal(size=n) * 3000).astype(np.int16)


def _mel_by_definition(samples, frame, band):
    """Magnitude in a band by explicit sums: a transform by its definition, a triangle by its corners."""
    low, high = 40 * 3 / 200, 15 + 27 * math.log(8) / math.log(6.4)
    corners = [low + (high - low) * (band + k) / 81 for k in range(3)]
    hertz = [m * 200 / 3 if m < 15 else 1000 * 6.4 ** ((m - 15) / 27) for m in corners]
    total = 0.0
    for k in range(513):
        f = k * 16000 / 1024
        rise, fall = (f - hertz[0]) / (hertz[1] - hertz[0]), (hertz[2] - f) / (hertz[2] - hertz[1])
        weight = max(0, min(rise, fall)) * 2 / (hertz[2] - hertz[0])
        if weight:
            value = 0
            for n in range(1024):
                at = 128 * frame - 512 + n
                x = samples[at] / 2**15 if 0 <= at < len(samples) else 0
                hann = 0.5 - 0.5 * math.cos(2 * math.pi * n / 1024)
                value += x * hann * np.exp(-2j * math.pi * k * n / 1024)
            total += weight * abs(value)
    return total


def test_log_mel_is_its_definition():
    samples = _clip(16000)
    features = log_mel(samples)
    assert features.shape == (126, 80)
    assert abs(features.mean()) < 1e-6 and abs(features.std(ddof=1) - 1) < 1e-6
    # Standardising is one line for the whole clip: differences of decibels have one ratio.
    places = [(0, 5), (3, 40), (60, 79), (125, 60)]
    decibels = [10 * math.log10(_mel_by_definition(samples, *place)) for place in places]
    ours = [features[place] for place in places]
    ratios = np.diff(decibels) / np.diff(ours)
    assert np.allclose(ratios, ratios[0], rtol=1e-4)


def test_log_mel_finds_a_tone_where_it_is():
    time = np.arange(16000) / 16000
    tone = (8000 * np.sin(2 * np.pi * 3000 * time)).astype(np.int16)
    peaks = sound._slaney_hertz(np.linspace(*sound._slaney_mel(np.array([40.0, 8000.0])), 82))[1:-1]
    loudest = log_mel(tone)[60].argmax()
    assert abs(peaks[loudest] - 3000) < 100


def test_log_mel_fills_with_the_maximum_and_cuts():
    short, full = log_mel(_clip(8000)), log_mel(_clip(16000))
    assert np.all(short[63:] == short.max())  # 0 dB, as LEM's code has it
    assert full[63:].std() > 0
    assert log_mel(_clip(40000)).shape == (126, 80)
    assert np.all(log_mel(np.zeros(16000, np.int16)) == 0)


def _energy_by_definition(samples, frame, band):
    clip = [0.0] * (16000 - len(samples)) + [float(x) for x in samples]
    clip = [clip[0]] + [clip[n] - 0.97 * clip[n - 1] for n in range(1, 16000)]
    top = 2595 * math.log10(1 + 8000 / 700)
    edges = [
        math.floor(513 * 700 * (10 ** (top * (band + k) / 33 / 2595) - 1) / 16000) for k in range(3)
    ]
    total = 0.0
    for k in range(edges[0], edges[2]):
        if k < edges[1]:
            weight = (k - edges[0]) / (edges[1] - edges[0])
        else:
            weight = (edges[2] - k) / (edges[2] - edges[1])
        value = 0
        for n in range(400):
            at = 160 * frame + n
            x = clip[at] if at < 16000 else 0
            hamming = 0.54 - 0.46 * math.cos(2 * math.pi * n / 399)
            value += x * hamming * np.exp(-2j * math.pi * k * n / 512)
        total += weight * abs(value) ** 2 / 512
    return math.log(total + 1e-10)


@pytest.mark.parametrize("n", [16000, 12345])
def test_log_energies_are_their_definition(n):
    samples = _clip(n, seed=1)
    features = log_energies(samples)
    assert features.shape == (99, 32)
    for place in [(50, 0), (70, 13), (98, 31), (97, 20)]:
        assert features[place] == pytest.approx(_energy_by_definition(samples, *place), abs=1e-4)


def test_short_clips_are_filled_in_front():
    short = log_energies(_clip(1600))
    assert np.allclose(short[:87], np.log(np.finfo(float).eps + 1e-10))
    assert short[95].min() > 0
    with pytest.raises(FormatError, match=r"a.wav: expected at most 16000 samples, got 16001"):
        log_energies(_clip(16001), "a.wav")


def test_standardising_uses_the_training_part_alone():
    train = np.array([[[1.0, 5.0]], [[3.0, 5.0]]])
    other = np.array([[[4.0, 6.0]]])
    ours, theirs = standardise(train, other)
    assert ours.tolist() == [[[-1, 0]], [[1, 0]]]
    assert theirs.tolist() == [[[2, 1]]]


# ------------------------------------------------------------------------------- word vectors


def test_vectors_of_wanted_words():
    vectors = read_vectors(["the 1 2\n", "of 3 4\n", ". 5 -6\n"], 2, "g.txt", {".", "the"})
    assert {word: vector.tolist() for word, vector in vectors.items()} == {
        "the": [1, 2],
        ".": [5, -6],
    }


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("of 3", "g.txt, line 2: expected 2 numbers after 'of', got 1; the file is cut"),
        ("of 3 x", "g.txt, line 2: expected numbers after 'of'"),
    ],
)
def test_a_bad_line_of_vectors_is_refused(line, sentence):
    with pytest.raises(FormatError, match=sentence):
        read_vectors(["the 1 2", line], 2, "g.txt")
