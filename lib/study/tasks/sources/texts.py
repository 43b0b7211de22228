"""Texts as tokens: reviews and news with a class each, and streams whose next token is asked for."""

import html
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from study.tasks.formats.archives import member, members
from study.tasks.language import cut
from study.tasks.prepared import FIRST_WORD, PAD, START, UNKNOWN
from study.tasks.sources._fetch import check_contents, fetch, mirror, read_or_remove, unpacked
from study.tasks.sources._table import ORIGINS, reader
from study.tasks.standins import markov_text

VOCABULARY_SIZE, LENGTH = 10_000, 500
_SEPARATORS = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n\r\x02\x03', " "))


def words(text: str) -> list[str]:
    """Return the lower-case words of a text; an apostrophe belongs to its word.

    >>> words("Don't panic -- it's 42!")
    ["don't", 'panic', "it's", '42']
    """
    return text.lower().translate(_SEPARATORS).split()


def by_frequency(tokens: Iterable[str]) -> list[str]:
    """Return all different tokens, the most frequent first, ties by spelling."""
    counts = Counter(tokens)
    return sorted(counts, key=lambda token: (-counts[token], token))


def vocabulary(texts: Sequence[str], size: int = VOCABULARY_SIZE) -> list[str]:
    """Return the words that have ids, from the first, `FIRST_WORD`, on."""
    return by_frequency(word for text in texts for word in words(text))[: size - FIRST_WORD]


Texts = tuple[Sequence[str], np.ndarray]
"""The texts of a part and their classes."""


def encode(train: Texts, test: Texts, size: int = VOCABULARY_SIZE, length: int = LENGTH) -> dict:
    """Return both parts with texts as ids, (n, length) int16, and what follows from the `size` of the vocabulary, that of the training part.

    Ids: filling, start, unknown word, then words by frequency, at most 32,767. A text keeps its last tokens, a shorter one is
    filled in front, so that what is read last is always text. The author's program has 20,000 words, the dissertation names no number; 10,000 is our choice. This is the convention of the widely used Keras encodings of
    IMDB and Reuters, except that Keras leaves the id 3 unused.
    """
    ids = {word: i for i, word in enumerate(vocabulary(train[0], size), FIRST_WORD)}

    def sequence(text: str) -> np.ndarray:
        tokens = [START, *(ids.get(word, UNKNOWN) for word in words(text))][-length:]
        return np.array([PAD] * (length - len(tokens)) + tokens, np.int32)

    parts = {
        name: (np.stack([sequence(text) for text in texts]), targets)
        for name, (texts, targets) in (("train", train), ("test", test))
    }
    return parts | {"valid_max": size - 1, "vocabulary_size": size}


# ------------------------------------------------------------------------------- IMDB: A. Maas et al. 2011

STARS = {1: 0, 2: 0, 3: 1, 4: 1, 7: 2, 8: 2, 9: 3, 10: 3}
"""Class by printed stars, in the form of Yelp-5; ratings of 5 and 6 are not in the data."""

Reviews = list[tuple[str, str]]
"""(name, text) of reviews; a name is <class>/<id>_<stars>."""


@reader
def reviews(
    stars: bool = False,
    vectors: bool = False,
    vocabulary_size: int = VOCABULARY_SIZE,
    length: int = LENGTH,
) -> dict:
    """Return 25,000 + 25,000 film reviews, the official split: half of them favourable, class 1; or four classes of stars.

    With `vectors` those of their words come along, ``glove``.
    """
    train, test = (([text for _, text in part], labels(part, stars)) for part in read_reviews())
    found = encode(train, test, vocabulary_size, length)
    if not vectors:
        return found
    return found | _glove(vocabulary(train[0], vocabulary_size), found["train"][0])


