"""Data sets of UnICORNN's, LEM's and iRNN's experiments, from small files in the forms that publishers and mirrors have."""

import gzip
import hashlib
import io
import tarfile
import zipfile

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from lib.tasks import load_prepared
from lib.tasks.formats import FormatError
from lib.tasks.formats.series import Series, ts_lines
from lib.tasks.formats.sound import log_mel, wav_bytes
from lib.tasks.prepared import FIRST_WORD, load_file
from lib.tasks.sources import _fetch, activities, prepare, speech, vitals, word_vectors, worms
from lib.tasks.sources._fetch import (
    MIRROR,
    ChecksumError,
    DownloadError,
    fetch_pinned,
    read_or_remove,
)
from lib.tasks.sources._table import ORIGINS
from lib.tasks.standins.tone_words import write_archive


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv(MIRROR, str(folder))
    monkeypatch.setattr(_fetch, "DATA", tmp_path / "data")
    return folder


@pytest.fixture
def mirrored(mirror, monkeypatch):
    """Put a file into the mirror, and its checksum into the table."""

    def put(origin, name, content, group="mirrored"):
        (mirror / origin).mkdir(exist_ok=True)
        (mirror / origin / name).write_bytes(content)
        stated = ORIGINS[origin].get(group, {}) | {name: _sha256(content)}
        monkeypatch.setitem(ORIGINS[origin], group, stated)

    return put


@pytest.fixture
def stated(monkeypatch):
    """Let the table state the checksums of these contents."""
    return lambda origin, contents: monkeypatch.setitem(
        ORIGINS[origin], "contents", {name: _sha256(one) for name, one in contents.items()}
    )


def _npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _zip(path, contents):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def _from_publisher(monkeypatch, path):
    """Let publishers hand out the file; no mirror is set."""
    monkeypatch.delenv(MIRROR, raising=False)
    monkeypatch.setattr(_fetch, "from_publisher", lambda *arguments: path)


# ------------------------------------------------------------------------------- activities


def _recordings():
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(900, 6)).astype(np.float32)
    labels = [(1, 1, 5, 11, 202), (1, 1, 7, 203, 400), (2, 2, 6, 1, 128), (2, 2, 1, 129, 255)]
    return {
        "signals": signals,
        "offsets": np.array([0, 450, 900]),
        "experiment": np.array([1, 2], np.int16),
        "user": np.array([1, 2], np.int16),
        "labels": np.array(labels, np.int32),
    }


def test_windows_of_activities_lie_inside_their_intervals():
    raw = _recordings()
    inputs, targets, user = activities.windows(raw)
    # 192 samples of standing give two windows, a transition none, 128 of laying one, 127 of walking none.
    assert inputs.shape == (3, 128, 9)
    assert (targets.tolist(), user.tolist()) == ([1, 1, 0], [1, 1, 2])
    whole = activities.filtered(raw["signals"][:450])
    assert np.array_equal(inputs[0], whole[10:138])
    assert np.array_equal(inputs[1], whole[74:202])


def test_filters_part_gravity_from_the_body_and_remove_noise():
    time = np.arange(3000) / 50
    slow, middle, fast = (np.sin(2 * np.pi * f * time) for f in (0.02, 1, 24.5))
    signals = np.tile((slow + middle + 0.1 * fast)[:, None], (1, 6))
    body, angular, total = np.split(activities.filtered(signals), 3, axis=1)
    inside = slice(500, -500)
    for found, waves in ((body, middle), (angular, slow + middle), (total, slow + middle)):
        assert np.abs(found[inside, 0] - waves[inside]).max() < 0.1


