"""Titles of publications, chapters and artefacts, as readers see them."""

import re

from study.results.names import PUBLICATIONS, label

OURS = "ours"
"""Page of the figures that no paper publishes."""
_SPELLED = {
    "gpu": "GPU",
    "imdb": "IMDB",
    "irnn": "iRNN",
    "jacobian": "Jacobian",
    "lem": "LEM",
    "lu": "LU",
    "lyapunov": "Lyapunov",
    "ncifar": "nCIFAR-10",
    "psmnist": "psMNIST",
    "unicornn": "UnICORNN",
}
"""Words of the ids of artefacts and their parts as the papers write them."""
SHARED = "shared"
"""Page of the notebooks that belong to no single publication."""


def own_name(artefact: str) -> str:
    """Return what readers call an artefact that no paper publishes.

    Parameters
    ----------
    artefact : str
        Id that begins with ``own-``.

    Returns
    -------
    str

    Examples
    --------
    >>> own_name("own-slope-model-5"), own_name("own-irnn-readings")
    ('Slope model 5', 'iRNN readings')
    """
    return _heading(artefact.removeprefix("own-"))


def part_name(part: str) -> str:
    """Return what readers call a part of an artefact.

    Parameters
    ----------
    part : str
        Its name in files, such as ``by-learning-rate``; empty for the main part.

    Returns
    -------
    str

    Examples
    --------
    >>> part_name("by-learning-rate"), part_name("ncifar")
    ('By learning rate', 'nCIFAR-10')
    """
    return _heading(part)


def _heading(words: str) -> str:
    """Return words that hyphens join as a heading."""
    first, *others = [_SPELLED.get(word, word) for word in words.split("-")]
    if first.islower():
        first = first.capitalize()
    return " ".join([first, *others])


def text_name(text: str) -> str:
    """Return what readers call a publication, such as ``LEM``.

    Parameters
    ----------
    text : str
        A key of `PUBLICATIONS`, `OURS` or `SHARED`.

    Returns
    -------
    str
    """
    if text in PUBLICATIONS:
        return PUBLICATIONS[text].name
    return {SHARED: "Data, cells and speed", OURS: "Our own work"}.get(text, label(text))


def chapter_name(text: str, chapter: str) -> str:
    """Return what readers call a chapter of the dissertation, or a section of a paper.

    Parameters
    ----------
    text : str
        A key of `PUBLICATIONS`.
    chapter : str
        Its number or letter; empty for the whole publication.

    Returns
    -------
    str
        Such as ``LEM, section 5``.
    """
    if not chapter:
        return text_name(text)
    if text == "dissertation":
        return f"{text_name(text)}, chapter {chapter}"
    if chapter.isalpha():
        return f"{text_name(text)}, appendix {chapter}"
    return f"{text_name(text)}, section {chapter}"


def slug(verdict: str) -> str:
    """Return a verdict as a word for addresses and CSS classes.

    Parameters
    ----------
    verdict : str
        As readers see it.

    Returns
    -------
    str
        Lowercase words as they are, joined by hyphens.

    Examples
    --------
    >>> slug("not judged yet")
    'not-judged-yet'
    """
    return "-".join(re.findall(r"\w+", verdict))
