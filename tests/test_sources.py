"""Where data come from: checksums, mirrors, downloads, archives, and what each reader makes of images and texts.

Downloads are real ones, from a server on the loopback interface; the publishers are never asked.
"""

import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import textwrap
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image

from lib.paths import ROOT
from lib.results.names import label
from lib.run.params import read_params
from lib.tasks import load_prepared
from lib.tasks.formats import FormatError
from lib.tasks.prepared import FIRST_WORD, PAD, START, UNKNOWN, load_file
from lib.tasks.sources import _fetch, images, prepare, source_names, texts
from lib.tasks.sources._fetch import MIRROR, ChecksumError, DownloadError, from_publisher
from lib.tasks.sources._table import ORIGINS, READERS, SETS
from lib.training.profile import load_profile


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv(MIRROR, str(folder))
    return folder


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """The folder that takes the place of data/raw; no mirror is set."""
    monkeypatch.delenv(MIRROR, raising=False)
    monkeypatch.setattr(_fetch, "DATA", tmp_path / "data")
    return tmp_path / "data" / "raw"


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A publisher's folder and its address; requests counts what was asked for."""
    folder = tmp_path / "publisher"
    folder.mkdir()
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            wanted = self.headers.get("Range")
            asked.append(f"{self.path} {wanted}" if wanted else self.path)
            if not wanted:
                super().do_GET()
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            content = (folder / self.path[1:]).read_bytes()
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:])

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/", asked
    server.shutdown()
    server.server_close()
    thread.join()


def _files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def _state(monkeypatch, origin, group, contents):
    """Let the table state the checksums of these contents, none where a content is None."""
    stated = {name: _sha256(content) if content else "" for name, content in contents.items()}
    monkeypatch.setitem(ORIGINS[origin], group, stated)


def _mirrored(mirror, monkeypatch, origin, contents, group="mirrored"):
    """Put files into the mirror, and their checksums into the table."""
    (mirror / origin).mkdir(exist_ok=True)
    for name, content in contents.items():
        (mirror / origin / name).write_bytes(content)
    _state(monkeypatch, origin, group, contents)


# ------------------------------------------------------------------------------- the registry


def test_every_row_has_a_reader_and_every_profile_finds_its_own():
    assert {row["reader"] for row in SETS.values()} <= set(READERS)
    assert all(label(name) != name for name in SETS)
    stated = [row.get(group, {}) for row in ORIGINS.values() for group in ("files", "contents")]
    assert all(re.fullmatch(r"[0-9a-f]{64}|", one) for part in stated for one in part.values())
    for profile in read_params()["profiles"]:
        assert set(load_profile(profile).datasets) <= set(source_names())


def test_an_unknown_data_set_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"unknown dataset 'mnits'; known: .*cifar10, .*digits, "):
        prepare("mnits", tmp_path)


# ------------------------------------------------------------------------------- downloads


def test_a_download_is_kept_and_not_repeated(raw, publisher):
    folder, address, asked = publisher
    (folder / "a.gz").write_bytes(b"content")
    for _ in range(2):
        path = from_publisher(address + "a.gz", _sha256(b"content"), "toy")
        assert path.read_bytes() == b"content"
    assert asked == ["/a.gz"]
    assert _files(raw) == ["toy/a.gz"]


@pytest.mark.parametrize("content", [b"cont", b"altered"], ids=["truncated", "altered"])
def test_a_wrong_download_is_named_and_not_kept(raw, publisher, content):
    folder, address, _ = publisher
    (folder / "a.gz").write_bytes(content)
    with pytest.raises(ChecksumError) as error:
        from_publisher(address + "a.gz", _sha256(b"content"), "toy")
    sentence = str(error.value)
    assert sentence.startswith(f"a.gz: expected SHA-256 {_sha256(b'content')}, ")
    assert f"found {_sha256(content)}; " in sentence
    assert "download it again" in sentence
    assert _files(raw) == []