def read_reviews() -> tuple[Reviews, Reviews]:
    """Return the reviews for training and testing, in one order whatever the container: by class, then by number."""
    parts: dict[str, Reviews] = {"train": [], "test": []}
    if mirror() is None:
        wanted = r"aclImdb/(train|test)/((?:neg|pos)/\d+_\d+)\.txt"
        for path, content in members(fetch("imdb", "aclImdb_v1.tar.gz"), wanted):
            part, name = re.fullmatch(wanted, path).groups()
            parts[part].append((name, content.decode("utf-8")))
    else:  # one review a line: its name, a tab, its text (which may hold further tabs)
        for part, read in parts.items():
            text = unpacked(fetch("imdb", f"aclImdb_{part}.txt.gz")).decode("utf-8")
            lines = text.removesuffix("\n").split("\n")
            read += [tuple(line.split("\t", 1)) for line in lines]

    def place(review: tuple[str, str]) -> tuple[str, int]:
        label, rest = review[0].split("/")
        return label, int(rest.split("_")[0])

    return tuple(
        sorted(((name, text.replace("<br />", " ")) for name, text in part), key=place)
        for part in parts.values()
    )


def labels(reviews: Reviews, stars: bool = False) -> np.ndarray:
    """Return 1 for a favourable review and 0 for another; or the class of each by its `stars`.

    >>> labels([("neg/0_2", "bad"), ("pos/17_10", "good")], stars=True).tolist()
    [0, 3]
    """
    if stars:
        return np.array([STARS[int(name.rsplit("_", 1)[1])] for name, _ in reviews])
    return np.array([int(name.startswith("pos")) for name, _ in reviews])


# UnICORNN's program takes GloVe's vectors and draws those of unknown words from N(0, 1). The mirror has GloVe's most frequent words
# alone, so what they cover is kept with the data.
MEMBER, SIZE, SEED = "glove.6B.100d.txt", 100, 6


def _glove(known: list[str], tokens: np.ndarray) -> dict:
    """Return the vectors of the known words, and which share of the `tokens` has one of GloVe's."""
    if mirror() is None:
        text = member(fetch("glove", "glove.6B.zip"), MEMBER)
    else:
        text = unpacked(fetch("glove", "glove.6B.100d.top.txt.gz"))
    glove, has_one = glove_vectors(io.StringIO(text.decode("utf-8")), known)
    in_glove = np.isin(tokens, FIRST_WORD + np.flatnonzero(has_one))
    substitute = (
        f"GloVe's vectors for {has_one.sum():,} of {len(known):,} words, "
        f"{in_glove.sum() / (tokens >= START).sum():.0%} of the training tokens, and random ones for the others"
    )
    return {"substitute": "" if has_one.all() else substitute, "vectors": {"glove": glove}}


