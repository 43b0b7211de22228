"""Publishers that cut, alter, stall or never end, and archives that reach out of their folder or unpack without end."""

import contextlib
import io
import shutil
import tarfile
import zipfile

import pytest
from archives import packed, sha256, tarred, zipped
from trials.faults import damaged, in_the_way

from lib.tasks.formats import FormatError
from lib.tasks.formats.archives import members
from lib.tasks.sources import _fetch
from lib.tasks.sources._fetch import ChecksumError, DownloadError, from_publisher, unpacked

pytestmark = pytest.mark.trials
KIND = "downloads"
REFUSED = (ChecksumError, DownloadError)


WAYS = (
    "well", "status", "altered", "longer", "no length", "cut", "reset", "ignores ranges", "another range", "endless",
)  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(_fetch, "LARGEST", 300_000)


@pytest.fixture
def elsewhere(tmp_path):
    """A file that no download may touch."""
    path = tmp_path / "elsewhere" / "precious"
    path.parent.mkdir()
    return path


def test_a_file_is_the_expected_one_or_none(trials, draw, publisher, raw):
    folder = raw / "toy"
    for i in trials.some(300):
        content, name = draw.randbytes(draw.choice((1, 100, 9_000, 100_000))), f"{i}.zip"
        publisher.files[name] = content
        url, hashed = publisher.address + name, sha256(content)
        fetch = lambda: from_publisher(url, hashed, "toy").read_bytes()
        ways = [draw.choice(WAYS) for _ in range(draw.randrange(1, 4))]
        for how in ways:
            publisher.how = how
            trials.refuse((how, len(content)), fetch, *REFUSED, right=content.__eq__)
            if {path.name for path in folder.glob("[!.]*")} - {name}:
                trials.note("wrong acceptance", f"{ways}: more than the file was left")
        publisher.how = "well"
        # A wrong part that was kept is found out, at the latest by the second attempt.
        for _ in range(2):
            with contextlib.suppress(*REFUSED):
                fetch()
        trials.accept(("at last", ways), fetch, content.__eq__)
        shutil.rmtree(folder)


def _untouched(trials, what, target, content, folder):
    if target.read_bytes() != content or list(target.parent.iterdir()) != [target]:
        trials.note("wrong acceptance", f"{what}: written through a link")
    shutil.rmtree(folder)


def test_what_lies_in_the_way_is_not_written_through(trials, draw, publisher, raw, elsewhere):
    folder = raw / "toy"
    for i in trials.some(120):
        content = draw.randbytes(500)
        elsewhere.write_bytes(content[:100])
        name, stated = f"{i}.zip", draw.random() < 0.5
        publisher.files[name] = content
        url, hashed = publisher.address + name, sha256(content) if stated else ""
        place = folder / draw.choice((name, f".{name}.part"))
        what = in_the_way(draw, place, elsewhere, pipe=True), place.name, stated
        # Without a checksum the reader of the content tells what lies under the name: a link to another file is such a one.
        may_be = (content,) if stated or what[0] != "link" else (content, content[:100])
        fetch = lambda: from_publisher(url, hashed, "toy").read_bytes()
        trials.refuse(what, fetch, *REFUSED, right=may_be.__contains__)
        _untouched(trials, what, elsewhere, content[:100], folder)


def test_records_of_hashes_are_files(trials, draw, publisher, raw, elsewhere, monkeypatch):
    folder, name = raw / "eigenworms", "EigenWorms.zip"
    publisher.files[name] = b"content"
    monkeypatch.setitem(_fetch.ORIGINS["eigenworms"], "address", publisher.address)
    elsewhere.write_bytes(b"no hash")
    for _ in trials.some(30):
        what = in_the_way(draw, folder / f"{name}.sha256", elsewhere, pipe=True)
        fetch = lambda: _fetch.fetch("eigenworms", name).read_bytes()
        trials.refuse(what, fetch, *REFUSED, right=b"content".__eq__)
        _untouched(trials, what, elsewhere, b"no hash", folder)