def test_a_file_altered_on_disk_is_downloaded_again(raw, publisher):
    folder, address, _ = publisher
    (folder / "a.gz").write_bytes(b"content")
    path = from_publisher(address + "a.gz", _sha256(b"content"), "toy")
    path.write_bytes(b"con")
    assert from_publisher(address + "a.gz", _sha256(b"content"), "toy").read_bytes() == b"content"


def _left_part(raw, content):
    (raw / "toy").mkdir(parents=True)
    (raw / "toy" / ".a.gz.part").write_bytes(content)


def test_a_download_goes_on_where_the_last_attempt_ended(raw, publisher):
    folder, address, asked = publisher
    (folder / "a.gz").write_bytes(b"content")
    _left_part(raw, b"con")
    path = from_publisher(address + "a.gz", _sha256(b"content"), "toy")
    assert path.read_bytes() == b"content"
    assert asked == ["/a.gz bytes=3-"]
    assert _files(raw) == ["toy/a.gz"]


def test_a_part_of_another_file_is_gone_on_from_once(raw, publisher):
    folder, address, asked = publisher
    (folder / "a.gz").write_bytes(b"content")
    _left_part(raw, b"oth")
    with pytest.raises(ChecksumError, match="run again to download it again"):
        from_publisher(address + "a.gz", _sha256(b"content"), "toy")
    assert _files(raw) == []
    assert from_publisher(address + "a.gz", _sha256(b"content"), "toy").read_bytes() == b"content"
    assert asked == ["/a.gz bytes=3-", "/a.gz"]


def test_without_a_checksum_every_download_is_a_whole_one(raw, publisher):
    folder, address, asked = publisher
    (folder / "a.gz").write_bytes(b"content")
    _left_part(raw, b"oth")
    assert from_publisher(address + "a.gz", None, "toy").read_bytes() == b"content"
    assert asked == ["/a.gz"]


@pytest.mark.parametrize(
    ("limit", "value", "sentence", "left"),
    [
        ("LARGEST", 6, "a.gz has more than the 6 bytes that it may have; refused", []),
        ("PATIENCE", -1.0, "a.gz took longer than -1 s; run again", ["toy/.a.gz.part"]),
    ],
)
def test_a_download_is_bounded_in_size_and_time(
    raw, publisher, monkeypatch, limit, value, sentence, left
):
    folder, address, _ = publisher
    (folder / "a.gz").write_bytes(b"content")
    monkeypatch.setattr(_fetch, limit, value)
    with pytest.raises(DownloadError, match=sentence):
        from_publisher(address + "a.gz", _sha256(b"content"), "toy")
    assert _files(raw) == left


def test_a_packed_file_unpacks_to_no_more_than_it_may(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(10_000)))
    assert _fetch.unpacked(tmp_path / "a.gz", 10_000) == bytes(10_000)
    with pytest.raises(ChecksumError, match="cannot be unpacked .it holds more than 9999 bytes"):
        _fetch.unpacked(tmp_path / "a.gz", 9_999)


def test_a_publisher_without_the_file_or_out_of_reach(raw, publisher):
    with pytest.raises(DownloadError, match=r"b.gz could not be downloaded \(HTTPError\); try"):
        from_publisher(publisher[1] + "b.gz", "0" * 64, "toy")
    with pytest.raises(DownloadError, match=f"ConnectionError.*set {MIRROR} to a folder"):
        from_publisher("http://127.0.0.1:9/a.gz", "0" * 64, "toy")
    assert _files(raw) == []