def test_har2_is_the_same_from_mirror_and_publisher(mirrored, stated, tmp_path, monkeypatch):
    raw = _recordings()
    raw["signals"] = raw["signals"].astype(np.float64).round(3).astype(np.float32)
    mirrored("hapt", "hapt_raw.npz", _npz(**raw))
    stated("hapt", {"signals": raw["signals"].tobytes()})
    path = prepare("har2", tmp_path / "a")
    contents = {
        "RawData/labels.txt": "\n".join(" ".join(map(str, row)) for row in raw["labels"].tolist())
    }
    for k in (0, 1):
        part = raw["signals"][450 * k : 450 * (k + 1)].astype(float).round(3)
        for sensor, columns in (("acc", part[:, :3]), ("gyro", part[:, 3:])):
            text = "\n".join(" ".join(map(str, row)) for row in columns.tolist())
            contents[f"RawData/{sensor}_exp0{k + 1}_user0{k + 1}.txt"] = text
    archive = {f"HAPT/{name}": text for name, text in contents.items()}
    _from_publisher(monkeypatch, _zip(tmp_path / "h.zip", archive))
    assert prepare("har2", tmp_path / "b").read_bytes() == path.read_bytes()
    ds = load_file(path)
    train = ds["inputs"].values[ds["split"].values == 0]
    assert np.abs(train.mean((0, 1))).max() < 1e-5
    assert np.abs(train.std((0, 1)) - 1).max() < 1e-4
    assert "HAPT" in ds.attrs["substitute"]
    stated("hapt", {"signals": b"others"})
    with pytest.raises(ChecksumError, match=rf"h.zip: expected SHA-256 {_sha256(b'others')}"):
        prepare("har2", tmp_path / "c")
    assert not (tmp_path / "h.zip").exists()


def test_dsa19_is_a_quarter_from_the_mirror_and_whole_from_the_publisher(
    mirrored, stated, tmp_path, monkeypatch
):
    keys = [(a, p, s) for a in (1, 2) for p in (1, 5) for s in (1, 2, 5)]
    rng = np.random.default_rng(0)
    segments = {key: rng.normal(size=(125, 45)).round(3).astype(np.float32) for key in keys}
    quarter = [key for key in keys if key[2] % 4 == 1]
    values = np.stack([segments[key] for key in quarter])
    planes = np.moveaxis(
        values.transpose(0, 2, 1).copy().view(np.uint8).reshape(8, 45, 125, 4), -1, 0
    )
    activity, subject, segment = np.array(quarter, np.uint8).T
    content = _npz(float32_byte_planes=planes, activity=activity, subject=subject, segment=segment)
    mirrored("dsa", "dsa_every4th_segment.npz", content)
    stated("dsa", {"quarter": values.tobytes()})
    ds = load_file(prepare("dsa19", tmp_path / "a"))
    assert ds["target"].values.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert ds["split"].values.tolist() == [0] * 4 + [1] * 4
    train = values[subject <= 4]
    expected = (values - train.mean((0, 1))) / train.std((0, 1))
    assert np.allclose(ds["inputs"].values[:4], expected[subject <= 4], atol=1e-5)
    texts = {
        f"data/a{a:02}/p{p}/s{s:02}.txt": "\n".join(
            ",".join(map(str, row)) for row in segments[a, p, s].astype(float).round(3).tolist()
        )
        for a, p, s in keys
    }
    _from_publisher(monkeypatch, _zip(tmp_path / "d.zip", texts))
    whole = load_file(prepare("dsa19", tmp_path / "b"))
    assert whole.sizes["sample"] == 12
    assert (whole.attrs["substitute"], ds.attrs["substitute"][:12]) == ("", "every fourth")


# ------------------------------------------------------------------------------- vital signs


def _vitals(patients=10, seconds=480):
    rng = np.random.default_rng(0)
    raw = {
        name: rng.normal(size=(patients, 125 * seconds + 1)).round(3).astype(np.float32)
        for name in ("pleth", "ecg_ii")
    }
    each = np.arange(seconds + 1, dtype=np.float32)
    raw["hr"] = each + 1000 * np.arange(patients, dtype=np.float32)[:, None]
    raw["resp_rate"] = np.full((patients, seconds + 1), 15, np.float32)
    raw["hr"][3, 31 + 3 * 2] = np.nan
    return raw


def test_a_window_starts_every_three_seconds_and_ends_with_its_rate():
    raw = _vitals()
    inputs, targets, patient = vitals.windows(raw, "hr")
    assert inputs.shape == (10 * 150 - 1, 4000, 2)
    assert np.bincount(patient).tolist() == [150] * 3 + [149] + [150] * 6
    assert targets[:3, 0].tolist() == [31, 34, 37]
    assert targets[149, 0] == 3 * 149 + 31
    assert np.array_equal(inputs[2, :, 0], raw["pleth"][0, 750:4750])
    assert np.array_equal(inputs[150, :, 1], raw["ecg_ii"][1, :4000])
    assert len(vitals.windows(raw, "resp_rate")[0]) == 1500


