"""Where data come from: checksums, mirrors, downloads, archives, and readers of small files.

Downloads are real ones, from a server on the loopback interface; the publishers are never asked.
"""

import io
import os
import re
import resource
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from archives import npz, packed, rows, sha256, tarred, zipped
from PIL import Image
from sklearn.model_selection import train_test_split
from study.tasks import load_prepared, sources
from study.tasks.formats import FormatError
from study.tasks.formats.series import Series, ts_lines
from study.tasks.formats.sound import log_mel
from study.tasks.formats.wav import wav_bytes
from study.tasks.prepared import FIRST_WORD, PAD, START, UNKNOWN, load_file
from study.tasks.sources import (
    _fetch,
    _glove,
    _tokens,
    activities,
    images,
    reuters,
    reviews,
    speech,
    vitals,
    worms,
)
from study.tasks.sources._fetch import MIRROR, ChecksumError, DownloadError, from_publisher
from study.tasks.sources._table import ORIGINS, READERS, SETS, split_at_random, split_by_group
from study.tasks.standins.tone_words import write_clips
from trials.faults import OBSTACLES

RIGHT = sha256(b"content")


def _rng():
    return np.random.default_rng(0)


def _files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """The folder of a publisher on the loopback interface, and its address."""
    folder = tmp_path / "published"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def put(raw, publisher, tmp_path, monkeypatch):
    """Put an origin's files into a mirror, or at its publisher's if they are not `mirrored`.

    Their checksums are put into the table.
    """
    published, address = publisher

    def put(origin, files, mirrored=True, contents=None, trusted=True):
        row = ORIGINS[origin]
        if isinstance(files, bytes):  # of the publisher's one archive
            files = dict.fromkeys(row["published"], files)
        folder = published
        if mirrored:
            folder = tmp_path / "mirror" / origin
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        if mirrored:
            monkeypatch.setenv(MIRROR, str(folder.parent))
        else:
            monkeypatch.delenv(MIRROR, raising=False)
            monkeypatch.setitem(row, "address", address)
        if trusted:
            _state_checksums(row, files, monkeypatch)
        if contents:
            stated = {key: sha256(one) for key, one in contents.items()}
            monkeypatch.setitem(row, "contents", stated)
        return folder

    return put


def _state_checksums(row, files, monkeypatch):
    """Replace the checksums of files in an origin's row of the table."""
    for group in ("files", "mirrored", "published"):
        for name in row.get(group, {}).keys() & files.keys():
            if re.fullmatch("[0-9a-f]{64}", row[group][name]):
                monkeypatch.setitem(row[group], name, sha256(files[name]))


@pytest.fixture
def prepare(tmp_path):
    """Prepare a set, and return it as it was written."""
    return lambda name, folder="out": load_file(sources.prepare(name, tmp_path / folder))


@pytest.fixture
def both_ways(put, prepare, raw, tmp_path):
    """Prepare a set from a mirror's files and from its publisher's: the same bytes.

    An archive of other contents is removed; an altered file in the mirror is named, and stays.
    """

    def prepared(name, origin, mirrored, files, contents=None):
        put(origin, files, False, contents)
        prepare(name, "published")
        assert _files(raw)
        if contents:
            put(origin, files, False, contents | {min(contents): b"others"})
            with pytest.raises(ChecksumError, match=f"expected SHA-256 {sha256(b'others')}"):
                prepare(name, "refused")
            assert _files(raw) == [] and not (tmp_path / "refused").exists()
        path = put(origin, mirrored, contents=contents) / min(mirrored)
        path.write_bytes(b"altered")
        # In the mirror each of Reuters' files is packed, and its hash is that of the content.
        message = "expected SHA-256"
        if origin == "reuters":
            message = "cannot be unpacked"
        with pytest.raises(ChecksumError, match=f"{path.name}.* {message}"):
            prepare(name, "refused")
        assert path.read_bytes() == b"altered" and not (tmp_path / "refused").exists()
        path.write_bytes(mirrored[path.name])
        actual = prepare(name, "mirrored")
        one, other = (tmp_path / way / f"{name}.nc" for way in ("published", "mirrored"))
        assert one.read_bytes() == other.read_bytes()
        return actual

    return prepared


def test_every_source_has_a_reader(prepare):
    assert {row["reader"] for row in SETS.values()} <= set(READERS)
    with pytest.raises(ValueError, match=r"unknown data set 'mnits'; known: .*cifar10, .*digits, "):
        prepare("mnits")


def test_altered_downloads_are_repeated(raw, publisher):
    folder, address = publisher
    (folder / "a.gz").write_bytes(b"content")
    from_publisher(f"{address}a.gz", RIGHT, "toy").write_bytes(b"con")
    assert from_publisher(f"{address}a.gz", RIGHT, "toy").read_bytes() == b"content"
    (folder / "a.gz").unlink()  # nobody is asked any more
    assert from_publisher(f"{address}a.gz", RIGHT, "toy").read_bytes() == b"content"
    assert _files(raw) == ["toy/a.gz"]


def test_wrong_downloads_are_refused_and_removed(raw, publisher):
    folder, address = publisher
    with pytest.raises(DownloadError, match=rf"a.gz could not .*HTTPError.*set {MIRROR} to a fol"):
        from_publisher(f"{address}a.gz", RIGHT, "toy")
    (folder / "a.gz").write_bytes(b"altered")
    with pytest.raises(ValueError, match=rf"a.gz\) does not match .* expected {RIGHT} but got"):
        from_publisher(f"{address}a.gz", RIGHT, "toy")
    assert _files(raw) == []


