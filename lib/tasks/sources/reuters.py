"""Reuters-21578, Distribution 1.0: news of 1987 by topic, after D. D. Lewis.

The 46 classes known from Keras follow from the files: documents with a topic, the first topic as the
label, topics with at least 15 documents. For research purposes only; nothing of it is committed.
"""

import html
import io
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import xarray as xr

from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._fetch import (
    ChecksumError,
    check,
    from_mirror,
    from_publisher,
    mirror,
    unpacked,
)
from lib.tasks.sources._registry import source
from lib.tasks.sources._text import VOCABULARY_SIZE, encode

URL = (
    "https://archive.ics.uci.edu/static/public/137/reuters+21578+text+categorization+collection.zip"
)
# The publisher states no checksum of the archive: each file in it is checked instead.
SHA256 = (
    "0ec53cda8f6d605a3ba710df14be7f00fc02f0c222a14748101df22326afe0f6",
    "1528e7e82d110d88d0234eb9619eadb7f9fd805711971df05975b92277dfdf4d",
    "99f18068d0518952987dedd78c622e5c2a584e357d264d3754696c815f3e6628",
    "78a3a8d7e04bc9d42c4614d5d5c60a4293dbe3f708df6fb5a71d9ef31f4b3fa3",
    "726342c19a65873330b412378cd6a3f0d512035f5223146ddd60930c62eb6ff0",
    "d09de619b6dd2d047d5124681f6df90550abaf592020d1c1ce338ae9b91522e7",
    "b5535c0d66b01f4976f84621a4a795afbc00d2c4bd0a1b7ae426df6630fb361d",
    "aa706007ec84a03537a3921ca976d60e11b3f99e4b9e9b2d5c81dd384d2c2062",
    "a3994583694a00b7c744097c1d7eabfcf90f2e6650cc21663e46828035a336cb",
    "29995f606dd1a9bdf907eacc9d879846c716860d9d9141676979474aaea39c7d",
    "996df6008089bd09fa5b28a4d2eb0ee5f7b9d4601cde566fed3926ac82960fa3",
    "d3a2782015247d9c2bffb8926267827fdd449c70d619435ef01a25a1c56a53ca",
    "da31035d483851f2aebce5b66d779e5e2c0ac9dcfe098596c6d544e81c5604ab",
    "8f7700bc0455fac3fcc12377ced4807b7df8aba1f21ecad059b9cc2b1cf0b8be",
    "ef936bd3e0f36cf722afa9a6957563549775af32e9e28b4f539c8737ceda83ab",
    "6d3bcec73eff871b8a5403588af814c4e50a0de6bc25707480522ab836f74026",
    "be2f03a185fff70131f3b4fdbd6229b7ee2be077eba9691eaa597c8cfbda8812",
    "f370e610b4b1342e41a98e0c426a08541044bd1d7e539674f32372a6060b73b5",
    "a5f971bf25448e915781962309e669359a35fbcaf3017a806eca0590897f209a",
    "d3b07097fba2633d130b4914aceba671645985248943ce9e39c289315339dffb",
    "f6ad1b724125c202566c63b35ea0b5ee23881f8b7ed47a32829d5af05d8e860d",
    "3f5196d32869723c9042aa5756805b4e90360f1f45ea17f4594fa0e2b3630b18",
)
"""SHA-256 of the files reut2-000.sgm to reut2-021.sgm, unpacked."""

FEWEST = 15
EVERY = 4
"""The text measures on at least 2,800 sequences (3.5): a quarter of 11,228 documents is 2,807."""
LARGEST = 2**26
"""Bytes that a file in the publisher's archive may have; the largest has an eighth of it."""

_DOCUMENT = re.compile(r"<REUTERS(.*?)</REUTERS>", re.DOTALL)
_TOPICS = re.compile(r"<TOPICS>(.*?)</TOPICS>", re.DOTALL)
_TOPIC = re.compile(r"<D>(.*?)</D>")
_TEXT = re.compile(r"<TEXT.*?>(.*?)</TEXT>", re.DOTALL)
_TITLE = re.compile(r"<TITLE>(.*?)</TITLE>", re.DOTALL)
_BODY = re.compile(r"<BODY>(.*?)</BODY>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


@source
def reuters() -> xr.Dataset:
    """Return the documents as 500 tokens; every fourth document of a topic is for testing."""
    documents = [document for content in _files() for document in parse(content)]
    counts = Counter(topic for topic, _ in documents)
    topics = sorted(topic for topic, count in counts.items() if count >= FEWEST)
    kept = [(topics.index(topic), text) for topic, text in documents if topic in topics]
    labels = np.array([label for label, _ in kept])
    # By topic and then time, every fourth document is for testing: all topics, all months.
    test = np.zeros(len(labels), bool)
    test[np.argsort(labels, kind="stable")[EVERY - 1 :: EVERY]] = True
    texts = np.array([text for _, text in kept], dtype=object)
    tokens = encode(texts[~test].tolist(), texts[test].tolist())
    return prepared_dataset(
        "reuters",
        (tokens[0], labels[~test]),
        (tokens[1], labels[test]),
        kind="tokens",
        source="Reuters-21578, Distribution 1.0 (Lewis 1997)",
        outputs=len(topics),
        valid_max=VOCABULARY_SIZE - 1,
        vocabulary_size=VOCABULARY_SIZE,
    )


def parse(content: str) -> Iterator[tuple[str, str]]:
    """Give (first topic, title and body) of each document that has a topic."""
    for document in _DOCUMENT.findall(content):
        topics = _TOPIC.findall(_TOPICS.search(document)[1])
        if not topics:
            continue
        text = _TEXT.search(document)[1]
        parts = [found[1] for found in (_TITLE.search(text), _BODY.search(text)) if found]
        # Some documents are unprocessed: all they have is the bare text.
        yield topics[0], html.unescape("\n".join(parts) if parts else _TAG.sub(" ", text))


def _files() -> Iterator[str]:
    names = [f"reut2-{i:03}.sgm" for i in range(len(SHA256))]
    if mirror() is None:
        contents = _from_archive(from_publisher(URL, None, "reuters"), names)
    else:
        contents = [unpacked(from_mirror(f"reuters/{name}.gz", None)) for name in names]
        _check_all(contents, names)
    return (content.decode("latin-1") for content in contents)


def _from_archive(path: Path, names: list[str]) -> list[bytes]:
    """Read the files from the tar inside the publisher's zip: nothing is extracted.

    Raises
    ------
    ChecksumError
        The archive is not the expected one; it has been removed, so that the next run downloads it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            inner = io.BytesIO(_bounded(archive.open("reuters21578.tar.gz")))
        with tarfile.open(fileobj=inner) as tar:
            contents = [_bounded(tar.extractfile(name)) for name in names]
        _check_all(contents, names)
    except ChecksumError:
        path.unlink()
        raise
    except (zipfile.BadZipFile, tarfile.TarError, KeyError, EOFError, OSError, zlib.error) as error:
        path.unlink()
        raise ChecksumError(
            f"{path.name}: expected a zip with reuters21578.tar.gz in it, found something else ({error}); "
            "it is cut or altered and has been removed: run again to download it again"
        ) from None
    return contents


def _bounded(member: IO[bytes] | None) -> bytes:
    """Read a file of an archive whose checksum is not known yet: never more than it can hold."""
    content = b"" if member is None else member.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise tarfile.ReadError(f"a file in it holds more than {LARGEST} bytes")
    return content


def _check_all(contents: list[bytes], names: list[str]) -> None:
    for name, content, sha256 in zip(names, contents, SHA256, strict=True):
        check(content, sha256, name)