def test_splits_cover_all_windows_once():
    patient = np.repeat(np.arange(53), 150)
    for parts in (vitals.split_at_random(7949), vitals.split_by(patient)):
        together = np.concatenate(parts)
        assert np.array_equal(np.sort(together), np.arange(len(together)))
        assert [len(part) / len(together) for part in parts] == pytest.approx(
            [0.7, 0.15, 0.15], abs=0.01
        )
    parts = [set(patient[part]) for part in vitals.split_by(patient)]
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]


def test_vital_signs_are_the_same_from_mirror_and_publisher(
    mirrored, stated, tmp_path, monkeypatch
):
    monkeypatch.setattr(vitals, "WINDOWS", 4)
    raw = _vitals(patients=7, seconds=50)
    mirrored("bidmc", "bidmc_53x480s.npz", _npz(**raw))
    stated("bidmc", {name: values.tobytes() for name, values in raw.items()})
    first = load_file(prepare("heart_rate_by_patient", tmp_path / "a"))
    contents = {}
    for k in range(7):
        signals = zip(
            raw["pleth"][k].astype(float).round(3),
            raw["ecg_ii"][k].astype(float).round(3),
            strict=True,
        )
        rows = "\n".join(f"0,0,{a},0,0,{b}" for a, b in signals)
        contents[f"bidmc/csv/bidmc_0{k + 1}_Signals.csv"] = (
            f"Time [s], RESP, PLETH, V, AVR, II\n{rows}"
        )
        rates = zip(raw["hr"][k], raw["resp_rate"][k], strict=True)
        rows = "\n".join(f"0,{'NaN' if np.isnan(a) else a},0,{b},0" for a, b in rates)
        contents[f"bidmc/csv/bidmc_0{k + 1}_Numerics.csv"] = (
            f"Time [s], HR, PULSE, RESP, SpO2\n{rows}"
        )
    _from_publisher(monkeypatch, _zip(tmp_path / "b.zip", contents))
    published = load_file(prepare("heart_rate_by_patient", tmp_path / "b"))
    assert published.equals(first)
    who = first["target"].values[:, 0] // 1000
    parts = [set(who[first["split"].values == k]) for k in range(3)]
    assert sum(map(len, parts)) == 7


def test_the_archive_of_windows_is_used_where_the_mirror_has_it(mirror, tmp_path):
    rng = np.random.default_rng(0)
    files = {}
    for part, size in (("TRAIN", 12), ("TEST", 8)):
        inputs = rng.normal(size=(size, 9, 2)).astype(np.float32)
        series = Series(inputs, 60 + rng.random(size).astype(np.float32), ())
        files[f"BIDMC32HR/BIDMC32HR_{part}.ts"] = "\n".join(ts_lines(series, "BIDMC32HR"))
    (mirror / "bidmc").mkdir()
    _zip(mirror / "bidmc" / vitals.WINDOWED, files)
    ds = load_file(prepare("heart_rate", tmp_path))
    inputs, targets = vitals.from_windows(mirror / "bidmc" / vitals.WINDOWED, "BIDMC32HR")
    train, _, test = vitals.split_at_random(20)
    assert np.array_equal(ds["inputs"].values[:14], inputs[train])
    assert np.array_equal(ds["target"].values[14:17], targets[test])
    assert ds.attrs["substitute"] == ""
    with pytest.raises(FormatError, match=r"there is no BIDMC32RR/BIDMC32RR_TRAIN.ts in it"):
        prepare("respiratory_rate", tmp_path)


# ------------------------------------------------------------------------------- worms


def _worm_files(ending):
    rng = np.random.default_rng(0)
    files, together = {}, []
    for part, size in (("TRAIN", 12), ("TEST", 8)):
        inputs = rng.normal(size=(size, 7, 6)).round(3).astype(np.float32)
        series = Series(inputs, np.arange(size) % 5, ("1", "2", "3", "4", "5"))
        together.append(series)
        if ending == "ts":
            text = "\n".join(ts_lines(series, "EigenWorms"))
        else:
            head = ["@relation EigenWorms", "@attribute series relational"]
            head += [f"@attribute t{t} numeric" for t in range(7)]
            head += ["@end series", "@attribute target {1,2,3,4,5}", "@data"]
            rows = [
                "'"
                + "\\n".join(",".join(f"{v:.6g}" for v in column) for column in case.T)
                + f"',{label + 1}"
                for case, label in zip(inputs, series.targets, strict=True)
            ]
            text = "\n".join(head + rows)
        files[f"EigenWorms/EigenWorms_{part}.{ending}"] = text
    return files, together


