"""Reuters-21578, Distribution 1.0 (D. D. Lewis): news of 1987 by topic."""

import html
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from study.tasks.formats.archives import member, members
from study.tasks.sources._fetch import check_contents, fetch, mirror, read_or_remove, unpacked
from study.tasks.sources._table import ORIGINS, reader
from study.tasks.sources._tokens import encode

FEWEST = 15
"""Smallest number of documents of a topic."""
EVERY = 4
"""One document in four is for testing.

The paper measures on at least 2,800 sequences (section 3.3.1); a quarter of 11,228 is 2,807.
"""


@reader
def reuters() -> dict:
    """Read news by topic. Every fourth document, ordered by topic and time, is for testing.

    A document's label is its first topic, and topics with fewer than 15 documents are left out.
    This is the rule of Keras, which gives the same 46 classes.

    Returns
    -------
    dict
        As `study.tasks.sources._tokens.encode`, and ``outputs``, the number of topics.
    """
    documents = [document for content in _news() for document in parse(content)]
    counts = Counter(topic for topic, _ in documents)
    topics = sorted(topic for topic, count in counts.items() if count >= FEWEST)
    kept = [(topic, text) for topic, text in documents if topic in topics]
    labels = np.array([topics.index(topic) for topic, _ in kept])
    test = np.zeros(len(labels), bool)
    test[np.argsort(labels, kind="stable")[EVERY - 1 :: EVERY]] = True
    texts = np.array([text for _, text in kept], dtype=object)
    content = encode((texts[~test], labels[~test]), (texts[test], labels[test]))
    return content | {"outputs": len(topics)}


def parse(content: str) -> Iterator[tuple[str, str]]:
    """Yield each document of a file that has a topic.

    Parameters
    ----------
    content : str
        A file of the data set, SGML.

    Yields
    ------
    topic : str
        The document's first topic.
    text : str
        Its title and body.
    """
    for document in _inside("REUTERS", content):
        topics = _inside("D", _inside("TOPICS", document)[0])
        if not topics:
            continue
        text = _inside("TEXT", document)[0]
        title_and_body = [*_inside("TITLE", text)[:1], *_inside("BODY", text)[:1]]
        if title_and_body:
            plain = "\n".join(title_and_body)
        else:  # unprocessed documents have no title and no body
            plain = re.sub("<[^>]*>", " ", text)
        yield topics[0], html.unescape(plain)


def _inside(tag: str, text: str) -> list[str]:
    """Return the content of every element with this tag."""
    return re.findall(rf"<{tag}(?: [^>]*)?>(.*?)</{tag}>", text, re.DOTALL)


def _news() -> list[str]:
    """Return the files of the data set, from the mirror or the publisher."""
    names = list(ORIGINS["reuters"]["contents"])
    if mirror() is None:
        name = "reuters+21578+text+categorization+collection.zip"
        contents = read_or_remove(fetch("reuters", name), _from_archive)
    else:
        contents = {name: unpacked(fetch("reuters", f"{name}.gz")) for name in names}
        check_contents("reuters", contents)
    return [contents[name].decode("latin-1") for name in names]


def _from_archive(path: Path) -> dict[str, bytes]:
    """Read the files from the tar inside the publisher's zip."""
    inner = member(path, "reuters21578.tar.gz")
    contents = dict(members(inner, r"reut2-\d{3}\.sgm", path.name))
    check_contents("reuters", contents)
    return contents