def glove_vectors(lines: Iterable[str], words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the embedding (3 + n, 100) of the words and whether each has a vector of GloVe's, (n,) bool.

    GloVe's file has a word and its numbers a line. Words without a vector get N(0, 1), filling, start and unknown words zeros.
    """
    places = {word: place for place, word in enumerate(words, FIRST_WORD)}
    shape = FIRST_WORD + len(words), SIZE
    embedding = np.random.default_rng(SEED).standard_normal(shape, np.float32)
    embedding[:FIRST_WORD], has_one = 0, np.zeros(shape[0], bool)
    for line in lines:
        word, *values = line.rstrip("\n").split(" ")
        if place := places.get(word):
            embedding[place] = np.array(list(map(float, values))).reshape(SIZE)
            has_one[place] = True
    return embedding, has_one[FIRST_WORD:]


# ------------------------------------------------------------------------------- Reuters-21578: D. D. Lewis

FEWEST = 15
EVERY = 4
"""The text measures on at least 2,800 sequences (3.5): a quarter of 11,228 documents is 2,807."""


@reader
def reuters() -> dict:
    """Return news of 1987 by topic; by topic and then time, every fourth document is for testing.

    The 46 classes known from Keras follow from the files: documents with a topic, the first topic as the label, topics with at
    least 15 documents.
    """
    documents = [document for content in _news() for document in parse(content)]
    counts = Counter(topic for topic, _ in documents)
    topics = sorted(topic for topic, count in counts.items() if count >= FEWEST)
    kept = [(topics.index(topic), text) for topic, text in documents if topic in topics]
    labels = np.array([label for label, _ in kept])
    test = np.zeros(len(labels), bool)
    test[np.argsort(labels, kind="stable")[EVERY - 1 :: EVERY]] = True
    texts = np.array([text for _, text in kept], dtype=object)
    parts = encode((texts[~test], labels[~test]), (texts[test], labels[test]))
    return parts | {"outputs": len(topics)}


def parse(content: str) -> Iterator[tuple[str, str]]:
    """Give (first topic, title and body) of each document that has a topic."""
    for document in _inside("REUTERS", content):
        topics = _inside("D", _inside("TOPICS", document)[0])
        if not topics:
            continue
        text = _inside("TEXT", document)[0]
        parts = [*_inside("TITLE", text)[:1], *_inside("BODY", text)[:1]]
        # Some documents are unprocessed: all they have is the bare text.
        bare = "\n".join(parts) if parts else re.sub("<[^>]*>", " ", text)
        yield topics[0], html.unescape(bare)


def _inside(tag: str, text: str) -> list[str]:
    """Return what stands between each pair of a tag."""
    return re.findall(rf"<{tag}(?: [^>]*)?>(.*?)</{tag}>", text, re.DOTALL)


def _news() -> list[str]:
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


# ------------------------------------------------------------------------------- streams: predict the next token

ROW = 50
"""Tokens of a row in the prepared file; the rows follow each other, and tasks cut them anew."""


def tokens_of(text: str, unit: str) -> list[str]:
    """Return the words or the characters, a blank as ``_``, of a text with one sentence a line, and a mark after each sentence."""
    lines = (line.split() for line in text.splitlines())
    sentences = ({"words": line, "characters": "_".join(line)}[unit] for line in lines)
    return [token for sentence in sentences for token in (*sentence, "<eos>")]


@reader
def penn_treebank(unit: str) -> dict:
    """Return Penn Treebank (M. Marcus et al. 1993) as a stream of words or characters."""
    names = [f"ptb.{part}.txt" for part in ("train", "valid", "test")]
    if mirror() is None:
        texts = [fetch("ptb", name).read_bytes() for name in names]
    else:
        texts = [unpacked(fetch("ptb", f"{name}.gz")) for name in names]
    return stream(*(tokens_of(text.decode("utf-8"), unit) for text in texts))


@reader
def markov_stream(unit: str) -> dict:
    """Return sentences of a Markov chain as a stream, for runs of seconds."""
    rng = np.random.default_rng(9)
    spoken = markov_text.language(100, rng)
    parts = [markov_text.sentences(spoken, count, rng) for count in (1000, 150, 150)]
    return stream(*(tokens_of("\n".join(part), unit) for part in parts))


def stream(train: Sequence[str], validation: Sequence[str], test: Sequence[str]) -> dict:
    """Return three streams of tokens with the next token as the target at every step; the vocabulary is that of the first."""
    ids = {token: k for k, token in enumerate(by_frequency(train))}
    parts = {}
    for part, tokens in {"train": train, "validation": validation, "test": test}.items():
        parts[part] = cut(np.array([ids[token] for token in tokens], np.int32), ROW)
    size = len(ids)
    return parts | {"outputs": size, "valid_max": size - 1, "vocabulary_size": size}


@reader
def markov_reviews() -> dict:
    """Return made-up reviews of 80 tokens in four classes, for runs of seconds."""
    rng, size, test = np.random.default_rng(8), 800, 200
    texts, targets = markov_text.reviews(markov_text.language(500, rng), size, 4, rng)
    train, test = (texts[test:], targets[test:]), (texts[:test], targets[:test])
    return encode(train, test, FIRST_WORD + len(vocabulary(train[0])), length=80)
