"""Titles of publications, chapters and artifacts, as readers see them."""

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
"""Words of the ids of artifacts and their parts as the papers write them."""
_OWN_NAMES = {
    "own-adding-adjoints": "Adding problem: adjoint states",
    "own-adding-scaled": "Adding problem: adjoint states if W is scaled",
    "own-behaviors-by-task": "Behaviors by task",
    "own-blank-inputs": "Gradients behind blank inputs",
    "own-claims-by-border": "Claims by threshold",
    "own-exponential-kink": "Published tables with and without the exponential RNN",
    "own-fast-slow": "Fast-slow system: one trajectory",
    "own-fast-slow-curves": "Fast-slow system: error during training",
    "own-fast-slow-solvers": "Fast-slow system: two solvers",
    "own-fig-padding-balance": "Padded images: adjoint ratio and accuracy of all methods",
    "own-intervention-dose": "Gradient intervention: decay added",
    "own-intervention-effects": "Gradient intervention: effects",
    "own-intervention-metric": "Gradient intervention: adjoint metric",
    "own-intervention-plain": "Gradient intervention: ordinary backpropagation",
    "own-intervention-predictions": "Gradient intervention: predictions",
    "own-intervention-restored": "Gradient intervention: norm kept constant",
    "own-lyapunov": "Lyapunov exponents",
    "own-noisy-images-noise": "Noise-padded CIFAR-10: kinds of noise",
    "own-one-network": "One network during training",
    "own-rings-accuracy": "LRU: accuracy by decay",
    "own-rings-costs": "LRU: accuracy lost to decay",
    "own-rings-metric": "LRU: adjoint metric",
    "own-rings-predictions": "LRU: predictions",
}
"""Names of artifacts that no paper publishes, if the words of the id would not tell a reader."""
_MODEL = re.compile(r"-model-(\d+)$")
_FAMILY = 3
"""Models of the dissertation that answer one question; a table about all has the first's number."""
SHARED = "shared"
"""Page of the notebooks that belong to no single publication."""


def own_name(artifact: str) -> str:
    """Return what readers call an artifact that no paper publishes.

    Parameters
    ----------
    artifact : str
        Id that begins with ``own-``.

    Returns
    -------
    str

    Examples
    --------
    >>> own_name("own-slope-model-5"), own_name("own-rows-model-1"), own_name("own-irnn-readings")
    ('Slope, Model 5', 'Rows, Models 1 to 3', 'iRNN readings')
    """
    if artifact in _OWN_NAMES:
        return _OWN_NAMES[artifact]
    words = artifact.removeprefix("own-")
    model = _MODEL.search(words)
    if model:  # of the dissertation's twelve
        return f"{_heading(words[: model.start()])}, {_models(int(model[1]))}"
    return _heading(words)


def _models(number: int) -> str:
    """Return a model of the dissertation, or the family that begins with it."""
    if number % _FAMILY == 1:
        return f"Models {number} to {number + _FAMILY - 1}"
    return f"Model {number}"


def natural_order(name: str) -> list[str | int]:
    """Return a key that sorts names with numbers as readers count: Model 2 before Model 10.

    Parameters
    ----------
    name : str

    Returns
    -------
    list of str and int
        Words and numbers in turn.

    Examples
    --------
    >>> sorted(["model 10", "model 2"], key=natural_order)
    ['model 2', 'model 10']
    """
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def part_name(part: str) -> str:
    """Return what readers call a part of an artifact.

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


def paper_name(paper: str) -> str:
    """Return what readers call a publication, such as ``LEM``.

    Parameters
    ----------
    paper : str
        A key of `PUBLICATIONS`, `OURS` or `SHARED`.

    Returns
    -------
    str
    """
    if paper in PUBLICATIONS:
        return PUBLICATIONS[paper].name
    return {SHARED: "Data, cells and speed", OURS: "Our own work"}.get(paper, label(paper))


def chapter_name(paper: str, chapter: str) -> str:
    """Return what readers call a chapter of the dissertation, or a section of a paper.

    Parameters
    ----------
    paper : str
        A key of `PUBLICATIONS`.
    chapter : str
        Its number or letter; empty for the whole publication.

    Returns
    -------
    str
        Such as ``LEM, section 5``.
    """
    if not chapter:
        return paper_name(paper)
    if paper == "dissertation":
        return f"{paper_name(paper)}, chapter {chapter}"
    if chapter.isalpha():
        return f"{paper_name(paper)}, appendix {chapter}"
    return f"{paper_name(paper)}, section {chapter}"


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