@pytest.mark.parametrize("sha256", ["", _sha256(b"content")])
@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        (".a.gz.part", "link", "a.gz.part is no file of its own but a link or a folder; remove"),
        (".a.gz.part", "folder", "a.gz.part is no file of its own but a link or a folder; remove"),
        (".a.gz.part", "pipe", "a.gz.part is no file of its own"),
        ("a.gz", "folder", "a.gz is no file but a folder or a pipe; remove it"),
        ("a.gz", "pipe", "a.gz is no file but a folder or a pipe; remove it"),
        ("", "file", "a.gz could not be kept in .*/toy"),
    ],
)
def test_what_lies_in_the_way_of_a_download_is_not_written_through(
    raw, publisher, tmp_path, name, make, sentence, sha256
):
    folder, address, _ = publisher
    (folder / "a.gz").write_bytes(b"content")
    precious = tmp_path / "precious"
    precious.write_bytes(b"con")
    place = raw / "toy" / name
    place.parent.mkdir(parents=True)
    {
        "link": lambda: place.symlink_to(precious),
        "folder": lambda: (place / "x").mkdir(parents=True),
        "pipe": lambda: os.mkfifo(place),
        "file": lambda: place.write_bytes(b"no folder"),
    }[make]()
    with pytest.raises(DownloadError, match=sentence):
        from_publisher(address + "a.gz", sha256, "toy")
    assert precious.read_bytes() == b"con"


# Files larger than a limit fail to grow, as on a full disk. In a process of its own: the limit is the process's.
_FULL = """
    import resource, signal, sys
    from pathlib import Path
    import numpy as np
    from lib.tasks.prepared import prepared_dataset, save_prepared
    from lib.tasks.sources import _fetch

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    folder = Path(sys.argv[1])
    _fetch.DATA = folder
    part = np.random.default_rng(0).integers(0, 256, (100, 784, 1)), np.arange(100) % 2
    ds = prepared_dataset("noise", part, part, kind="pixels", source="", outputs=2, valid_max=255)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        {action}
    except OSError as error:
        print(error)
"""


def _on_a_full_disk(action, folder, *arguments):
    script = textwrap.dedent(_FULL).replace("{action}", action)
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder), *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_full_disk_leaves_no_prepared_file(tmp_path):
    said = _on_a_full_disk("save_prepared(ds, folder)", tmp_path)
    assert re.search(r"noise.nc could not be written \(.*\); make room and run again", said)
    assert _files(tmp_path) == []


def test_a_full_disk_leaves_no_download(tmp_path, publisher):
    folder, address, _ = publisher
    content = bytes(100_000)
    (folder / "a.gz").write_bytes(content)
    target = tmp_path / "full"
    said = _on_a_full_disk(
        "_fetch.from_publisher(sys.argv[2], sys.argv[3], 'toy')",
        target,
        address + "a.gz",
        _sha256(content),
    )
    assert re.search(r"a.gz could not be kept in .* \(File too large\); make room", said)
    assert _files(target) == []


# ------------------------------------------------------------------------------- mirrors


def test_a_mirror_that_is_no_folder_or_has_no_such_file(mirror, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"the mirror has no mnist/train-images"):
        prepare("mnist", tmp_path / "out")
    monkeypatch.setenv(MIRROR, str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=f"{MIRROR} is '.*nowhere', which is not a folder"):
        prepare("mnist", tmp_path / "out")
    assert not (tmp_path / "out").exists()


FIRST_FILES = {
    "mnist": "mnist/train-images-idx3-ubyte.gz",
    "fashion_mnist": "fashion_mnist/train-images-idx3-ubyte.gz",
    "cifar10": "cifar10/cifar10_train_jpeg.npz",
    "imdb": "imdb/aclImdb_train.txt.gz",
    "ptb_words": "ptb/ptb.train.txt.gz",
    "har2": "hapt/hapt_raw.npz",
    "dsa19": "dsa/dsa_every4th_segment.npz",
    "heart_rate": "bidmc/bidmc_53x480s.npz",
    "keywords12": "speech_commands/speech_commands_v0.02.tar.gz",
}