@pytest.mark.parametrize("ending", ["ts", "arff"])
def test_eigenworms_from_the_mirror_split_as_the_programs_do(ending, mirror, tmp_path):
    files, (train, test) = _worm_files(ending)
    (mirror / "eigenworms").mkdir()
    _zip(mirror / "eigenworms" / "EigenWorms.zip", files)
    ds = load_file(prepare("eigenworms", tmp_path))
    inputs = np.concatenate([train.inputs, test.inputs])
    ours, rest = train_test_split(inputs, test_size=0.3, random_state=1234)
    validation, tested = train_test_split(rest, test_size=0.5, random_state=1234)
    expected = np.concatenate([ours, tested, validation])
    assert np.allclose(ds["inputs"].values, expected)
    assert np.bincount(ds["split"].values).tolist() == [14, 3, 3]
    assert ds.attrs["substitute"] == ""


def test_worms_that_are_not_there_are_named_as_made_up(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(worms, "CASES", 20)
    monkeypatch.setattr(worms, "LENGTH", 30)
    ds = load_file(prepare("eigenworms", tmp_path))
    assert ds["inputs"].shape == (20, 30, 6)
    assert "stand-in for EigenWorms" in ds.attrs["substitute"]


def test_archives_of_worms_that_do_not_fit_are_refused(tmp_path):
    files, _ = _worm_files("ts")
    first, second = files
    with pytest.raises(
        FormatError, match=r"expected both EigenWorms_TRAIN and EigenWorms_TEST, as"
    ):
        worms.from_archive(_zip(tmp_path / "a.zip", {first: files[first]}))
    shorter = files | {second: "@classLabel true 1 2 3 4 5\n@data\n1:2:3:4:5:6:1\n"}
    with pytest.raises(FormatError, match=r"training and test file differ in length"):
        worms.from_archive(_zip(tmp_path / "b.zip", shorter))
    with pytest.raises(FormatError, match=r"'../EigenWorms_TRAIN.ts' lies outside"):
        worms.from_archive(_zip(tmp_path / "c.zip", {"../EigenWorms_TRAIN.ts": ""} | files))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"EigenWorms_TRAIN.ts": "@data"}, "found something else than .* removed: run again to"),
        ({"../x": ""}, "found something else than .*'../x' lies outside .* has been removed"),
    ],
)
def test_a_bad_archive_without_a_checksum_is_removed_with_its_record(tmp_path, content, complaint):
    archive, record = _zip(tmp_path / "a.zip", content), tmp_path / "a.zip.sha256"
    record.touch()
    with pytest.raises(ChecksumError, match=complaint):
        read_or_remove(archive, worms.from_archive)
    assert not archive.exists() and not record.exists()


def test_a_file_without_a_published_checksum_counts_as_first_seen(mirror, tmp_path):
    (mirror / "eigenworms").mkdir()
    file = mirror / "eigenworms" / "EigenWorms.zip"
    for content in (b"first", b"first", b"second"):
        file.write_bytes(content)
        if content == b"second":
            sentence = rf"eigenworms/EigenWorms.zip: expected SHA-256 {_sha256(b'first')}"
            with pytest.raises(ChecksumError, match=sentence):
                fetch_pinned("eigenworms", file.name)
        else:
            assert fetch_pinned("eigenworms", file.name).read_bytes() == b"first"
    record = tmp_path / "data" / "raw" / "eigenworms" / f"{file.name}.sha256"
    record.unlink()
    record.mkdir()
    with pytest.raises(DownloadError, match=r"sha256 is no file but a folder or a pipe; remove"):
        fetch_pinned("eigenworms", file.name)
    # Its content is no archive: what lies in the mirror is refused and stays.
    record.rmdir()
    with pytest.raises(FormatError, match=r"EigenWorms.zip: expected a zip or tar archive"):
        prepare("eigenworms", tmp_path)
    assert file.exists()


# ------------------------------------------------------------------------------- speech


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    path = tmp_path_factory.mktemp("tones") / "tones.tar"
    return write_archive(path, ("yes", "no", "bed"), clips=10, speakers=10, seed=1)


def _features(samples, name):
    return log_mel(samples)[:, :2]