REPLACED = ("link", "dangling link", "loop")
"""Obstacles that a download replaces; all others are refused, because they may hold something."""


@pytest.mark.parametrize("kind", OBSTACLES)
def test_download_does_not_follow_links(raw, publisher, tmp_path, kind):
    folder, address = publisher
    (folder / "a.gz").write_bytes(b"content")
    precious = tmp_path / "elsewhere" / "precious"
    place = raw / "toy" / "a.gz"
    precious.parent.mkdir()
    precious.write_bytes(b"con")
    place.parent.mkdir(parents=True)
    OBSTACLES[kind](place, precious)
    if kind in REPLACED:
        path = from_publisher(f"{address}a.gz", RIGHT, "toy")
        assert path.read_bytes() == b"content" and not path.is_symlink()
    else:
        with pytest.raises(DownloadError, match="a.gz is not a file but a link, a folder or a pi"):
            from_publisher(f"{address}a.gz", RIGHT, "toy")
    assert precious.read_bytes() == b"con" and list(precious.parent.iterdir()) == [precious]


def test_full_disk_leaves_no_download(raw, publisher):
    folder, address = publisher
    (folder / "a.gz").write_bytes(bytes(100_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))  # larger files fail to grow
    try:
        with pytest.raises(DownloadError, match=r"a.gz could not be stored in .* make room"):
            from_publisher(f"{address}a.gz", RIGHT, "toy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert _files(raw) == []


def test_damaged_mirror_files_are_refused_and_kept(put, prepare):
    path = put("eigenworms", {"EigenWorms.zip": b"content"}) / "EigenWorms.zip"
    with pytest.raises(FormatError, match=r"EigenWorms.zip is truncated or not a zip or tar"):
        prepare("eigenworms")
    assert path.exists()


def test_incomplete_mirrors_are_explained(put, prepare, tmp_path, monkeypatch):
    put("mnist", {})
    with pytest.raises(FileNotFoundError, match=r"the mirror has no mnist/train-images"):
        prepare("mnist")
    monkeypatch.setenv(MIRROR, str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=f"{MIRROR} is '.*nowhere', which is not a folder"):
        prepare("mnist")


def _idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return packed(header + array.astype(np.uint8).tobytes())


def test_idx_images_are_read_as_pixels(both_ways):
    drawn = np.arange(12).reshape(2, 2, 3) * 20
    labels = np.array([1, 0])
    files = {}
    for name in ORIGINS["mnist"]["files"]:
        if "images" in name:
            files[name] = _idx(drawn)
        else:
            files[name] = _idx(labels)
    ds = both_ways("mnist", "mnist", files, files)
    assert ds["inputs"].values[0, :, 0].tolist() == [0, 20, 40, 60, 80, 100]
    assert ds["target"].values.tolist() == [1, 0, 1, 0]
    assert ds["split"].values.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("content", [b"text", packed(b"text")[:-3], b"\x1f\x8b" + bytes(30)])
def test_damaged_packed_files_are_named(content, tmp_path):
    path = tmp_path / "reut2-000.sgm.gz"
    path.write_bytes(content)
    with pytest.raises(ChecksumError, match="reut2-000.sgm.gz cannot be unpacked .*is truncated"):
        _fetch.unpacked(path)


def test_cifar10_from_publisher(put, prepare):
    planes = _rng().integers(0, 256, (6, 4, 3, 32, 32), dtype=np.uint8)
    labels = _rng().integers(0, 10, (6, 4), dtype=np.uint8)
    records = np.concatenate([labels[..., None], planes.reshape(6, 4, -1)], axis=2)
    parts = zip([*images.BATCHES, images.TEST], map(bytes, records), strict=True)
    put("cifar10", tarred({f"cifar-10-batches-bin/{n}.bin": of for n, of in parts}), mirrored=False)
    ds = prepare("cifar10")
    assert ds["inputs"].shape == (24, 1024, 3)
    assert ds["target"].values.tolist() == labels.ravel().tolist()
    # Row 2, column 5 of the third image: red, green, blue.
    assert ds["inputs"].values[2, 2 * 32 + 5].tolist() == planes[0, 2, :, 2, 5].tolist()
    assert ds.attrs["substitute"] == ""


def _strips(images, height=2):
    """Images one below the other in lossless WebP pictures, as the mirror packs them."""
    streams = []
    for k in range(0, len(images), height):
        stream = io.BytesIO()
        picture = images[k : k + height].reshape(-1, 32, 3)
        Image.fromarray(picture).save(stream, "WEBP", lossless=True)
        streams.append(np.frombuffer(stream.getvalue(), np.uint8))
    return np.concatenate(streams), np.cumsum([0, *map(len, streams)])


def test_cifar10_from_mirror_has_exact_pixels(put, prepare):
    drawn = _rng().integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    webp, offsets = _strips(drawn)
    labels = np.array([3, 7, 1, 0], np.uint8)
    exact = np.array([True, True, False, True])
    about = {"offsets": offsets, "labels": labels, "exact": exact}
    pickled = npz(webp=np.array([{}], object), **about)
    put("cifar10", dict.fromkeys(images.EXACT.values(), pickled))
    with pytest.raises(ValueError, match=r"allow_pickle=False"):
        prepare("cifar10")
    put("cifar10", dict.fromkeys(images.EXACT.values(), npz(webp=webp, **about)))
    ds = prepare("cifar10")
    assert ds["target"].values.tolist() == [3, 7, 0] * 2
    assert np.array_equal(ds["inputs"].values[:3], drawn[exact].reshape(3, 1024, 3))
    assert ds.attrs["substitute"].startswith("3 of 50,000 training images and 3 of 10,000 test")


def _yelp(rows):
    lines = [f'"{text}",Business Category: Pets,Review Stars: {stars}.0' for text, stars in rows]
    return packed("\n".join(["text,label1,label2", *lines]))


YELP = {
    "augpe_dev.csv.gz": _yelp([("good dog, really", 5), ("bad", 1), ("good, too", 4)]),
    "augpe_test.csv.gz": _yelp([("bad dog", 2), ("so so\nand more", 3)]),
    "academic_head.jsonl.gz": packed(
        '{"stars": 3, "text": "so so\\nand more"}\n{"stars": 1, "text": "bad"}\n'
        '{"stars": 2, "text": "bad food"}\n'
    ),
}


def test_yelp_from_mirror_has_five_classes(put, prepare):
    put("yelp", YELP)
    ds = prepare("yelp5")
    # A training review is kept once, and not at all if it is a test review.
    assert ds["target"].values.tolist() == [4, 0, 3, 1, 1, 2]
    assert ds["split"].values.tolist() == [0] * 4 + [1] * 2
    assert ds.attrs["substitute"].startswith("4 training and 2 test reviews of Yelp")


def test_yelp_from_publisher(put, prepare, monkeypatch):
    rows = '"1","bad\\nfood"\n"5","good ""really"""\n'
    archive = {f"yelp_review_full_csv/{part}.csv": rows.encode() for part in ("train", "test")}
    put("yelp", tarred(archive, "gz"), mirrored=False)
    with pytest.raises(ChecksumError, match=r"expected .*650000.* reviews, got .*'train': 2"):
        prepare("yelp5")
    monkeypatch.setattr(reviews, "YELP_FULL", {"train": 2, "test": 2})
    put("yelp", tarred(archive, "gz"), mirrored=False)
    ds = prepare("yelp5")
    assert ds["target"].values.tolist() == [0, 4, 0, 4] and ds.attrs["substitute"] == ""


def test_ucr_worms_from_mirror_and_publisher(put, prepare, monkeypatch):
    files = {
        "Worms_TRAIN.tsv.gz": packed("1\t0.5\t1.5\n5\t2\t-3\n"),
        "Worms_TEST.tsv.gz": packed("2\t1e-1\t0\n"),
    }
    put("ucr_worms", files)
    ds = prepare("ucr_worms")
    assert ds["inputs"].values[..., 0].tolist() == [[0.5, 1.5], [2, -3], [np.float32(0.1), 0]]
    assert ds["target"].values.tolist() == [0, 4, 1] and "relative" in ds.attrs["substitute"]
    header = "@classLabel true 1 2 3 4 5\n@data\n"
    archive = {
        "Worms_TRAIN.ts": f"{header}0.5,1.5:1\n2,-3:5\n".encode(),
        "Worms_TEST.ts": f"{header}1e-1,0:2\n".encode(),
    }
    put("ucr_worms", zipped(archive), mirrored=False)
    with pytest.raises(ChecksumError, match=r"expected 258 series of 900 steps, got \(3, 2\)"):
        prepare("ucr_worms")
    for name, value in {"UCR_SHAPE": (3, 2), "UCR_TRAIN": 2}.items():
        monkeypatch.setattr(worms, name, value)
    put("ucr_worms", zipped(archive), mirrored=False)
    again = prepare("ucr_worms", "again")
    assert again.identical(ds)


def _zigzag(samples):
    """The two bytes of the zigzag-coded first difference, as the mirror packs clips."""
    difference = np.diff(samples, axis=1, prepend=np.int16(0)).astype(np.int16)
    codes = (difference.astype(np.int32) << 1 ^ difference.astype(np.int32) >> 15) & 0xFFFF
    return (codes & 0xFF).astype(np.uint8), (codes >> 8).astype(np.uint8)


def test_clips_are_unpacked_losslessly():
    samples = _rng().integers(-(2**15), 2**15, (3, 50)).astype(np.int16)
    assert np.array_equal(speech.unpacked_clips(*_zigzag(samples)), samples)


def _test_set(speakers=20):
    samples = _rng().normal(size=(12 * speakers, 16000)).astype(np.int16)
    low, high = _zigzag(samples)
    label = np.tile(np.arange(12, dtype=np.uint8), speakers)
    speaker = np.repeat([f"{k:08x}" for k in range(speakers)], 12)
    speaker[label == speech.SILENCE] = ""
    name = np.array([f"clip {k}" for k in range(len(label))])
    words = np.array(["_unknown_", "_silence_", *speech.COMMANDS])
    return npz(lo=low, hi=high, label=label, speaker=speaker, name=name, words=words), speaker


def test_official_speech_test_set_is_split_by_speaker(put, prepare):
    content, speaker = _test_set()
    put("speech_commands", {speech.TEST_SET: content})
    ds = prepare("keywords12")
    assert ds["inputs"].shape == (240, 126, 80)
    assert "240 clips of the official test set of version 0.02" in ds.attrs["substitute"]
    energies = prepare("keywords12_energies")
    assert energies["inputs"].shape == (220, 99, 32)
    assert np.bincount(energies["target"].values).tolist() == [20] * 11
    speakers = [set(speaker[mask]) - {""} for mask in split_by_group(speaker).values()]
    assert all(speakers), "every part has speakers"
    assert sum(map(len, speakers)) == len(set.union(*speakers)) == 20, "no speaker is in two parts"


@pytest.mark.parametrize(
    ("origin", "name", "dataset"),
    [
        ("cifar10", "cifar10_test_exact.npz", "cifar10"),
        ("speech_commands", speech.TEST_SET, "keywords12"),
        ("yelp", "academic_head.jsonl.gz", "yelp5"),
        ("ucr_worms", "Worms_TEST.tsv.gz", "ucr_worms"),
        ("glove", "glove.6B.50d.sub.npz", "imdb_vectors"),
    ],
)
def test_damaged_or_missing_mirror_files_are_named(
    put, prepare, monkeypatch, tmp_path, origin, name, dataset
):
    webp, offsets = _strips(np.zeros((2, 32, 32, 3), np.uint8))
    cifar = npz(webp=webp, offsets=offsets, labels=np.zeros(2, np.uint8), exact=np.ones(2, bool))
    files = {
        "cifar10": dict.fromkeys(images.EXACT.values(), cifar),
        "speech_commands": {speech.TEST_SET: b"clips"},
        "yelp": YELP,
        "ucr_worms": dict.fromkeys(("Worms_TRAIN.tsv.gz", "Worms_TEST.tsv.gz"), packed("1\t2\n")),
        "imdb": _packed_reviews(
            {"train": {"neg/0_1": "a", "pos/0_9": "b"}, "test": {"neg/0_1": "a"}}
        ),
        "glove": {_glove.HEAD: packed("a " + "1 " * 99 + "1\n"), _glove.SELECTION: b"vectors"},
    }
    monkeypatch.setitem(SETS["imdb_vectors"]["settings"], "vocabulary_size", FIRST_WORD + 2)
    for one, content in files.items():
        put(one, content)
    path = tmp_path / "mirror" / origin / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ChecksumError, match=f"{origin}/{name}: expected SHA-256 .* truncated"):
        prepare(dataset)
    path.unlink()
    if origin != "speech_commands":  # without the clips tone words stand in
        with pytest.raises(FileNotFoundError, match=f"the mirror has no {origin}/{name}; unset"):
            prepare(dataset)