@pytest.mark.parametrize("name", FIRST_FILES)
def test_an_altered_file_in_the_mirror_is_named_and_stays(name, mirror, tmp_path):
    path = mirror / FIRST_FILES[name]
    path.parent.mkdir()
    path.write_bytes(b"altered")
    with pytest.raises(ChecksumError) as error:
        prepare(name, tmp_path / "out")
    assert str(error.value).startswith(f"{FIRST_FILES[name]}: expected SHA-256 ")
    assert _sha256(b"altered") in str(error.value)
    assert path.exists()
    assert not (tmp_path / "out").exists()


def _reuters_mirror(mirror, contents):
    (mirror / "reuters").mkdir()
    for i in range(22):
        packed = gzip.compress(contents(i), mtime=0)
        (mirror / "reuters" / f"reut2-{i:03}.sgm.gz").write_bytes(packed)


def test_an_altered_or_truncated_text_in_the_mirror_is_named(mirror, tmp_path):
    _reuters_mirror(mirror, lambda i: b"altered")
    with pytest.raises(ChecksumError, match=r"reut2-000.sgm: expected SHA-256 0ec5.*, found"):
        prepare("reuters", tmp_path / "out")
    path = mirror / "reuters" / "reut2-000.sgm.gz"
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ChecksumError, match=r"reut2-000.sgm.gz cannot be unpacked .* replace it"):
        prepare("reuters", tmp_path / "out")


# ------------------------------------------------------------------------------- images


def _idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.astype(np.uint8).tobytes(), mtime=0)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_idx_images_become_rows_of_pixels(name, mirror, tmp_path, monkeypatch):
    drawn = np.arange(12).reshape(2, 2, 3) * 20
    contents = {
        file: _idx(drawn if "images" in file else np.array([1, 0]))
        for file in ORIGINS[name]["files"]
    }
    _mirrored(mirror, monkeypatch, name, contents, "files")
    ds = load_file(prepare(name, tmp_path))
    assert ds["inputs"].values[0, :, 0].tolist() == [0, 20, 40, 60, 80, 100]
    assert ds["target"].values.tolist() == [1, 0, 1, 0]
    assert ds["split"].values.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("content", "error", "sentence"),
    [
        (gzip.compress(b""), ValueError, "is no idx file"),
        (gzip.compress(b"\0\0\x0d\x01\0\0\0\0"), ValueError, "is no idx file"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x05abc"), ValueError, "expected 5 values, got 3"),
        (_idx(np.arange(50))[:30], ChecksumError, r"labels.gz cannot be unpacked"),
    ],
)
def test_what_is_no_idx_file_is_refused(content, error, sentence, tmp_path):
    path = tmp_path / "labels.gz"
    path.write_bytes(content)
    with pytest.raises(error, match=sentence):
        images.read_idx(path)


def _tar(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):  # a link, maybe out of the archive
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def _served(origin, name, publisher, monkeypatch, stated=True):
    """Let an origin's publisher be the local one; of some archives no checksum is stated."""
    folder, address, _ = publisher
    monkeypatch.setitem(ORIGINS[origin], "address", address)
    content = (folder / name).read_bytes() if stated else None
    _state(monkeypatch, origin, "published", {name: content})


def test_cifar10_from_the_publisher(raw, publisher, tmp_path, monkeypatch):
    planes = np.random.default_rng(0).integers(0, 256, (6, 3, 32, 32), dtype=np.uint8)
    members = [
        (f"cifar-10-batches-bin/{name}.bin", bytes([i]) + planes[i].tobytes())
        for i, name in enumerate([*images.BATCHES, images.TEST])
    ]
    name = "cifar-10-binary.tar.gz"
    _tar(publisher[0] / name, members)
    _served("cifar10", name, publisher, monkeypatch)
    ds = load_file(prepare("cifar10", tmp_path / "out"))
    assert ds["inputs"].shape == (6, 1024, 3)
    assert ds["target"].values.tolist() == [0, 1, 2, 3, 4, 5]
    # Row 2, column 5 of the third image: red, green, blue.
    assert ds["inputs"].values[2, 2 * 32 + 5].tolist() == planes[2, :, 2, 5].tolist()
    assert ds.attrs["substitute"] == ""
    assert _files(raw) == [f"cifar10/{name}"]