def test_clips_go_to_the_parts_that_the_lists_name(tones):
    parts = speech.read_clips(tones, speech.CLASSES["lem"], _features)
    # Of ten speakers one is for validation and one for testing; noise is silence, and trains.
    assert {part: len(targets) for part, (_, targets) in parts.items()} == {
        "train": 3 * 8 + 2,
        "validation": 3,
        "test": 3,
    }
    assert sorted(parts["train"][1].tolist()) == [0] * 8 + [1] * 2 + [2] * 8 + [3] * 8
    assert parts["test"][1].tolist() == [0, 3, 2]  # bed, no, yes
    without = speech.read_clips(tones, speech.CLASSES["edgeml"], _features)
    assert sorted(without["train"][1].tolist()) == [0] * 8 + [1] * 8 + [2] * 8


def test_the_classes_of_the_programs():
    ours, theirs = speech.CLASSES["lem"], speech.CLASSES["edgeml"]
    assert (ours["yes"], ours["go"], ours["bed"], ours["_background_noise_"]) == (2, 11, 0, 1)
    assert (theirs["yes"], theirs["go"], theirs["bed"]) == (1, 10, 0)
    assert len(ours) == 36 and len(theirs) == 30 and len(set(speech.WORDS)) == 30


def test_speech_commands_from_the_mirror(tones, mirror, mirrored, tmp_path):
    name = "speech_commands_v0.01.tar.gz"
    mirrored("speech_commands", name, tones.read_bytes(), "files")
    ds = load_file(prepare("keywords30", tmp_path))
    train = ds["inputs"].values[ds["split"].values == 0]
    assert train.shape == (24, 99, 32)
    assert np.abs(train.mean(0)).max() < 1e-4 and np.abs(train.std(0) - 1).max() < 1e-3
    assert ds.attrs["substitute"] == ""
    (mirror / "speech_commands" / name).write_bytes(b"altered")
    with pytest.raises(ChecksumError, match=r"speech_commands_v0.01.tar.gz: expected SHA-256"):
        prepare("keywords30", tmp_path)


def test_speech_that_is_not_there_is_named_as_made_up(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(speech, "CLIPS", 5)
    monkeypatch.setattr(speech, "SPEAKERS", 5)
    ds = load_file(prepare("keywords12", tmp_path))
    assert ds["inputs"].shape == (12 * 5 + 2, 126, 80)
    assert ds.attrs["outputs"] == 12
    assert "stand-in for Speech Commands" in ds.attrs["substitute"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"yes/1_nohash_0.wav": wav_bytes(np.zeros(9), 8000)},
            "yes/1_nohash_0.wav: expected 16000",
        ),
        ({"testing_list.txt": None}, "the list of test clips is missing"),
        ({"testing_list.txt": b"no/9_nohash_0.wav"}, "no clip of a known word is for test"),
        ({"../yes/2_nohash_0.wav": b""}, "lies outside the archive's folder; refused"),
    ],
)
def test_archives_of_clips_that_do_not_fit_are_refused(tmp_path, change, sentence):
    contents = {f"yes/{k}_nohash_0.wav": wav_bytes(np.arange(9)) for k in range(3)}
    contents |= {
        "validation_list.txt": b"yes/0_nohash_0.wav",
        "testing_list.txt": b"yes/2_nohash_0.wav",
    }
    contents |= change
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w") as tar:
        for name, content in contents.items():
            if content is not None:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    with pytest.raises(FormatError, match=sentence):
        speech.read_clips(path, {"yes": 0}, _features)


# ------------------------------------------------------------------------------- texts


def test_vectors_of_reviews_say_what_glove_covers(mirrored, tmp_path, monkeypatch):
    parts = {
        "train": {
            "neg/0_1": "bad film of the year",
            "neg/1_4": "bad",
            "pos/0_7": "the good film",
            "pos/1_10": "good",
        },
        "test": {"neg/0_2": "the bad", "pos/0_9": "the good"},
    }
    for part, reviews in parts.items():
        lines = "".join(f"{name}\t{text}\n" for name, text in reviews.items())
        mirrored("imdb", f"aclImdb_{part}.txt.gz", gzip.compress(lines.encode(), mtime=0))
    lines = "".join(
        f"{word} {' '.join([str(value)] * 100)}\n"
        for word, value in (("the", 0.5), ("film", 1.5), ("odd", 9))
    )
    mirrored("glove", "glove.6B.100d.top.txt.gz", gzip.compress(lines.encode()))
    monkeypatch.setattr(word_vectors, "WORDS", 4)
    monkeypatch.setattr(
        word_vectors, "ppmi_vectors", lambda tokens, ids, scale: np.full((ids, 100), scale)
    )
    data = load_prepared(prepare("imdb_vectors", tmp_path))
    assert data.vocabulary_size == FIRST_WORD + 4  # bad, film, good, the: two times each
    assert sorted(data.word_vectors) == ["glove", "ppmi"]
    glove = data.word_vectors["glove"]
    assert glove[:, 0].tolist()[:3] == [0, 0, 0]
    assert (glove[[4, 6], 7] == [1.5, 0.5]).all()
    # Four of the twelve tokens of the training part, starts among them, are "the" or "film", all but two are words.
    assert data.substitute.startswith("GloVe's vectors for 2 of 4 words, 29% of the training")