def test_digits_keep_proportion_of_noise(tmp_path):
    data = load_prepared(sources.prepare("digits", tmp_path))
    assert data.noise_inputs == round(1000 * 64 / 784)
    for part in (data.train, data.test):
        assert np.abs(np.bincount(part.targets, minlength=10) / len(part) - 0.1).max() < 0.02
    assert not set(map(bytes, data.train.inputs)) & set(map(bytes, data.test.inputs))


def _encoded(train, test, **more):
    actual = _tokens.encode((train, 0), (test, 1), **more)
    return actual["train"][0], actual["test"][0]


def test_words_are_numbered_by_training_frequency():
    train, test = _encoded(["b a b", "b c a"], ["a z z z b"])
    b = FIRST_WORD
    a = FIRST_WORD + 1
    c = FIRST_WORD + 2
    assert (train.shape, train.dtype) == ((2, 500), np.int32)
    assert train[:, -4:].tolist() == [[START, b, a, b], [START, b, c, a]]
    assert (train[:, :-4] == PAD).all()
    assert test[0, -6:].tolist() == [START, a, UNKNOWN, UNKNOWN, UNKNOWN, b]
    # A vocabulary and a length of its own: a longer text keeps its end.
    train, test = _encoded(["b a b c", "a b"], ["c d"], size=b + 2, length=3)
    assert train.tolist() == [[a, b, UNKNOWN], [START, a, b]]
    assert test.tolist() == [[START, UNKNOWN, UNKNOWN]]