def _npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _jpeg(grey):
    stream = io.BytesIO()
    Image.new("RGB", (32, 32), (grey, grey, grey)).save(stream, "JPEG")
    return stream.getvalue()


def test_cifar10_from_jpeg_says_what_it_is(mirror, tmp_path, monkeypatch):
    streams = [_jpeg(grey) for grey in (0, 255)]
    content = _npz(
        jpeg=np.frombuffer(b"".join(streams), np.uint8),
        offsets=np.cumsum([0, *map(len, streams)]),
        labels=np.array([3, 7], np.uint8),
    )
    names = [f"cifar10_{part}_jpeg.npz" for part in ("train", "test")]
    _mirrored(mirror, monkeypatch, "cifar10", dict.fromkeys(names, content))
    ds = load_file(prepare("cifar10", tmp_path))
    assert ds["target"].values.tolist() == [3, 7, 3, 7]
    assert ds["inputs"].values.mean(axis=(1, 2)).tolist() == [0, 255, 0, 255]
    assert "JPEG" in ds.attrs["substitute"]
    pickled = _npz(jpeg=np.array([{}], object), offsets=np.array([0]), labels=np.array([0]))
    _mirrored(mirror, monkeypatch, "cifar10", dict.fromkeys(names, pickled))
    with pytest.raises(ValueError, match=r"allow_pickle=False"):
        prepare("cifar10", tmp_path)


