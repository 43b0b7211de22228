"""Archives that are damaged, reach out of their folder or unpack without end."""

import zipfile

import pytest
from archives import packed, tarred, zipped
from trials.faults import damaged

from lib.tasks.formats import FormatError
from lib.tasks.formats.archives import members
from lib.tasks.sources._fetch import ChecksumError, unpacked

pytestmark = pytest.mark.trials
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
        texts_of = {n.removeprefix("./"): part for n, part in items if n.endswith(".txt")}
        large = "large.txt", bytes(draw.choice((LARGEST + 1, 10**6)))
        more = ([], [(draw.choice(OUTSIDE), b"x")], [large])[i % 3]
        at = draw.randrange(len(items) + 1)
        _archive(draw, path, items[:at] + more + items[at:])
        right = lambda found: not more and found == texts_of
        errors = (FormatError,) if more else ()
        read = lambda: dict(members(path, r".*\.txt", LARGEST))
        trials.refuse(names, read, *errors, right=right)
    assert [p.name for p in tmp_path.iterdir()] == ["a.archive"]


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
        content = packed(whole)
        at = draw.randrange(10, len(content))  # the header says nothing of the content
        turned = content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
        large = packed(bytes(draw.choice((LARGEST + 1, 10**6))))
        longer = content + draw.choice((b"x", b"\x1f\x8b", draw.randbytes(9) + b"x"))
        path.write_bytes((turned, content[: draw.randrange(len(content))], large, longer)[i % 4])
        right = lambda found: i % 4 == 0 and found == whole
        trials.refuse(i % 4, lambda: unpacked(path, LARGEST), ChecksumError, right=right)