def _packed_reviews(parts):
    files = {}
    for part, texts in parts.items():
        lines = [f"{label}\t{text}\n" for label, text in texts.items()]
        files[f"aclImdb_{part}.txt.gz"] = packed("".join(lines))
    return files


def _tarred_reviews(parts):
    """Return the publisher's archive, in another order and with what no reader wants."""
    contents = {
        "aclImdb/train/pos/7_9.txt": "/etc/hostname",  # a link
        "aclImdb/train/unsup/0_0.txt": b"no label",
        "aclImdb/train/labeledBow.feat": b"1 2:3",
    }
    for part, texts in parts.items():
        for name, text in reversed(texts.items()):
            contents[f"aclImdb/{part}/{name}.txt"] = text.encode()
    return tarred(contents)


def test_imdb_from_mirror_and_publisher(both_ways, prepare):
    reviews = {
        "train": {"neg/0_2": "Bad.<br />Very\tbad", "neg/10_1": "Awful", "pos/2_9": "Très good"},
        "test": {"neg/0_3": "bad", "pos/0_8": "good"},
    }
    ds = both_ways("imdb", "imdb", _packed_reviews(reviews), _tarred_reviews(reviews))
    assert ds["target"].values.tolist() == [0, 0, 1, 0, 1]
    _, bad, very, again = ds["inputs"].values[0, -4:].tolist()
    assert bad == again != very


def _document(number, topics, title, body):
    topics = "".join(f"<D>{topic}</D>" for topic in topics)
    text = f"&#2;\n{body}\n&#3;"
    if title:
        text = f"<TITLE>{title}</TITLE>\n<BODY>{body}\n&#3;</BODY>"
    return (
        f'<REUTERS TOPICS="YES" NEWID="{number}">\n<TOPICS>{topics}</TOPICS>\n'
        f'<PLACES><D>usa</D></PLACES>\n<TEXT TYPE="NORM">{text}</TEXT>\n</REUTERS>\n'
    )