def test_the_exact_images_are_the_same_from_mirror_and_publisher(
    mirror, publisher, tmp_path, monkeypatch, request
):
    for name, value in (("FIRST_OF_ONE", 3), ("FIRST_OF_OTHERS", 2), ("A_FILE", 4)):
        monkeypatch.setattr(images, name, value)
    rng = np.random.default_rng(0)
    planes = rng.integers(0, 256, (6, 4, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, (6, 4), dtype=np.uint8)
    pictures = planes.transpose(0, 1, 3, 4, 2)
    first = _npz(images=pictures[0, :3], labels=labels[0, :3])
    heads = _npz(
        train_images=pictures[1:5, :2].reshape(-1, 32, 32, 3),
        train_labels_all=labels[:5].ravel(),
        test_images=pictures[5, :2],
        test_labels_all=labels[5],
    )
    files = {"cifar10_train_first4000_exact.npz": first, "cifar10_heads_exact.npz": heads}
    _mirrored(mirror, monkeypatch, "cifar10", files)
    mirrored = prepare("cifar10_exact", tmp_path / "a")
    request.getfixturevalue("raw")
    members = [
        (
            f"cifar-10-batches-bin/{name}.bin",
            b"".join(
                bytes([one]) + p.tobytes() for one, p in zip(labels[k], planes[k], strict=True)
            ),
        )
        for k, name in enumerate([*images.BATCHES, images.TEST])
    ]
    _tar(publisher[0] / "cifar-10-binary.tar.gz", members)
    _served("cifar10", "cifar-10-binary.tar.gz", publisher, monkeypatch)
    assert prepare("cifar10_exact", tmp_path / "b").read_bytes() == mirrored.read_bytes()
    assert load_file(mirrored)["target"].values[3:5].tolist() == labels[1, :2].tolist()


def test_the_digits_need_no_network_and_keep_the_noise_in_proportion(raw, tmp_path, monkeypatch):
    monkeypatch.setattr("socket.socket", lambda *a, **k: pytest.fail("asked the network"))
    path, again = (prepare("digits", tmp_path / name) for name in "ab")
    assert path.read_bytes() == again.read_bytes()
    data = load_prepared(path)
    assert len(data.train.targets) + len(data.test.targets) == 1797
    assert data.train.inputs.shape[1:] == (64, 1)
    assert data.noise_inputs == round(1000 * 64 / 784)
    for part in (data.train, data.test):
        shares = np.bincount(part.targets, minlength=10) / len(part.targets)
        assert np.abs(shares - 0.1).max() < 0.02
    assert not set(map(bytes, data.train.inputs)) & set(map(bytes, data.test.inputs))


# ------------------------------------------------------------------------------- texts


def test_words_are_numbered_by_their_frequency_in_the_training_part():
    train, test = texts.encode(["b a b", "b c a"], ["a z z z b"])
    b, a, c = FIRST_WORD, FIRST_WORD + 1, FIRST_WORD + 2
    assert train.shape == (2, 500)
    assert train.dtype == np.int16
    assert train[0, -4:].tolist() == [START, b, a, b]
    assert train[1, -4:].tolist() == [START, b, c, a]
    assert (train[:, :-4] == PAD).all()
    assert test[0, -6:].tolist() == [START, a, UNKNOWN, UNKNOWN, UNKNOWN, b]
    # A vocabulary and a length of its own.
    train, test = texts.encode(["b a b c", "a b"], ["c d"], vocabulary_size=b + 2, length=3)
    assert train.tolist() == [[a, b, UNKNOWN], [1, a, b]]
    assert test.tolist() == [[1, UNKNOWN, UNKNOWN]]
    assert texts.vocabulary(["b a b c", "a b"], FIRST_WORD + 2) == ["b", "a"]


def test_a_long_text_keeps_its_end_and_the_vocabulary_has_ten_thousand_ids():
    text = " ".join(f"w{i}" for i in range(600))
    train, _ = texts.encode([text, "w599 w599", "w100 w100"], ["w0"])
    assert train[0].min() >= FIRST_WORD, "a long text has neither filling nor a start"
    assert train[0, -1] == train[1, -1]
    assert train[0, 0] == train[2, -1]
    common = " ".join(f"word{i} word{i}" for i in range(10_000 - FIRST_WORD))
    train, _ = texts.encode([common, "rare word0"], ["word1"])
    assert train.max() == 9_999
    assert train[1, -2:].tolist() == [UNKNOWN, FIRST_WORD]


REVIEWS = {
    "train": {"neg/0_2": "Bad.<br />Very\tbad", "neg/10_1": "Awful", "pos/2_9": "Très good"},
    "test": {"neg/0_3": "bad", "pos/0_8": "good"},
}


def _imdb_members():
    return [
        (f"aclImdb/{part}/{name}.txt", text.encode())
        for part, reviews in REVIEWS.items()
        for name, text in reversed(reviews.items())
    ]


def test_imdb_is_the_same_from_mirror_and_publisher(
    tmp_path, publisher, mirror, monkeypatch, request
):
    contents = {}
    for part, reviews in REVIEWS.items():
        lines = "".join(f"{name}\t{text}\n" for name, text in reviews.items())
        contents[f"aclImdb_{part}.txt.gz"] = gzip.compress(lines.encode(), mtime=0)
    _mirrored(mirror, monkeypatch, "imdb", contents)
    mirrored = prepare("imdb", tmp_path / "mirrored")
    stars = load_file(prepare("imdb_ratings", tmp_path))
    assert stars["target"].values.tolist() == [0, 0, 3, 1, 2]
    assert stars["inputs"].shape == (5, 300)
    assert "Yelp" in stars.attrs["substitute"]
    request.getfixturevalue("raw")
    others = [
        ("aclImdb/train/pos/7_9.txt", "/etc/hostname"),
        ("aclImdb/train/unsup/0_0.txt", b"no label"),
        ("aclImdb/train/labeledBow.feat", b"1 2:3"),
    ]
    name = "aclImdb_v1.tar.gz"
    _tar(publisher[0] / name, others + _imdb_members())
    _served("imdb", name, publisher, monkeypatch)
    before = _files(tmp_path)
    published = prepare("imdb", tmp_path / "published")
    assert published.read_bytes() == mirrored.read_bytes()
    new = sorted(set(_files(tmp_path)) - set(before))
    assert new == [f"data/raw/imdb/{name}", "published/imdb.nc"]
    ds = load_file(published)
    assert ds["target"].values.tolist() == [0, 0, 1, 0, 1]
    bad = ds["inputs"].values[0, -1]
    assert ds["inputs"].values[0, -4:].tolist() == [START, bad, ds["inputs"].values[0, -2], bad]


@pytest.mark.parametrize("evil", ["../../pos/8_9.txt", "aclImdb/train/../pos/9_9.txt"])
def test_an_archive_that_reaches_out_of_its_folder_is_refused(
    evil, raw, publisher, tmp_path, monkeypatch
):
    _tar(publisher[0] / "aclImdb_v1.tar.gz", [(evil, b"evil"), *_imdb_members()])
    _served("imdb", "aclImdb_v1.tar.gz", publisher, monkeypatch)
    with pytest.raises(FormatError, match="lies outside the archive's folder; refused"):
        prepare("imdb", tmp_path / "out")
    assert not list(tmp_path.rglob("*_9.txt"))


def _document(number, topics, title, body):
    topics = "".join(f"<D>{topic}</D>" for topic in topics)
    text = f"<TITLE>{title}</TITLE>\n<BODY>{body}\n&#3;</BODY>" if title else f"&#2;\n{body}\n&#3;"
    return (
        f'<REUTERS TOPICS="YES" NEWID="{number}">\n<TOPICS>{topics}</TOPICS>\n'
        f"<PLACES><D>usa</D></PLACES>\n<TEXT>{text}</TEXT>\n</REUTERS>\n"
    )


def test_a_document_is_its_first_topic_title_and_body():
    content = (
        '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'
        + _document(1, ["grain", "wheat"], "WHEAT UP", "Up 3 pct &lt;X> said")
        + _document(2, [], "NO TOPIC", "at all")
        + _document(3, ["earn"], "", "unprocessed text")
    )
    (grain, wheat), (earn, bare) = texts.parse(content)
    assert (grain, earn) == ("grain", "earn")
    assert texts.words(wheat) == ["wheat", "up", "up", "3", "pct", "x", "said"]
    assert texts.words(bare) == ["unprocessed", "text"]


SGML = [
    "".join(
        _document(100 * i + k, ["acq" if k % 3 else "earn"], f"caf\xe9 {i}", f"text {k}")
        for k in range(12)
    ).encode("latin-1")
    for i in range(22)
]
NAME = "r.zip"


@pytest.fixture
def small_reuters(monkeypatch):
    names = ORIGINS["reuters"]["contents"]
    _state(monkeypatch, "reuters", "contents", dict(zip(names, SGML, strict=True)))
    monkeypatch.setattr(
        texts, "fetch", lambda o, n: _fetch.fetch(o, NAME if n.endswith(".zip") else n)
    )


def _reuters_archive(path, members):
    _tar(path.with_suffix(".tar.gz"), members)
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(path.with_suffix(".tar.gz"), "reuters21578.tar.gz")


def _sgml_members(contents=SGML):
    return [(f"reut2-{i:03}.sgm", content) for i, content in enumerate(contents)]


def test_reuters_is_the_same_from_mirror_and_publisher(
    small_reuters, mirror, publisher, tmp_path, monkeypatch, request
):
    _reuters_mirror(mirror, SGML.__getitem__)
    mirrored = prepare("reuters", tmp_path / "mirrored")
    request.getfixturevalue("raw")
    _reuters_archive(publisher[0] / NAME, _sgml_members())
    _served("reuters", NAME, publisher, monkeypatch, stated=False)
    assert prepare("reuters", tmp_path / "b").read_bytes() == mirrored.read_bytes()
    ds = load_file(mirrored)
    labels, test = ds["target"].values, ds["split"].values == 1
    assert np.bincount(labels).tolist() == [176, 88]
    assert np.bincount(labels[test]).tolist() == [44, 22], "a quarter of each topic is for testing"


_LOOP = [("reut2-000.sgm", "reut2-001.sgm"), ("reut2-001.sgm", "reut2-000.sgm")]


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        (_sgml_members([b"altered", *SGML[1:]]), "reut2-000.sgm: expected SHA-256"),
        (
            _sgml_members(["/etc/hostname", *SGML[1:]]),
            "r.zip: found .* is no reut2-000.sgm in it.* removed",
        ),
        (
            [*_LOOP, *_sgml_members()[2:]],
            "r.zip: found .* is no reut2-000.sgm in it.* has been removed",
        ),
        (
            _sgml_members(SGML[:5]),
            "r.zip: found .* no reut2-005.sgm in it.* has been removed: run again",
        ),
        (_sgml_members([bytes(2**26 + 1), *SGML[1:]]), "has more than the 67108864 bytes"),
        ([("../evil", b"x"), *_sgml_members()], "'../evil' lies outside .* has been removed"),
        (None, "r.zip: found something else .* has been removed"),
    ],
    ids=["altered", "link", "loop", "incomplete", "bomb", "outside", "truncated"],
)
def test_another_reuters_archive_is_refused_and_removed(
    small_reuters, raw, publisher, tmp_path, monkeypatch, members, sentence
):
    path = publisher[0] / NAME
    _reuters_archive(path, members or _sgml_members())
    if members is None:
        path.write_bytes(path.read_bytes()[:-30])
    _served("reuters", NAME, publisher, monkeypatch, stated=False)
    with pytest.raises(ChecksumError, match=sentence) as error:
        prepare("reuters", tmp_path / "out")
    assert "\n" not in str(error.value)
    assert _files(raw) == []
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------- the real files