def test_words_among_the_same_words_get_vectors_in_the_same_direction():
    rng = np.random.default_rng(0)
    cats, meals = [3, 4], [5, 6]  # either of a pair stands among the companions of that pair
    texts = []
    for _ in range(400):
        pair, others = (cats, (7, 8, 9)) if rng.random() < 0.5 else (meals, (10, 11, 12))
        texts.append([1, *rng.choice(others, 3), rng.choice(pair), *rng.choice(others, 3)])
    vectors = word_vectors.ppmi_vectors(np.array(texts), ids=13, scale=0.4, size=2)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    assert unit[3] @ unit[4] > 0.95 and unit[5] @ unit[6] > 0.95
    assert abs(unit[3] @ unit[5]) < 0.5
    assert vectors[3:].std() == pytest.approx(0.4, rel=1e-3)


def test_penn_treebank_as_words_and_as_characters(mirrored, tmp_path):
    texts = {
        "train": " the cat sat \n the mat \n" * 30,
        "valid": " the cat \n" * 40,
        "test": " the mat \n" * 40,
    }
    for part, text in texts.items():
        mirrored("ptb", f"ptb.{part}.txt.gz", gzip.compress(text.encode(), mtime=0))
    words = load_file(prepare("ptb_words", tmp_path))
    assert words.attrs["vocabulary_size"] == 5  # <eos> and the, 60 times; cat, mat, sat
    assert words["inputs"].values[0, :7].tolist() == [1, 2, 4, 0, 1, 3, 0]
    assert words["target"].values[0, :7].tolist() == [2, 4, 0, 1, 3, 0, 1]
    characters = load_file(prepare("ptb_characters", tmp_path))
    assert characters.attrs["vocabulary_size"] == len({*"the_cat_sat_mat", "<eos>"})
    first = characters["inputs"].values[0, :12]
    assert first[0] == first[10]  # t of "the" and of "sat"
    assert first[3] == first[7]  # the blanks of "the cat sat"


@pytest.mark.parametrize(
    ("name", "sequences", "shape", "outputs"),
    [
        ("switching_short", [42, 9, 9], (1000, 6), 5),
        ("beats_short", [70, 15, 15], (250, 2), 1),
        ("markov_reviews", [600, 200, 0], (80,), 4),
        ("tone_words_short", [194, 24, 24], (126, 80), 12),
    ],
)
def test_made_up_sets_for_short_runs(name, sequences, shape, outputs, tmp_path, monkeypatch):
    monkeypatch.delenv(MIRROR, raising=False)
    monkeypatch.setattr("socket.socket", lambda *a, **k: pytest.fail("asked the network"))
    first, second = (prepare(name, tmp_path / folder) for folder in "ab")
    assert first.read_bytes() == second.read_bytes()
    ds = load_file(first)
    assert np.bincount(ds["split"].values, minlength=3).tolist() == sequences
    assert (ds["inputs"].shape[1:], ds.attrs["outputs"]) == (shape, outputs)
    assert "made up" in ds.attrs["substitute"] and "stand-in" in ds.attrs["substitute"]


@pytest.mark.parametrize(
    ("name", "vocabulary_size"), [("markov_words", 101), ("markov_characters", 21)]
)
def test_made_up_streams_for_short_runs(name, vocabulary_size, tmp_path):
    ds = load_file(prepare(name, tmp_path))
    assert ds.attrs["vocabulary_size"] == vocabulary_size
    inputs, targets = (ds[v].values[ds["split"].values == 0].ravel() for v in ("inputs", "target"))
    assert np.array_equal(inputs[1:], targets[:-1])