def test_document_has_topic_title_and_body():
    actual = reuters.parse(
        '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'
        + _document(1, ["grain", "wheat"], "WHEAT UP", "Up 3 pct &lt;X> said")
        + _document(2, [], "NO TOPIC", "at all")
        + _document(3, ["earn"], "", "unprocessed text")
    )
    message = [(topic, " ".join(_tokens.words(text))) for topic, text in actual]
    assert message == [("grain", "wheat up up 3 pct x said"), ("earn", "unprocessed text")]


def _sgml(i):
    """Return file number i of Reuters, with twelve documents."""
    documents = []
    for k in range(12):
        topic = "acq" if k % 3 else "earn"
        documents.append(_document(100 * i + k, [topic], f"caf\xe9 {i}", f"text {k}"))
    return "".join(documents).encode("latin-1")


SGML = {f"reut2-{i:03}.sgm": _sgml(i) for i in range(22)}
FIRST = next(iter(SGML))


def _reuters(contents):
    return zipped({"reuters21578.tar.gz": tarred(contents)})


def test_reuters_from_mirror_and_publisher(both_ways, put, prepare):
    files = {f"{name}.gz": packed(content) for name, content in SGML.items()}
    ds = both_ways("reuters", "reuters", files, _reuters(SGML), SGML)
    labels = ds["target"].values
    test = ds["split"].values == 1
    assert np.bincount(labels).tolist() == [176, 88]
    assert np.bincount(labels[test]).tolist() == [44, 22], "a quarter of each topic is for testing"
    put("reuters", {f"{FIRST}.gz": packed("altered")})
    with pytest.raises(ChecksumError, match=f"{FIRST}: expected SHA-256 .*, got"):
        prepare("reuters")


def test_review_vectors_report_glove_coverage(put, tmp_path, monkeypatch):
    reviews = {
        "train": {"neg/0_1": "bad bad film of the year", "pos/0_7": "the good good film"},
        "test": {"neg/0_2": "the bad", "pos/0_9": "the good"},
    }
    values = {"the": 0.5, "film": 1.5, "odd": 9}
    lines = {}
    for size in (50, 100):
        rows = [f"{word} {' '.join([str(value)] * size)}\n" for word, value in values.items()]
        lines[size] = "".join(rows)
    selection = npz(
        words=np.frombuffer("\n".join(values).encode(), np.uint8),
        vectors=np.array([[v] * 50 for v in values.values()], np.float32),
        rank=np.arange(3),
    )
    put("imdb", _packed_reviews(reviews))
    put("glove", {_glove.HEAD: packed(lines[100]), _glove.SELECTION: selection})
    monkeypatch.setitem(SETS["imdb_vectors"]["settings"], "vocabulary_size", FIRST_WORD + 4)
    data = load_prepared(sources.prepare("imdb_vectors", tmp_path))
    assert data.vocabulary_size == FIRST_WORD + 4  # bad, film, good, the: two times each
    assert {name: array.shape for name, array in data.word_vectors.items()} == {
        "glove": (7, 100),
        "glove_50": (7, 50),
    }
    glove = data.word_vectors["glove"]
    shorter = data.word_vectors["glove_50"]
    assert shorter[[4, 6], 7].tolist() == [1.5, 0.5]
    assert glove[:3, 0].tolist() == [0, 0, 0] and glove[[4, 6], 7].tolist() == [1.5, 0.5]
    assert glove[[3, 5]].all()
    # Of the twelve tokens of the training part, two of them starts, four are "the" or "film".
    assert data.substitute.startswith(
        "GloVe's vectors of 100 numbers for 2 of 4 words, 33% of the training"
    )
    put("imdb", _tarred_reviews(reviews), mirrored=False)
    put("glove", zipped({f"glove.6B.{n}d.txt": text for n, text in lines.items()}), mirrored=False)
    again = load_prepared(sources.prepare("imdb_vectors", tmp_path))
    assert np.array_equal(again.word_vectors["glove"], glove)
    assert np.array_equal(again.word_vectors["glove_50"], shorter)


def test_penn_treebank_as_words_and_as_characters(both_ways, prepare):
    parts = {
        "ptb.train.txt": b" the cat sat \n the mat \n" * 30,
        "ptb.valid.txt": b" the cat \n" * 40,
        "ptb.test.txt": b" the mat \n" * 40,
    }
    files = {f"{name}.gz": packed(text) for name, text in parts.items()}
    words = both_ways("ptb_words", "ptb", files, parts)
    assert words.attrs["vocabulary_size"] == 5  # <eos> and the, 60 times; cat, mat, sat
    assert words["inputs"].values[0, :7].tolist() == [1, 2, 4, 0, 1, 3, 0]
    assert words["target"].values[0, :6].tolist() == [2, 4, 0, 1, 3, 0]
    characters = prepare("ptb_characters")
    assert characters.attrs["vocabulary_size"] == len({*"the_cat_sat_mat", "<eos>"})
    first = characters["inputs"].values[0, :12]
    # t of "the" and of "sat"; the blanks of "the cat sat"
    assert (first[0], first[3]) == (first[10], first[7])


def _recordings():
    labels = [(1, 1, 5, 11, 202), (1, 1, 7, 203, 400), (2, 2, 6, 1, 128), (2, 2, 1, 129, 255)]
    return {
        "signals": _rng().normal(size=(900, 6)).round(3).astype(np.float32),
        "offsets": np.array([0, 450, 900]),
        "experiment": np.array([1, 2], np.int32),
        "user": np.array([1, 2], np.int32),
        "labels": np.array(labels, np.int32),
    }