REAL = pytest.mark.skipif(
    not os.environ.get(MIRROR), reason=f"{MIRROR} is not set, so the real files are not at hand"
)
EXPECTED = {  # training, validation, test, shape of an input sequence, outputs, frequency of the rarest class
    "mnist": (60_000, 0, 10_000, (784, 1), 10, 6_313),
    "fashion_mnist": (60_000, 0, 10_000, (784, 1), 10, 7_000),
    "cifar10": (50_000, 0, 10_000, (1024, 3), 10, 6_000),
    "imdb": (25_000, 0, 25_000, (500,), 2, 25_000),
    # The dissertation's smallest test part has about 2,800 sequences (3.5).
    "reuters": (8_421, 0, 2_807, (500,), 46, 16),
    "har2": (7_415, 0, 2_996, (128, 9), 2, None),
    "dsa19": (1_140, 0, 1_140, (125, 45), 19, 120),
    "cifar10_exact": (8_068, 0, 1_017, (1024, 3), 10, None),
    "heart_rate": (5_565, 1_192, 1_192, (4000, 2), 1, None),
    "ptb_words": (18_591, 1_475, 1_648, (50,), 10_000, None),
    "ptb_characters": (100_349, 7_860, 8_848, (50,), 50, None),
}


@REAL
@pytest.mark.parametrize("name", EXPECTED)
def test_the_real_data_are_what_their_publishers_say(name, tmp_path):
    ds = load_file(prepare(name, tmp_path))
    train, validation, test, shape, outputs, rarest = EXPECTED[name]
    split = ds["split"].values
    assert [(split == part).sum() for part in (0, 2, 1)] == [train, validation, test]
    assert ds["inputs"].shape[1:] == shape
    assert ds.attrs["outputs"] == outputs
    if rarest:
        assert np.bincount(ds["target"].values).min() == rarest
    if ds.attrs["kind"] != "series":
        assert ds["inputs"].values.max() == ds["inputs"].attrs["valid_max"]
        assert ds["inputs"].values.min() == 0