OUTSIDE = (
    "../x", "a/../../x", "/etc/x", "..", "a/..", "C:/x", "C:\\x", "\\x", "..\\x", "a\\..\\..\\x", "//x",
)  # fmt: skip
INSIDE = (
    "a.txt", "b/c.txt", "./d.txt", "e f.txt", "..g.txt", "h..txt", "ü.txt", "b/./i.txt", ".j.txt", "k.bin",
)  # fmt: skip
LARGEST = 5_000


ZIPS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def _archive(draw, path, items):
    write, hows = draw.choice(((zipped, ZIPS), (tarred, ("", "gz", "bz2", "xz"))))
    path.write_bytes(write(dict(items), draw.choice(hows)))


def test_archives_give_what_they_hold_or_are_refused(trials, draw, tmp_path):
    path = tmp_path / "a.archive"
    for i in trials.some(500):
        names = draw.sample(INSIDE, draw.randrange(1, 5))
        items = [(name, draw.randbytes(draw.randrange(200))) for name in names]
        call = lambda: dict(members(path, r".*\.txt", LARGEST))
        if i % 3:
            large = "large.txt", bytes(draw.choice((LARGEST + 1, 10**6)))
            more = (draw.choice(OUTSIDE), b"x") if i % 3 == 1 else large
            items.insert(draw.randrange(len(items) + 1), more)
            _archive(draw, path, items)
            trials.refuse(more[0], call, FormatError)
        else:
            _archive(draw, path, items)
            texts_of = {n.removeprefix("./"): part for n, part in items if n.endswith(".txt")}
            trials.accept(names, call, texts_of.__eq__)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.archive"]


def test_links_and_devices_of_an_archive_are_passed_over(trials, draw, tmp_path):
    path = tmp_path / "a.tar"
    kinds = (
        *(tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE),
        *(tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.BLKTYPE),
    )
    for _ in trials.some(100):
        with tarfile.open(path, "w") as archive:
            info = tarfile.TarInfo("k.txt")
            info.type = draw.choice(kinds)
            info.linkname = draw.choice(("/etc/passwd", "../x", "a.txt", "k.txt"))
            archive.addfile(info)
            good = tarfile.TarInfo("a.txt")
            good.size = 1
            archive.addfile(good, io.BytesIO(b"x"))
        trials.accept(info.type, lambda: dict(members(path, ".*")), {"a.txt": b"x"}.__eq__)


def test_damaged_archives_are_refused_in_a_sentence(trials, draw, tmp_path):
    path = tmp_path / "a.archive"
    for _ in trials.some(600):
        items = [(name, draw.randbytes(draw.randrange(200))) for name in draw.sample(INSIDE, 3)]
        _archive(draw, path, items)
        path.write_bytes(damaged(draw, path.read_bytes()))
        # Which archive it is, its hash says before it is opened: here only no traceback, and no large member.
        small = lambda found: all(len(part) <= LARGEST for part in found.values())
        read = lambda: dict(members(path, ".*", LARGEST))
        trials.refuse("damaged", read, FormatError, right=small)


def test_packed_files_are_whole_bounded_or_refused(trials, draw, tmp_path):
    path = tmp_path / "a.gz"
    for i in trials.some(400):
        whole = draw.randbytes(draw.randrange(1, 3000))
        content = bytearray(packed(whole))
        match i % 4:
            case 0:
                at = draw.randrange(10, len(content))  # the header says nothing of the content
                content[at] ^= 1 << draw.randrange(8)
            case 1:
                del content[draw.randrange(len(content)) :]
            case 2:
                content = packed(bytes(draw.choice((LARGEST + 1, 10**6))))
            case _:
                content += draw.choice((b"x", b"\x1f\x8b", draw.randbytes(9) + b"x"))
        path.write_bytes(content)
        right = lambda found: i % 4 == 0 and found == whole
        trials.refuse(i % 4, lambda: unpacked(path, LARGEST), ChecksumError, right=right)