def test_activity_windows_lie_inside_intervals():
    raw = _recordings()
    inputs, targets, user = activities.windows(raw)
    # Windows: two of 192 samples of standing, none of a transition, one of 128 samples of laying,
    # none of 127 samples of walking.
    assert (targets.tolist(), user.tolist()) == ([1, 1, 0], [1, 1, 2])
    whole = activities.filter_signals(raw["signals"][:450])
    assert np.array_equal(inputs[:2], [whole[10:138], whole[74:202]])


def test_filters_separate_gravity_and_remove_noise():
    slow, middle, fast = (np.sin(2 * np.pi * f * np.arange(3000) / 50) for f in (0.02, 1, 24.5))
    signals = np.tile((slow + middle + 0.1 * fast)[:, None], (1, 6))
    body, angular, total = np.split(activities.filter_signals(signals), 3, axis=1)
    inside = slice(500, -500)
    for actual, waves in ((body, middle), (angular, slow + middle), (total, slow + middle)):
        assert np.abs(actual[inside, 0] - waves[inside]).max() < 0.1


def test_har2_from_mirror_and_publisher(both_ways):
    recorded = _recordings()
    files = {"HAPT/RawData/labels.txt": rows(recorded["labels"], " ").replace(".000", "")}
    for k, part in enumerate(np.split(recorded["signals"], 2), 1):
        for sensor, columns in (("acc", part[:, :3]), ("gyro", part[:, 3:])):
            files[f"HAPT/RawData/{sensor}_exp0{k}_user0{k}.txt"] = rows(columns, " ")
    contents = {"signals": recorded["signals"].tobytes()}
    ds = both_ways("har2", "hapt", {"hapt_raw.npz": npz(**recorded)}, zipped(files), contents)
    train = ds["inputs"].values[ds["split"].values == 0]
    assert np.abs(train.mean((0, 1))).max() < 1e-5
    assert np.abs(train.std((0, 1)) - 1).max() < 1e-4
    assert "HAPT" in ds.attrs["substitute"]


def test_dsa19_from_mirror_and_publisher(put, prepare):
    keys = [(a, p, s) for a in (1, 2) for p in (1, 5) for s in (1, 2, 5)]
    segments = dict(zip(keys, _rng().normal(size=(12, 125, 45)).round(3).astype("f4"), strict=True))
    quarter = [key for key in keys if key[2] % 4 == 1]
    values = np.stack([segments[key] for key in quarter])
    numbers = values.transpose(0, 2, 1).copy().view(np.uint8).reshape(8, 45, 125, 4)
    activity, subject, segment = np.array(quarter, np.uint8).T
    about = {"activity": activity, "subject": subject, "segment": segment}
    content = npz(float32_byte_planes=np.moveaxis(numbers, -1, 0), **about)
    put("dsa", {"dsa_every4th_segment.npz": content})
    ds = prepare("dsa19")
    assert ds["target"].values.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert ds["split"].values.tolist() == [0] * 4 + [1] * 4
    train = values[subject <= 4]
    expected = (train - train.mean((0, 1))) / train.std((0, 1))
    assert np.allclose(ds["inputs"].values[:4], expected, atol=1e-5)
    files = {f"data/a{a:02}/p{p}/s{s:02}.txt": rows(segments[a, p, s]) for a, p, s in keys}
    put("dsa", zipped(files), False, {"quarter": values.tobytes()})
    whole = prepare("dsa19", "whole")
    assert whole.sizes["sample"] == 12
    assert (whole.attrs["substitute"], ds.attrs["substitute"][:12]) == ("", "every fourth")


def _vitals(patients, seconds):
    rng = _rng()
    each = np.arange(seconds + 1, dtype=np.float32)
    shape = patients, 125 * seconds + 1
    raw = {n: rng.normal(size=shape).round(3).astype(np.float32) for n in ("pleth", "ecg_ii")}
    raw["hr"] = each + 1000 * np.arange(patients, dtype=np.float32)[:, None]
    raw["resp_rate"] = np.full((patients, seconds + 1), 15, np.float32)
    raw["hr"][3, 31 + 3 * 2] = np.nan
    return raw


def test_vital_sign_windows_and_their_rates():
    raw = _vitals(5, 480)
    inputs, targets, patient = vitals.windows(raw, "hr")
    assert inputs.shape == (5 * 150 - 1, 4000, 2)
    assert np.bincount(patient).tolist() == [150] * 3 + [149, 150]
    assert targets[[0, 1, 149], 0].tolist() == [31, 34, 3 * 149 + 31]
    assert np.array_equal(inputs[2, :, 0], raw["pleth"][0, 750:4750])
    assert np.array_equal(inputs[150, :, 1], raw["ecg_ii"][1, :4000])
    assert len(vitals.windows(raw, "resp_rate")[0]) == 750


def test_splits_cover_all_windows_once():
    patient = np.repeat(np.arange(53), 150)
    for parts in (split_at_random(7950), split_by_group(patient)):
        covered = np.concatenate([np.arange(7950)[part] for part in parts.values()])
        assert sorted(covered) == [*range(7950)]
        shares = [len(patient[part]) / 7950 for part in parts.values()]
        assert shares == pytest.approx([0.7, 0.15, 0.15], abs=0.01)
    assert sum(len(set(patient[part])) for part in parts.values()) == 53


def test_vital_signs_from_mirror_and_publisher(both_ways, monkeypatch):
    monkeypatch.setattr(vitals, "WINDOWS", 4)
    raw = _vitals(7, 50)
    files = {}
    for k in range(7):
        signals = zip(raw["pleth"][k], raw["ecg_ii"][k], strict=True)
        lines = "\n".join(f"0,0,{a:.3f},0,0,{b:.3f}" for a, b in signals)
        name = f"bidmc/csv/bidmc_0{k + 1}"
        files[f"{name}_Signals.csv"] = f"Time [s], RESP, PLETH, V, AVR, II\n{lines}"
        rates = zip(raw["hr"][k], raw["resp_rate"][k], strict=True)
        lines = "\n".join(f"0,{'-' if np.isnan(a) else a},0,{b},0" for a, b in rates)
        files[f"{name}_Numerics.csv"] = f"Time [s], HR, PULSE, RESP, SpO2\n{lines}"
    contents = {name: part.tobytes() for name, part in raw.items()}
    mirrored = {"bidmc_53x480s.npz": npz(**raw)}
    ds = both_ways("heart_rate_by_patient", "bidmc", mirrored, zipped(files), contents)
    who = ds["target"].values[:, 0] // 1000
    assert sum(len(set(who[ds["split"].values == k])) for k in range(3)) == 7


def _worms(size, time_steps):
    """Return the two files of the archive, by name, and the series in them."""
    drawn = []
    for part in (3 * size // 5, 2 * size // 5):
        inputs = _rng().normal(size=(part, time_steps, 6)).round(3).astype(np.float32)
        drawn.append(Series(inputs, np.arange(part) % 5, ("1", "2", "3", "4", "5")))
    names = (f"EigenWorms/EigenWorms_{part}.ts" for part in ("TRAIN", "TEST"))
    files = {n: "\n".join(ts_lines(s)) for n, s in zip(names, drawn, strict=True)}
    return files, np.concatenate([series.inputs for series in drawn])


WORMS, MOVEMENTS = _worms(20, 7)
TRAINING, TESTING = WORMS.values()
OTHERS = TESTING.replace("true 1 2", "true 0 1 2")
SHORTER = "@classLabel true 1 2 3 4 5\n@data\n1:2:3:4:5:6:1\n"


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(worms, "SHAPE", (20, 7))


@pytest.mark.usefixtures("few")
def test_eigenworms_from_mirror_split_as_programs_do(put, prepare):
    put("eigenworms", {"EigenWorms.zip": zipped(WORMS)})
    ds = prepare("eigenworms")
    ours, rest = train_test_split(MOVEMENTS, test_size=0.3, random_state=1234)
    validation, tested = train_test_split(rest, test_size=0.5, random_state=1234)
    assert np.allclose(ds["inputs"].values, np.concatenate([ours, tested, validation]))
    assert ds.attrs["substitute"] == ""


def _half(second, why):
    archive = zipped({"EigenWorms_TRAIN.ts": TRAINING} | second)
    return "eigenworms", archive, None, f"not the expected archive .*{why}.* deleted"


@pytest.mark.parametrize(
    ("name", "archive", "contents", "sentence"),
    [
        (
            "reuters",
            _reuters(dict(list(SGML.items())[:5])),
            SGML,
            "contain reut2-005.sgm.* run again",
        ),
        _half({}, "does not contain EigenWorms_TEST.ts"),
        _half({"EigenWorms_TEST.ts": SHORTER}, "TEST.ts, line 3: .*'6 dimensions of 1 values'"),
        _half({"EigenWorms_TEST.ts": OTHERS}, "TEST.ts, line 1: .* got '@classLabel true 0 1 2"),
        _half({"EigenWorms_TEST.ts": TRAINING}, "expected 20 series of 7 steps"),
    ],
    ids=["incomplete", "half", "shorter", "others", "more"],
)
@pytest.mark.usefixtures("few")
def test_wrong_archive_is_removed(put, prepare, raw, tmp_path, name, archive, contents, sentence):
    if name == "eigenworms":
        archive = {"EigenWorms.zip": archive}
    put(name, archive, False, contents)
    with pytest.raises(ChecksumError, match=sentence) as error:
        prepare(name)
    assert "\n" not in str(error.value)
    assert _files(raw) == [] and not (tmp_path / "out").exists()


def test_archive_is_kept_if_memory_runs_out(tmp_path, monkeypatch):
    def fail(path):
        raise MemoryError

    monkeypatch.delenv(MIRROR, raising=False)
    path = tmp_path / "a.zip"
    path.write_bytes(b"content")
    with pytest.raises(MemoryError):
        _fetch.read_or_remove(path, fail)
    assert path.exists()


@pytest.fixture(scope="module")
def tones():
    return dict(write_clips(("yes", "no", "bed"), clips=10, speakers=10, seed=1))


def _features(samples):
    return log_mel(samples)[:, :2]


def test_clips_are_split_by_official_lists(tones):
    ours = speech.CLASSES["lem"]
    theirs = speech.CLASSES["edgeml"]
    parts = speech.read_clips(tones.items(), ours, _features)
    # Of ten speakers one is for validation and one for testing; noise is silence, and trains.
    counts = {part: np.bincount(targets).tolist() for part, (_, targets) in parts.items()}
    assert counts["train"] == [8, 2, 8, 8] and counts["validation"] == [1, 0, 1, 1]
    assert parts["test"][1].tolist() == [0, 3, 2]  # bed, no, yes
    without = speech.read_clips(tones.items(), theirs, _features)
    assert np.bincount(without["train"][1]).tolist() == [8, 8, 8]
    assert [ours[word] for word in ("yes", "go", "bed", "_background_noise_")] == [2, 11, 0, 1]
    assert [theirs[word] for word in ("yes", "go", "bed")] == [1, 10, 0]
    assert (len(ours), len(theirs), len(set(speech.WORDS))) == (36, 30, 30)


def test_speech_commands_from_mirror(tones, put, prepare):
    put("speech_commands", {"speech_commands_v0.01.tar.gz": tarred(tones)})
    ds = prepare("keywords30")
    train = ds["inputs"].values[ds["split"].values == 0]
    assert train.shape == (24, 99, 32)
    assert np.abs(train.mean(0)).max() < 1e-4 and np.abs(train.std(0) - 1).max() < 1e-3
    assert ds.attrs["substitute"] == ""


def test_unexpected_clips_are_named():
    clip = "yes/1_nohash_0.wav", wav_bytes(np.zeros(9), 8000)
    with pytest.raises(FormatError, match="yes/1_nohash_0.wav: expected 1 channel"):
        speech.read_clips([clip], {"yes": 0}, _features)


@pytest.mark.parametrize(
    ("name", "sequences", "shape", "outputs"),
    [
        ("digits", [1348, 449, 0], (64, 1), 10),
        ("switching_short", [42, 9, 9], (1000, 6), 5),
        ("beats_short", [70, 15, 15], (250, 2), 1),
        ("markov_reviews", [600, 200, 0], (80,), 4),
        ("markov_words", [422, 62, 60], (50,), 101),
        ("markov_characters", [2091, 309, 296], (50,), 21),
        ("tone_words_short", [194, 24, 24], (126, 80), 12),
    ],
)
@pytest.mark.usefixtures("raw")
def test_synthetic_and_packaged_data_are_reproducible(
    prepare, name, sequences, shape, outputs, tmp_path, monkeypatch
):
    monkeypatch.setattr("socket.socket", lambda *a, **k: pytest.fail("asked the network"))
    ds, _ = (prepare(name, folder) for folder in "ab")
    first, second = ((tmp_path / folder / f"{name}.nc").read_bytes() for folder in "ab")
    assert first == second
    assert np.bincount(ds["split"].values, minlength=3).tolist() == sequences
    assert (ds["inputs"].shape[1:], ds.attrs["outputs"]) == (shape, outputs)
    if name != "digits":
        assert "made up" in ds.attrs["substitute"] and "stand-in" in ds.attrs["substitute"]
    if ds.attrs["target"] == "steps":
        inputs, targets = (ds[v].values[ds["split"] == 0].ravel() for v in ("inputs", "target"))
        assert np.array_equal(inputs[1:], targets[:-1])


def test_stand_ins_are_named_as_synthetic(put, prepare, monkeypatch):
    put("mnist", {})
    smaller = {(worms, "SHAPE"): (20, 30), (speech, "CLIPS"): 5}
    for (module, name), value in (smaller | {(speech, "SPEAKERS"): 5}).items():
        monkeypatch.setattr(module, name, value)
    shapes = {"EigenWorms": (20, 30, 6), "Speech Commands": (12 * 5 + 2, 126, 80)}
    for name, (of, shape) in zip(("eigenworms", "keywords12"), shapes.items(), strict=True):
        ds = prepare(name)
        assert ds["inputs"].shape == shape
        assert f"stand-in for {of}" in ds.attrs["substitute"]


# Sizes of training, validation and test part, shape of an input sequence, outputs, and frequency
# of the rarest class.
EXPECTED = {
    "mnist": (60_000, 0, 10_000, (784, 1), 10, 6_313),
    "fashion_mnist": (60_000, 0, 10_000, (784, 1), 10, 7_000),
    # The mirror has the exact pixels of the first 15,000 and of all test images, but for 33.
    "cifar10": (14_987, 0, 9_980, (1024, 3), 10, None),
    "keywords12": (2_036, 396, 448, (126, 80), 12, 240),
    "yelp5": (8_610, 0, 5_000, (300,), 5, None),
    "ucr_worms": (181, 0, 77, (900, 1), 5, 25),
    "imdb": (25_000, 0, 25_000, (500,), 2, 25_000),
    # The dissertation's smallest test part has about 2,800 sequences (3.5).
    "reuters": (8_421, 0, 2_807, (500,), 46, 16),
    "har2": (7_415, 0, 2_996, (128, 9), 2, None),
    "dsa19": (1_140, 0, 1_140, (125, 45), 19, 120),
    "heart_rate": (5_565, 1_192, 1_192, (4000, 2), 1, None),
    "ptb_words": (18_591, 1_475, 1_648, (50,), 10_000, None),
    "ptb_characters": (100_349, 7_860, 8_848, (50,), 50, None),
}


@pytest.mark.skipif(
    not os.environ.get(MIRROR), reason=f"{MIRROR} is not set, so the real files are not at hand"
)
@pytest.mark.parametrize("name", EXPECTED)
def test_real_data_match_their_publishers(name, prepare):
    ds = prepare(name)
    *parts, shape, outputs, rarest = EXPECTED[name]
    assert [(ds["split"].values == part).sum() for part in (0, 2, 1)] == parts
    assert (ds["inputs"].shape[1:], ds.attrs["outputs"]) == (shape, outputs)
    if rarest:
        assert np.bincount(ds["target"].values).min() == rarest
    if ds.attrs["kind"] != "series":
        assert ds["inputs"].values.max() == ds["inputs"].attrs["valid_max"]
        assert ds["inputs"].values.min() == 0
